"""The handle of a run: its status from the folder's files about guards, machines and records."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gnnqlab.errors import WorkerFailed
from gnnqlab.launch import Run, cleanup, runs
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.records.missing_ranks import missing_ranks_error
from tests.launch.conftest import config
from tests.run.folders import run_folder
from tests.slow_down import HANG_S


def test_a_handle_needs_a_run_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a run folder must hold config.json, got .*; runs\(\) lists the runs"):
        Run(tmp_path)
    assert runs(tmp_path) == [] and runs(tmp_path / "nowhere") == []


def made(root: Path, **status: object) -> Run:
    """Make a run folder without processes."""
    return run_folder(root, "20260101-000000-made-0000", config(2), **{"state": "running", "epoch": 3, **status})


def test_a_run_that_never_got_its_guard_is_no_running_run(tmp_path: Path) -> None:
    run = made(tmp_path, state="starting", time=time.time() - 60)
    assert run.status == "failed"
    with pytest.raises(WorkerFailed, match="ended before the guard had started"):
        run.wait()


def test_run_with_training_workers_is_running_before_its_guard_polls(tmp_path: Path) -> None:
    run = made(tmp_path, state="starting", epoch=-1, time=time.time())
    heartbeats = [Heartbeat(run.folder / "heartbeat" / f"rank{rank}", rank) for rank in range(2)]
    assert run.status == "starting" and run.epoch == -1
    for heartbeat in heartbeats:
        heartbeat.phase("compute", epoch=0)
    assert run.status == "running" and run.epoch == 0 and "running, epoch 0" in repr(run)


def test_a_run_of_another_machine_is_stopped_there(tmp_path: Path) -> None:
    run = made(tmp_path)
    guard = {"place": {"host": "elsewhere"}, "guard": [1, 1], "agent": [1, 1], "workers": {}}
    files.write_json(run.folder / "guard.json", guard)
    with pytest.raises(RuntimeError, match="must be stopped where its processes are, on elsewhere, got a call on"):
        run.stop()
    ended = made(tmp_path / "ended", state="finished")
    files.write_json(ended.folder / "guard.json", guard)
    assert ended.stop() is ended  # nothing is left to stop


def test_stop_raises_in_another_container_and_does_nothing_after_a_restart(tmp_path: Path) -> None:
    run = made(tmp_path)
    guard = {"place": {**processes.place(), "pids": "another"}, "guard": [1, 1], "agent": [1, 1], "workers": {}}
    files.write_json(run.folder / "guard.json", guard)
    with pytest.raises(RuntimeError, match="must be stopped in the container that launched it"):
        run.stop()
    files.write_json(run.folder / "guard.json", {**guard, "place": {**processes.place(), "boot": "before"}})
    assert run.stop() is run


def test_launch_without_a_first_status_is_failed_once_its_configuration_is_old(tmp_path: Path) -> None:
    run = made(tmp_path)
    (run.folder / "status.json").unlink()
    assert run.status == "starting"
    os.utime(run.folder / "config.json", (time.time() - 60,) * 2)
    assert run.status == "failed" and "ended before the guard had started" in run.cause


def test_run_of_another_machine_counts_as_running_and_is_not_cleaned_up(tmp_path: Path) -> None:
    run = made(tmp_path)
    guard = {"place": {"host": "elsewhere"}, "guard": [1, 1], "agent": [1, 1], "workers": {}}
    files.write_json(run.folder / "guard.json", guard)
    assert run.status == "running" and run.epoch == 3 and cleanup(tmp_path) == []


def test_a_run_without_the_records_of_a_rank_is_not_finished(tmp_path: Path) -> None:
    run = made(tmp_path, state="finished")
    assert run.status == "finished"  # no training has written to this folder
    (run.folder / "facts.json").write_text("{}")
    assert run.status == "failed" and "got none of rank(s) 0, 1" in run.cause
    (run.folder / "records-rank0.jsonl").write_text('{"epoch":0,"rank":0,"loss":1.0}\n')
    (run.folder / "records-rank1.jsonl").touch()
    text = r"a run must have the records of its 2 workers, got none of rank\(s\) 1 in .*machines of one run must share"
    assert run.status == "failed" and run.errors[0].rank == -1
    with pytest.raises(WorkerFailed, match=text):
        run.wait()
    assert missing_ranks_error(run.folder, 2, ended=False) == ""  # while it trains, the second may write a moment later
    (run.folder / "records-rank1.jsonl").unlink()
    with pytest.raises(RuntimeError, match=text):
        assert run.summary
    (run.folder / "records-rank1.jsonl").write_text('{"epoch":0,"rank":1,"loss":1.0}\n')
    assert run.status == "finished" and run.cause == ""


def test_the_status_of_a_run_is_that_of_all_its_machines(tmp_path: Path) -> None:
    run = made(tmp_path, state="finished", cause="")
    second = run.folder / "status-node1.json"
    files.write_json(second, {"state": "running", "epoch": 3, "cause": "", "errors": []})
    assert run.status == "running"
    files.write_json(second, {"state": "failed", "cause": "rank 1 was killed", "errors": [], "epoch": 3})
    assert (run.status, run.cause) == ("failed", "rank 1 was killed")
    lost = {"cause": "rank 0 lost its connection", "rank": 0, "phase": "wait", "epoch": 3, "consequence": True}
    files.write_json(run.folder / "status.json", {"state": "failed", "cause": lost["cause"], "errors": [lost]})
    assert run.cause == "rank 1 was killed"
    (run.folder / "status.json").unlink()  # a folder that the first machine does not see
    assert run.status == "failed"


def test_cleanup_ends_strays_and_only_them(tmp_path: Path) -> None:
    run = made(tmp_path)
    stray, stranger = (subprocess.Popen(["sleep", "3600"]) for _ in range(2))
    try:
        guard = {
            "place": processes.place(),
            "guard": [stray.pid, 1],  # a process id that another process has now
            "agent": [stray.pid, processes.start_time(stray.pid)],
            "workers": {"0": [stranger.pid, processes.start_time(stranger.pid) - 1]},
        }
        files.write_json(run.folder / "guard.json", guard)
        assert run.status == "failed" and "the guard of the run was killed" in run.errors[0].cause
        (found,) = cleanup(tmp_path)
        assert (found.run, found.role, found.pid) == (run.id, "agent", stray.pid)
        assert stray.wait(timeout=HANG_S) == -signal.SIGKILL and stranger.poll() is None
        assert cleanup(tmp_path) == []
    finally:
        stray.kill(), stranger.kill()
        stray.wait(), stranger.wait()


def test_a_repr_never_raises(tmp_path: Path) -> None:
    run = made(tmp_path, cause="<b>rank 1</b> was killed", state="failed")
    assert "&lt;b&gt;rank 1" in run._repr_html_() and "2 (cpu, gloo)" in run._repr_html_()
    (run.folder / "config.json").write_text("{")
    (run.folder / "status.json").write_text('{"state": 3}')
    assert "made" in repr(run) and "made" in run._repr_html_()


def test_open_report_without_a_report_raises_runtime_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="has no report yet, got status finished"):
        made(tmp_path, state="finished").open_report()
