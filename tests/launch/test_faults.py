"""Every fault of a run: its rank, its place, the seconds until its report, and that nothing is left."""

import json
import os
import signal
import subprocess
import sys

import pytest

from gnnqlab.errors import WorkerFailed
from gnnqlab.launch import Run, runs
from tests.launch.conftest import GONE_S, REPOSITORY, Bench, wait_until
from tests.slow_down import HANG_S, in_time


def failed(bench: Bench, fault: dict[str, object], workers: int = 3, **settings: object) -> tuple[Run, float, str]:
    """A run with a fault, the seconds until it was reported, and the message of ``wait``.

    The promised seconds are checked for one fault of each way in which the guard detects it.
    """
    bench.set(FAKE_EPOCHS=100_000, GNNQLAB_FAULT=json.dumps({"rank": 1, **fault}))
    run = bench.launch(workers, **settings)
    with pytest.raises(WorkerFailed) as caught:
        run.wait(timeout=HANG_S)
    fault_ns = int((run.folder / "heartbeat" / f"fault-rank{fault.get('rank', 1)}").read_text())
    reported = next(event for event in run.events if event["event"] in ("stalled", "failed"))
    seconds = (reported["monotonic_ns"] - fault_ns) / 1e9
    print(f"{fault}: reported after {seconds:.2f} s: {caught.value}")
    assert run.status == "failed"
    return run, seconds, str(caught.value)


@pytest.mark.parametrize(
    "phase, epoch, delay, where",
    [
        ("partition", None, 0.0, "while partitioning the graph"),
        ("init", None, 0.0, "while joining the process group"),
        ("wait", 3, 0.0, "in epoch 3 while waiting for boundary messages"),
        ("compute", 2, 0.01, "in epoch 2 while computing"),
    ],
)
def test_a_killed_rank(bench: Bench, phase: str, epoch: int | None, delay: float, where: str) -> None:
    if delay:
        bench.set(FAKE_UNTIL="killed")  # the last rank computes until then
    fault = {"kind": "kill", "phase": phase, "epoch": epoch, "delay": delay}
    run, seconds, message = failed(bench, fault, workers=2 if delay else 3)
    assert message.startswith(f"rank 1 was killed (signal 9, SIGKILL) {where}; see ")
    first = run.errors[0]
    assert (first.rank, first.signal, first.phase, first.epoch) == (1, 9, phase, -1 if epoch is None else epoch)
    assert all(error.consequence for error in run.errors[1:])
    assert in_time(seconds, 2.0)


def test_killed_rank_is_named_without_an_exit_status_and_a_log(bench: Bench) -> None:
    (bench.root / "sitecustomize.py").write_text(
        "from gnnqlab.run import folder, processes\n"
        "processes.exit_status = lambda *_: None\n"
        "folder.tail = lambda *_: ''\n"
    )
    bench.set(PYTHONPATH=f"{bench.root}{os.pathsep}{REPOSITORY}")
    _, _, message = failed(bench, {"kind": "kill", "phase": "init"})
    assert message.startswith("rank 1 was killed (signal 9, SIGKILL) while joining the process group; see ")


def test_a_crashed_rank(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bench.root)
    run, _, message = failed(bench, {"kind": "segv", "phase": "reduce", "epoch": 2})
    assert message.startswith("rank 1 was killed (signal 11, SIGSEGV) at train/fault.py:")
    assert "(_act), in epoch 2 while summing gradients over the workers; see " in message
    assert "Segmentation fault" in run.errors[0].traceback and "fakes.py" in run.errors[0].traceback
    assert not list(bench.root.glob("core*"))


def test_an_exception(bench: Bench) -> None:
    run, seconds, message = failed(bench, {"kind": "raise", "phase": "encode", "epoch": 4, "rank": 2})
    assert message.startswith(
        "rank 2 raised ArithmeticError: a fault on purpose in phase encode, in epoch 4 while encoding messages; see "
    )
    assert 'fakes.py", line' in run.errors[0].traceback
    assert run.errors[0].traceback.startswith("Traceback (most recent call last):")
    assert run.errors[0].traceback in run.log(2)
    assert in_time(seconds, 2.0)


def test_a_rank_that_leaves_early(bench: Bench) -> None:
    _, _, message = failed(bench, {"kind": "exit", "phase": "wait", "epoch": 2})
    assert message.startswith("rank 1 exited with code 3 before it was finished, in epoch 2 while waiting")


