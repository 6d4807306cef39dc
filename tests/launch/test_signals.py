"""A signal to any process of a run ends it after its epoch, with a checkpoint; a resumed run continues bit for bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.errors import RunInterrupted
from gnnqlab.launch.guard import Guard
from gnnqlab.launch.hosts import RunLink
from gnnqlab.launch.stall import Rules
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.waiting import WaitingSignals
from gnnqlab.train.heartbeat import Pulse
from gnnqlab.train.stop_request import STOP, request_stop, requested_by
from tests.launch.conftest import config
from tests.launch.fakes import UNHURRIED
from tests.slow_down import HANG_S, wait_until

SETTINGS = {"layers": 2, "hidden": 8, "workers": 2, "epochs": 100_000, "observers": UNHURRIED}


def launched(root: Path, **settings: object) -> gq.Run:
    run = gq.launch("sbm:60,3,6", out=root, **{**SETTINGS, **settings})
    wait_until(lambda: run.epoch >= 2 and run.status == "running", what="the third epoch")
    return run


def pid_of(run: gq.Run, victim: str) -> int:
    """Return the pid of the guard, the agent or the second worker."""
    guard = files.read_json(run.folder / "guard.json")
    assert guard is not None
    return {"guard": guard["guard"], "agent": guard["agent"], "worker": guard["workers"]["1"]}[victim][0]


def losses(run: gq.Run) -> list[float]:
    records = run.records
    return records[records["rank"] == 0].sort_values("epoch")["loss"].tolist()


def assert_continues(interrupted_runs: list[gq.Run], root: Path) -> None:
    """Check the checkpoint of each run, and that it continues as an uninterrupted run."""
    resumed_runs = []
    for run in interrupted_runs:
        epoch = int(run.records["epoch"].max())
        assert [path.name for path in run.folder.glob("checkpoints/*")] == [f"epoch-{epoch + 1:06d}.safetensors"]
        assert f"at epoch {epoch}; resume with gnnqlab train --resume {run.folder}" in run.cause
        run.predict()  # the model was written
        resumed_runs.append(run.resume(epochs=epoch + 4, wait=True))
    epochs = max(len(losses(run)) for run in resumed_runs)
    straight_run = gq.launch("sbm:60,3,6", out=root, wait=True, **{**SETTINGS, "epochs": epochs})
    for run in resumed_runs:
        assert losses(run) == losses(straight_run)[: len(losses(run))]


def interrupted(root: Path, victim: str, number: int) -> gq.Run:
    run = launched(root)
    os.kill(pid_of(run, victim), number)
    assert run.wait(timeout=HANG_S).status == "stopped" and run.ended_by == number
    assert run.cause.startswith(f"interrupted by {signal.Signals(number).name} at epoch")
    return run


def test_signal_to_a_worker_ends_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    assert_continues([interrupted(tmp_path, "worker", signal.SIGUSR1)], tmp_path)


@pytest.mark.slow
def test_signals_to_agent_and_guard_end_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    cases = [("agent", signal.SIGTERM), ("agent", signal.SIGUSR2), ("guard", signal.SIGHUP), ("guard", signal.SIGINT)]
    assert_continues([interrupted(tmp_path, *case) for case in cases], tmp_path)


def test_signal_to_the_command_line_sets_its_exit_status(tmp_path: Path) -> None:
    words = ["train", "--graph", "sbm:60,3,6", "--layers", "2", "--hidden", "8", "--workers", "2", "--epochs", "100000"]
    command = [sys.executable, "-m", "gnnqlab", *words, "--json", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: gq.runs(tmp_path) and gq.runs(tmp_path)[0].epoch >= 2, what="the third epoch")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=HANG_S)
    (run,) = gq.runs(tmp_path)
    assert process.returncode == 143 and run.cause in errors
    assert json.loads(output.splitlines()[-1]) == {"error": run.cause, "exit_code": 143}
    assert list(run.folder.glob("checkpoints/*"))


def test_signal_to_a_waiting_script_ends_its_run_and_the_script(tmp_path: Path) -> None:
    run = launched(tmp_path)
    number = signal.SIGUSR2  # not SIGHUP, which a program that nohup has started ignores

    def send() -> None:
        # Before run.wait() has its handlers, the signal would end this process.
        wait_until(lambda: signal.getsignal(number) != signal.SIG_DFL, what="the handlers of run.wait()")
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()
    with pytest.raises(RunInterrupted, match="interrupted by SIGUSR2 at epoch") as end:
        run.wait(timeout=HANG_S)
    assert end.value.code == 128 + number and signal.getsignal(number) == signal.SIG_DFL
    assert list(run.folder.glob("checkpoints/*"))


def test_waiting_signals_count_a_later_one_as_the_second() -> None:
    followed: list[object] = []
    seconds = iter([0.0, 0.2, 1.5])
    with WaitingSignals(followed.append, lambda: followed.append("again"), clock=lambda: next(seconds)) as received:
        for _ in range(3):  # the second comes with the first, as GNU timeout sends them
            os.kill(os.getpid(), signal.SIGUSR1)
            received.follow()
        assert received.number == signal.SIGUSR1
    assert followed == [signal.SIGUSR1, "again"]


def test_waiting_signals_keep_the_handlers_of_a_program() -> None:
    earlier = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        own = signal.getsignal(signal.SIGUSR1)
        with WaitingSignals(lambda _: None, lambda: None):
            assert signal.getsignal(signal.SIGUSR1) is own and signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGUSR1, earlier)


class Clock:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guard(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Guard:
    """A guard whose two workers train epoch 3 of 10."""
    folder, launch = files.create(tmp_path, "run"), config(2).to_json()["launch"]
    guard = Guard(folder, ["true"], local_workers=2, rules=Rules(), link=RunLink(folder, launch), epochs=10)
    guard._stop._clock = clock
    guard._began_s = clock.seconds
    guard.state, guard.agent_pid, guard._agent_start = "running", os.getpid(), processes.start_time(os.getpid())
    monkeypatch.setattr(guard._witness, "poll", lambda: None)
    set_phase(guard, "compute")
    (folder / "facts.json").write_text("{}")
    return guard


def set_phase(guard: Guard, phase: str, epoch: int = 3) -> None:
    beats = len(guard._witness.pulses) and guard._witness.pulses[0].beats + 1
    guard._witness.pulses = {
        rank: Pulse(rank, 0, os.getpid(), 0, beats, epoch, 0, 0.0, 0.5, phase) for rank in range(2)
    }


def test_guard_requests_the_end_and_reports_the_signal(guard: Guard, clock: Clock) -> None:
    guard._stop.receive(signal.SIGTERM)
    guard._step(clock.seconds)
    assert guard.state == "running" and requested_by(guard.folder) == signal.SIGTERM
    (guard.folder / "checkpoints").mkdir()
    (guard.folder / "checkpoints" / "epoch-000004.safetensors").touch()
    set_phase(guard, "done")
    guard._step(clock.seconds)
    assert guard.state == "stopped"
    assert guard.cause == f"interrupted by SIGTERM at epoch 3; resume with gnnqlab train --resume {guard.folder}"
    status = files.read_json(guard.folder / "status.json")
    assert status is not None and status["signal"] == signal.SIGTERM


def test_guard_ends_at_once_after_a_second_signal_or_the_limit(guard: Guard, clock: Clock) -> None:
    guard._stop.receive(signal.SIGTERM)
    guard._stop.receive(signal.SIGTERM)  # the same, forwarded by another process
    guard._step(clock.seconds)
    assert guard.state == "running"
    clock.seconds += 61
    guard._step(clock.seconds)
    assert guard.state == "stopped" and guard.cause.endswith("launch it again; its workers did not save within 60 s")
    guard.state = "running"
    guard._stop.receive(signal.SIGINT)
    guard._step(clock.seconds)
    assert guard.state == "stopped" and "did not save" not in guard.cause


def test_guard_ends_a_run_without_an_epoch_at_once(guard: Guard, clock: Clock) -> None:
    (guard.folder / "facts.json").unlink()
    guard._stop.receive(signal.SIGTERM)
    guard._step(clock.seconds)
    assert guard.state == "stopped" and not (guard.folder / STOP).exists()


@pytest.mark.parametrize("ending", ["last epoch", "stopped early"])
def test_run_that_ends_by_itself_after_a_signal_is_finished(guard: Guard, clock: Clock, ending: str) -> None:
    request_stop(guard.folder, signal.SIGTERM)
    set_phase(guard, "done", epoch=9 if ending == "last epoch" else 4)
    if ending == "stopped early":
        files.append_event(guard.folder, ending, epoch=4)
    guard._step(clock.seconds)
    assert guard.state == "finished"


def test_failure_after_a_signal_is_reported_as_a_failure(guard: Guard, clock: Clock) -> None:
    guard._stop.receive(signal.SIGTERM)
    guard._witness.errors[1] = guard._witness.never_started(1.0)
    for _ in range(2):
        guard._step(clock.seconds)
        clock.seconds += 2
    assert guard.state == "failed"


def test_stacks_signal_is_none_that_a_queue_sends() -> None:
    from gnnqlab.launch.signals import GRACEFUL, STACKS

    assert STACKS not in GRACEFUL and STACKS >= signal.SIGRTMIN
