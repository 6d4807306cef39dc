"""The life of a launched run that nothing goes wrong with, and of its handle."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gnnqlab.errors import WorkerFailed
from gnnqlab.launch import Run, cleanup, launch, runs
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.progress import Progress
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.records.left import without_records
from tests.launch.conftest import FAKE, REPOSITORY, Bench, config, wait_until
from tests.run.folders import run_folder
from tests.slow_down import HANG_S, in_time


def test_a_run_from_launch_to_its_end(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.set(FAKE_UNTIL="running")  # the guard may look first when all epochs have passed
    began = time.monotonic()
    run = bench.launch(workers=2)
    returned_s = time.monotonic() - began
    first_s = returned_s + wait_until(lambda: run.epoch >= 1, what="the first epoch")
    assert run.wait(progress=True) is run
    assert (run.status, run.epoch, run.errors) == ("finished", 4, [])
    assert Run(run.folder).status == "finished"
    assert [event["event"] for event in run.events] == ["launched", "starting", "running", "finished"]
    assert run.config == config(2)
    assert {path.name for path in run.folder.glob("records-*")} == {"records-rank0.jsonl", "records-rank1.jsonl"}
    assert "loss=0.2000" in capsys.readouterr().err
    print(f"launch returned after {returned_s:.2f} s, first epoch after {first_s:.2f} s")
    assert in_time(returned_s, 2.0)
    assert [found.id for found in runs(bench.root / "runs")] == [run.id]
    run.stop()  # of a finished run: nothing
    assert run.status == "finished"


def test_workers_have_default_signals_their_own_cores_and_no_compiler(bench: Bench) -> None:
    bench.fit = "tests.launch.fakes:inspect"
    run = bench.launch(workers=2).wait()
    facts = [files.read_json(run.folder / f"facts{rank}.json") or {} for rank in range(2)]
    cores = len(os.sched_getaffinity(0))
    assert all(fact["default_signals"] and fact["parent_death"] == signal.SIGKILL for fact in facts)
    assert all(fact["temporary"] == str(run.folder / "tmp") for fact in facts)
    assert all(fact["threads"] == max(1, cores // 2) for fact in facts)
    assert not any(fact["dynamo"] for fact in facts)  # importing torch._dynamo would cost 2 s a worker
    if cores >= 2:
        assert not set(facts[0]["cores"]) & set(facts[1]["cores"])
    assert "a line for the log" in run.log(1) and "a line for the log" not in run.log(0)


def test_a_run_started_without_fork(bench: Bench) -> None:
    run = bench.launch(workers=1, start_method="spawn", threads_per_worker=1).wait(timeout=HANG_S)
    assert run.status == "finished"


def test_stopping_at_the_end_of_a_block_and_two_runs_at_once(bench: Bench) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    with bench.launch(workers=2) as first, bench.launch(workers=2) as second:
        bench.running(first), bench.running(second)
        assert len({run.id for run in runs(bench.root / "runs")}) == 2
        with pytest.raises(TimeoutError, match=r"must end within 0.1 s to be waited for, got status running"):
            first.wait(timeout=0.1)
        first.stop()
        assert first.status == "stopped" and first.wait() is first
        at = second.epoch
        wait_until(lambda: second.epoch > at, what="the other run going on")
        assert second.status == "running"
    assert second.status == "stopped"
    assert "stopped by SIGTERM" in repr(second)


def test_an_interrupt_while_waiting_stops_the_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    run = bench.running(bench.launch(workers=1))
    # Where tests run in the background, an interrupt is ignored from the start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Progress, "show", lambda *shown: os.kill(os.getpid(), signal.SIGINT))  # once it waits
            with pytest.raises(KeyboardInterrupt):
                run.wait(timeout=HANG_S)
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.status == "stopped"


def test_a_detached_run_outlives_its_launcher_and_is_found_again(bench: Bench) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    code = (
        "from tests.launch.conftest import FAKE, config; from gnnqlab.launch import launch; "
        f"launch(config(2, detach=True), root={str(bench.root / 'runs')!r}, fit=FAKE)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
    (run,) = runs(bench.root / "runs")
    bench.running(run)
    at = run.epoch
    wait_until(lambda: run.epoch > at, what="progress without the launcher")
    run.stop(HANG_S)
    assert run.status == "stopped" and not bench.processes()


def test_the_bench_sees_shared_memory_that_its_own_processes_leave(bench: Bench) -> None:
    code = (
        "import mmap, os; path = f'/dev/shm/gnnqlab-test-{os.getpid()}'; file = open(path, 'w+b'); "
        "file.truncate(4096); shared = mmap.mmap(file.fileno(), 4096); print(path, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        path = Path(child.stdout.readline().decode().strip())
        try:
            assert bench.processes() == [child.pid]
            child.kill()
            child.wait()
            assert bench.shared_memory() == [path]
        finally:
            path.unlink()
    assert bench.shared_memory() == []


def test_a_handle_needs_a_run_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a run folder must hold config.json, got .*; runs\(\) lists the runs"):
        Run(tmp_path)
    assert runs(tmp_path) == [] and runs(tmp_path / "nowhere") == []


def made(root: Path, **status: object) -> Run:
    """A run folder without processes."""
    return run_folder(root, "20260101-000000-made-0000", config(2), **{"state": "running", "epoch": 3, **status})


def test_a_run_that_never_got_its_guard_is_no_running_run(tmp_path: Path) -> None:
    run = made(tmp_path, state="starting", time=time.time() - 60)
    assert run.status == "failed"
    with pytest.raises(WorkerFailed, match="ended before the guard had started"):
        run.wait()


def test_a_run_whose_workers_train_is_running_though_its_guard_has_not_looked_yet(tmp_path: Path) -> None:
    run = made(tmp_path, state="starting", epoch=-1, time=time.time())
    heartbeats = [Heartbeat(run.folder / "heartbeat" / f"rank{rank}", rank) for rank in range(2)]
    assert run.status == "starting" and run.epoch == -1
    for heartbeat in heartbeats:
        heartbeat.phase("compute", epoch=0)
    assert run.status == "running" and run.epoch == 0 and "running, epoch 0" in repr(run)


def test_a_run_of_another_machine_is_believed(tmp_path: Path) -> None:
    run = made(tmp_path)
    guard = {"place": {"host": "elsewhere"}, "guard": [1, 1], "agent": [1, 1], "workers": {}}
    files.write_json(run.folder / "guard.json", guard)
    assert run.status == "running" and run.epoch == 3 and cleanup(tmp_path) == []


def test_a_run_without_the_records_of_a_rank_is_not_finished(tmp_path: Path) -> None:
    run = made(tmp_path, state="finished")
    assert run.status == "finished"  # nothing that trains has written there
    (run.folder / "facts.json").write_text("{}")
    assert run.status == "failed" and "got none of rank(s) 0, 1" in run.cause
    (run.folder / "records-rank0.jsonl").write_text('{"epoch":0,"rank":0,"loss":1.0}\n')
    (run.folder / "records-rank1.jsonl").touch()
    text = r"a run must have the records of its 2 workers, got none of rank\(s\) 1 in .*machines of one run must share"
    assert run.status == "failed" and run.errors[0].rank == -1
    with pytest.raises(WorkerFailed, match=text):
        run.wait()
    assert without_records(run.folder, 2, ended=False) == ""  # while it trains, the second may write a moment later
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
            "guard": [stray.pid, 1],  # a number that somebody else has now
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


def test_a_report_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="has no report yet, got status finished"):
        made(tmp_path, state="finished").open_report()


def test_waiting_for_the_run_within_launch(bench: Bench) -> None:
    assert launch(config(1), root=bench.root / "runs", wait=True, fit=FAKE).status == "finished"
