"""Faults in the protection of runs: files, locks, failure reports, and the recorded contents of a folder."""

from tests.mutants.fault import Fault

FAULTS = (
    Fault(
        name="the wire timed where nobody looked",
        file="benchmarks/engine/link_run.py",
        before='late=messages["start_s"] > messages["posted"]',
        after='late=messages["start_s"] < messages["posted"]',
        test="benchmarks/test_link.py::test_the_wire_itself_is_timed_where_a_receiver_was_there",
        why="what a late receiver computed would count as time of the wire",
    ),
    Fault(
        name="all writers of a file share one temporary name",
        file="atomic.py",
        before="{secrets.token_hex(8)}",
        after="0",
        test="test_atomic.py::test_two_writers_of_one_file_never_meet",
        why="launches at the same moment would take each other's half-written shards",
    ),
    Fault(
        name="a lock that several hold",
        file="atomic.py",
        before="fcntl.LOCK_EX",
        after="fcntl.LOCK_SH",
        test="test_atomic.py::test_locked_work_is_done_once_and_the_lock_file_is_removed",
        why="a graph would be cut once a launch, and a download fetched twice",
    ),
    Fault(
        name="empty records count as records",
        file="train/records/missing_ranks.py",
        before="size < 0 or (ended and size == 0)",
        after="size < 0",
        test="run/test_run.py::test_a_run_without_the_records_of_a_rank_is_not_finished",
        why="half the bytes would be all of them",
    ),
    Fault(
        name="a run stands as its best machine does",
        file="run/folder.py",
        before="return min(statuses, key=rank)",
        after="return max(statuses, key=rank)",
        test="run/test_run.py::test_the_status_of_a_run_is_that_of_all_its_machines",
        why="a run of which one machine failed would be finished",
    ),
    Fault(
        name="workers look first where they would anyway",
        file="launch/worker_target.py",
        before="[*launcher_path, *(entry for entry in sys.path if entry not in launcher_path)]",
        after="[*(entry for entry in sys.path if entry not in launcher_path), *launcher_path]",
        test="launch/test_own_modules.py::test_workers_look_where_the_launching_process_does_and_in_its_order",
        why="workers could train with another module than the one that was looked at",
    ),
    Fault(
        name="reading a run imports what its file names",
        file="train/config/config_file.py",
        before="if module not in sys.modules",
        after="if module in sys.modules",
        test="cli/test_lists.py::test_reading_a_run_does_not_import_user_modules",
        why="looking at somebody's run folder would run modules that it names",
    ),
    Fault(
        name="a rank leaves before all have joined",
        file="launch/worker.py",
        before="    dist.barrier()\n",
        after="",
        test="launch/test_join.py::test_joining_ranks_wait_until_all_ranks_are_connected",
        why="a healthy run would fail, now and then, of a lost connection",
    ),
    Fault(
        name="another graph taken for the one that a run was trained on",
        file="run/own_parts.py",
        before="workers).name != shards.name:",
        after="workers).name == shards.name:",
        test="run/test_own_parts.py::test_parts_without_shards_or_the_original_graph_raise_value_error",
        why="graphs of as many nodes are cut as readily",
    ),
)
