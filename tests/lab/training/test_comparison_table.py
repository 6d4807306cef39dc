"""Compared runs: their scores are of the same epochs, and the time to accuracy counts the right epochs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.lab.figures.frames import by_epoch, phase_seconds
from gnnqlab.lab.training.comparison_table import (
    MARGIN,
    comparison_frame,
    evaluation_note,
    match_evaluations,
    seconds_to,
    usual_target,
)
from gnnqlab.lab.training.snapshot import take
from gnnqlab.train.records.evaluation_pauses import mark
from tests.lab.synthetic import make_run


def lucky(every, *, system="vanilla", epochs=40, peak=7):
    """Make a run whose best score is in one epoch alone, which a run with fewer evaluations would have missed."""
    run = make_run(system, epochs=epochs, every=every)
    run.records["time_s"] = run.records["epoch"].astype(float)
    evaluated = run.records["val_score"].notna()
    run.records.loc[evaluated & (run.records["epoch"] == peak), ["val_score", "test_score"]] = [0.99, 0.98]
    if peak % every == 0:
        run.summary |= {"best_val": 0.99, "test_accuracy": 0.98, "best_epoch": peak}
    return run


def looks(run):
    return sorted(run.records.loc[run.records["val_score"].notna(), "epoch"].unique().tolist())


def test_matched_runs_keep_only_common_evaluation_epochs():
    runs = [take(lucky(1)), take(lucky(5, system="sylvie"))]
    often, rarely = match_evaluations(runs)
    assert looks(often) == looks(rarely) == [0, 5, 10, 15, 20, 25, 30, 35, 39]
    assert rarely is runs[1] and often.summary["looks"] == 9
    assert often.summary["best_val"] < 0.99 and often.summary["test_accuracy"] < 0.98
    assert often.summary["best_epoch"] == 39
    assert (often.records["loss"] == runs[0].records["loss"]).all(), "only the scores change"
    assert match_evaluations([often, rarely])[0] is often


def test_longer_run_keeps_evaluations_after_the_end_of_a_shorter_run():
    long, short = match_evaluations([take(lucky(2, epochs=40)), take(lucky(4, epochs=10))])
    assert looks(short) == [0, 4, 8, 9]
    assert looks(long) == [0, 4, 8, *range(10, 40, 2), 39]


def test_runs_that_were_evaluated_alike_stay_as_they_are():
    runs = [take(lucky(2)), take(lucky(2, system="adaqp"))]
    assert (
        all(one is other for one, other in zip(match_evaluations(runs), runs, strict=True))
        and evaluation_note(runs) == ""
    )
    only_last = [take(lucky(40)), take(lucky(1))]
    assert looks(match_evaluations(only_last)[1]) == [0, 39]


def test_comparison_and_report_state_the_number_of_common_evaluations(tmp_path):
    runs = [lucky(1, peak=7), lucky(5, system="sylvie")]
    comparison = gq.compare(runs)
    words = "scores are of the 9 epoch(s) in which all were"
    assert words in repr(comparison) and words in comparison._repr_mimebundle_()["text/html"]
    assert words in comparison.report(tmp_path / "report.html").read_text()
    assert comparison.to_frame()["accuracy"].iloc[0] == comparison_frame(runs)["accuracy"].iloc[0] < 0.98
    # The time to accuracy leaves this lucky evaluation out too.
    assert np.isnan(gq.compare(runs, target=0.985).to_frame()["to_target_s"]).all()
    assert words not in repr(gq.compare(runs[:1]))


def test_one_run_is_not_taken_for_a_list():
    with pytest.raises(ValueError, match=r"runs must be a list of runs, got one run; pass compare\(\[run, other\]\)"):
        gq.compare(lucky(1))
    for paths in ("runs/one", Path("runs/one"), ["runs/one", "runs/other"]):
        with pytest.raises(TypeError, match=r"runs must be a list of runs, got .*runs/one.*; open a folder by gnnqlab"):
            gq.compare(paths)


def test_the_first_epoch_that_gets_there_counts_with_all_before_it():
    run = make_run(workers=2, epochs=21)  # evaluated in every second epoch
    table = by_epoch(run.records)
    at = table.iloc[12]
    between = (at["val_score"] + table["val_score"].iloc[10]) / 2
    assert seconds_to(run.records, between) == at["train_s"]
    assert seconds_to(run.records, at["val_score"]) == at["train_s"]
    assert math.isnan(seconds_to(run.records, table["val_score"].max() + 1e-6))


def test_assignment_counts_and_evaluation_does_not():
    run = make_run(epochs=5, every=1)
    before = seconds_to(run.records, 0.2)
    run.records["evaluate_s"] += 100.0
    assert seconds_to(run.records, 0.2) == before
    run.records["epoch_s"] += 0.5  # assignment, quantization and scheduling are parts of it
    epochs = by_epoch(run.records).query("val_score >= 0.2")["epoch"].iloc[0] + 1
    assert seconds_to(run.records, 0.2) == pytest.approx(before + 0.5 * epochs)


def test_an_epoch_that_an_evaluation_made_shorter_counts_as_its_neighbours():
    run = make_run(epochs=41, every=10)
    plain = run.records
    seconds = plain.groupby("epoch")["epoch_s"].max()
    spoilt = plain.assign(after_evaluation=mark(plain, 1))
    spoilt.loc[spoilt["after_evaluation"] == 1, "epoch_s"] /= 10
    others = seconds.drop([0, 1, 11, 21, 31])
    expected = seconds[0] + others[others.index <= 20].sum() + others[2] + (others[10] + others[12]) / 2
    score = by_epoch(plain).set_index("epoch")["val_score"][20]
    assert seconds_to(spoilt, score) == pytest.approx(expected)
    # The phases of a mean epoch leave these epochs out too.
    spoilt.loc[spoilt["after_evaluation"] == 1, "wait_s"] = 0.0
    rest = plain.query("epoch > 0 and epoch % 10 != 1")
    assert phase_seconds(spoilt)["wait_s"].iloc[0] == pytest.approx(rest["wait_s"].mean())


def test_one_slow_epoch_shows_in_the_headline_training_speed_up(tmp_path):
    """One epoch of many: no median includes it; the whole training and the time to accuracy do."""
    reference = make_run(epochs=40)
    other = make_run("adaqp", bits=4, epochs=40)
    other.records["epoch_s"] = reference.records["epoch_s"].to_numpy() / 2
    other.records.loc[other.records["epoch"] == 3, "epoch_s"] += 100.0
    for run in (reference, other):
        seconds = run.records.groupby("epoch")["epoch_s"].max()
        run.summary |= {"train_s": seconds.sum(), "epoch_s": seconds.median()}
    frame = gq.compare([reference, other], target=0.5).to_frame()
    line = frame.loc["adaqp"]
    assert line["speedup"] == pytest.approx(2.0) and line["faster"] < 0.5
    assert line["faster"] == pytest.approx(reference.summary["train_s"] / other.summary["train_s"])
    assert line["faster_to_target"] == pytest.approx(frame["to_target_s"].iloc[0] / line["to_target_s"])
    assert "2.00 ×" not in repr(gq.compare([reference, other]))
    text = gq.compare([reference, other], target=0.5).report(tmp_path / "r.html").read_text(encoding="utf-8")
    cards = text[text.index('class="facts"') : text.index("</dl>")]
    assert "2.00 ×" not in cards and f"{line['faster']:.2f} ×" in cards and "Speed" not in cards


def test_target_is_half_a_point_below_vanilla_for_any_order_of_runs():
    runs = [make_run("fixed-bits", bits=2), make_run("vanilla", epochs=10)]
    comparison = gq.compare(runs)
    assert comparison.target == runs[1].summary["best_val"] - MARGIN
    assert usual_target(gq.compare(runs[:1]).runs) == runs[0].summary["best_val"] - MARGIN
    frame = comparison.to_frame()
    assert frame["to_target_s"].notna().all()
    assert f"to {100 * comparison.target:.1f} %" in repr(comparison)


def test_a_target_of_ones_own_and_a_run_that_misses_it():
    runs = [make_run("vanilla"), make_run("fixed-bits", bits=2, epochs=4)]
    comparison = gq.compare(runs, target=0.9)
    assert comparison.to_frame()["to_target_s"].isna().tolist() == [False, True]
    assert "not reached" in repr(comparison) and "to 90.0 %" in repr(comparison)


def test_the_report_shows_it(tmp_path):
    page = gq.compare([make_run("vanilla"), make_run("fixed-bits", bits=2, epochs=4)], target=0.9).report(
        tmp_path / "report.html"
    )
    text = page.read_text()
    assert "time to 90.00 % on validation" in text and "not reached" in text


def test_runs_without_validation_have_no_target():
    run = make_run()
    run.summary["best_val"] = None
    comparison = gq.compare([run])
    assert math.isnan(comparison.target) and comparison.to_frame()["to_target_s"].isna().all()
    assert "not reached" not in repr(comparison)


def test_a_target_that_is_no_score_is_refused():
    with pytest.raises(ValueError, match=r"target must be a validation score in \[0, 1\], got 95; write 0.95"):
        gq.compare([make_run()], target=95)