def test_a_stopped_rank_with_the_rules_as_they_are(bench: Bench) -> None:
    run, seconds, message = failed(bench, {"kind": "stop", "phase": "reduce", "epoch": 3})
    assert message.startswith("rank 1 was stopped (SIGSTOP) and has not moved for ")
    assert "in epoch 3 while summing gradients" in message
    assert run.errors[0].signal == signal.SIGSTOP
    assert in_time(seconds, 5.0)  # 10 s are promised
    whole_s = (run.events[-1]["monotonic_ns"] - run.events[-2]["monotonic_ns"]) / 1e9 + seconds
    print(f"ended after {whole_s:.2f} s")
    assert in_time(whole_s, 10.0)


def test_a_hung_rank_shows_where(bench: Bench) -> None:
    fault: dict[str, object] = {"kind": "sleep", "phase": "compute", "epoch": 3}
    run, _, message = failed(bench, fault, stall_report_s=1.0, stall_stop_s=2.5)
    assert message.startswith("rank 1 hangs: it has slept for") and "in epoch 3 while computing" in message
    assert "in _act" in run.errors[0].traceback  # the line in which it hangs


def test_a_slow_rank_is_no_failure(bench: Bench) -> None:
    bench.set(FAKE_UNTIL="slow recovered")
    run = bench.launch(stall_report_s=0.6).wait()
    assert run.status == "finished" and run.errors == []
    kinds = [event["event"] for event in run.events]
    assert "slow" in kinds and "recovered" in kinds


def test_workers_that_cannot_even_start(bench: Bench) -> None:
    bench.fit = "tests.launch.nowhere:fit"
    with pytest.raises(WorkerFailed, match="raised ModuleNotFoundError: No module named 'tests.launch.nowhere'"):
        bench.launch(2).wait()


def test_the_launching_process_is_killed(bench: Bench) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    code = (
        "import time; from tests.launch.conftest import FAKE, config; from gnnqlab.launch import launch; "
        f"run = launch(config(3), root={str(bench.root / 'runs')!r}, fit=FAKE)\n"
        "import os\n"
        "if os.fork() == 0:\n"  # a child that survives and has inherited the pipe to the guard
        "    time.sleep(1000)\n"
        "time.sleep(1000)"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY)
    try:
        wait_until(lambda: runs(bench.root / "runs"), what="the run")
        run = bench.running(runs(bench.root / "runs")[0])
    finally:
        launcher.kill()
        launcher.wait()
    gone_s = wait_until(lambda: len(bench.processes()) == 1, promised_s=GONE_S, what="the end of all processes")
    os.kill(bench.processes()[0], signal.SIGKILL)
    print(f"launching process killed: nothing left after {gone_s:.2f} s")
    assert run.status == "stopped" and "the process that launched the run has ended" in repr(run)


def test_the_agent_is_killed(bench: Bench) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    run = bench.running(bench.launch())
    os.kill(bench.agent(run), signal.SIGKILL)
    with pytest.raises(WorkerFailed, match=r"torchrun, which started the workers, was killed \(signal 9, SIGKILL\)"):
        run.wait(timeout=HANG_S)
    assert run.errors[0].rank == -1


def test_the_guard_is_killed(bench: Bench) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    run = bench.running(bench.launch())
    os.kill(bench.guard(run), signal.SIGKILL)
    with pytest.raises(WorkerFailed, match="the guard of the run was killed"):
        run.wait(timeout=HANG_S)
    assert run.status == "failed"
    wait_until(lambda: not bench.processes(), promised_s=GONE_S, what="the end of all processes")
    run.stop()  # removes the files that the guard no longer can
    assert not (run.folder / "tmp").exists()


FULL_DISK = (
    r"raised OSError: \[Errno 28\] No space left on device \(0 bytes free on the disk of \S+/runs/\S+\), in epoch"
)


def test_a_full_disk(bench: Bench) -> None:
    place = bench.root / "runs"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        bench.set(FAKE_EPOCHS=100_000)
        run = bench.running(bench.launch(2))
        with open(place / "filling", "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(1 << 16))
        with pytest.raises(WorkerFailed, match=FULL_DISK):
            run.wait(timeout=HANG_S)
        assert "fakes.py" in run.errors[0].traceback
        wait_until(lambda: not bench.processes(), promised_s=GONE_S, what="the end of all processes")
        assert run.status == "failed"
    finally:
        for pid in bench.processes():
            os.kill(pid, signal.SIGKILL)
        subprocess.run(["umount", "-l", str(place)], check=True)
