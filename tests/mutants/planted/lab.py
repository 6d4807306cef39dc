"""Faults in what is shown: tables and figures of true records that say something else."""

from tests.mutants.fault import Fault

FAULTS = (
    Fault(
        name="senders and receivers swapped on the map",
        file="lab/figures/frames.py",
        before='total.groupby([traffic["sender"], traffic["receiver"]])',
        after='total.groupby([traffic["receiver"], traffic["sender"]])',
        test="lab/figures/test_frames.py::test_who_sends_has_the_row_and_who_receives_the_column",
        why="most traffic is the same both ways, so the map looks right",
    ),
    Fault(
        name="bytes of a worker told as bytes of an epoch",
        file="lab/figures/frames.py",
        before='    epochs = max(records["epoch"].nunique(), 1)',
        after="    epochs = max(len(records), 1)",
        test="lab/figures/test_frames.py::test_volume_is_split_into_payload_and_parameters",
        why="savings would be divided by the number of workers",
    ),
    Fault(
        name="the last epoch told as the time so far",
        file="lab/figures/frames.py",
        before='table["train_s"] = epoch_seconds(records).cumsum()',
        after='table["train_s"] = epoch_seconds(records)',
        test="lab/figures/test_frames.py::test_by_epoch_counts_the_slowest_worker",
        why="time to accuracy would be the time of one epoch",
    ),
    Fault(
        name="a share divided by ten",
        file="lab/training/hiding_table.py",
        before='100 * table["central"] / both',
        after='10 * table["central"] / both',
        test="lab/training/test_timeline_view.py::test_the_table_of_workers",
        why="what overlap can hide would look like nothing",
    ),
    Fault(
        name="ratios upside down",
        file="lab/training/comparison_table.py",
        before="return float(reference) / float(value)",
        after="return float(value) / float(reference)",
        test="lab/figures/test_frames.py::test_comparison_is_against_the_first_run",
        why="a system that sends more would seem to send less",
    ),
    Fault(
        name="mean width of messages, not of rows",
        file="lab/course/width_plan_views.py",
        before='(traffic["bits"] * traffic["rows"]).groupby',
        after='(traffic["bits"] * traffic["rows"].mean()).groupby',
        test="lab/course/test_width_plan_views.py::test_rows_weigh_the_mean",
        why="a few rows in eight bits would weigh like all others in one",
    ),
    Fault(
        name="the shares of a cache are of the rows that stayed home",
        file="lab/training/cache_view.py",
        before='return (sums["rows_sent"] / sums["rows_offered"])',
        after='return (1 - sums["rows_sent"] / sums["rows_offered"])',
        test="lab/training/test_cache_view.py::test_the_picture_is_what_was_recorded",
        why="half of the rows looks right either way",
    ),
    Fault(
        name="a codec is chosen whatever its bytes",
        file="lab/course/codec_views.py",
        before='fits = part[part["row_bytes"] <= room * float(asked["row_bytes"].iloc[0])]',
        after="fits = part",
        test="lab/course/test_codec_views.py::test_the_cheapest_fits_the_bytes_of_what_it_is_held_against",
        why="more bits always look better",
    ),
    Fault(
        name="more bytes are no matter in an exercise",
        file="lab/course/graded.py",
        before="if ours_bytes > theirs_bytes:",
        after="if ours_bytes > 2 * theirs_bytes:",
        test="lab/course/test_graded.py::test_less_noise_in_more_bytes_is_no_answer",
        why="eight bits everywhere would be the answer",
    ),
)
