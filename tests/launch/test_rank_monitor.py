"""Conclusions of the guard if torchrun acted before it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gnnqlab.launch import rank_monitor as watching
from gnnqlab.launch.rank_monitor import RankMonitor
from gnnqlab.launch.signals import STACKS
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.failure_report import order
from gnnqlab.train.heartbeat import Heartbeat
from tests.slow_down import wait_until


class Clock:
    """A clock that advances only while the rank monitor waits; planned actions happen during the wait."""

    def __init__(self) -> None:
        self.seconds, self._planned = 0.0, list[tuple[float, Callable[[], object]]]()

    def at(self, seconds: float, what: Callable[[], object]) -> None:
        self._planned.append((seconds, what))

    def monotonic(self) -> float:
        return self.seconds

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        due = [plan for plan in self._planned if plan[0] <= self.seconds]
        self._planned = [plan for plan in self._planned if plan not in due]
        for _, what in due:
            what()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(watching, "time", made)
    return made


def dead_rank(folder: Path, rank: int) -> int:
    """Write a heartbeat whose process has already been collected by its parent; return its pid."""
    code = (
        "import sys; from pathlib import Path; from gnnqlab.train.heartbeat import Heartbeat; "
        f"Heartbeat(Path(sys.argv[1]), {rank}).phase('wait', epoch=2)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(folder / "heartbeat" / f"rank{rank}")])
    child.wait()
    return child.pid


def witness(folder: Path, workers: int) -> RankMonitor:
    return RankMonitor(
        folder, local_workers=workers, node=0, agent_log=folder / "agent.log", appeared=lambda pidfd: None
    )


def report_exit(seeing: RankMonitor, pid: int, status: int) -> None:
    os.write(seeing.collected.write_end, f"{pid} {status}\n".encode())


def test_the_rank_that_did_not_end_with_the_others_is_the_cause(tmp_path: Path) -> None:
    folder = files.create(tmp_path, "run")
    seeing = witness(folder, 3)
    for rank, status in enumerate((signal.SIGTERM, signal.SIGKILL, signal.SIGTERM)):
        report_exit(seeing, dead_rank(folder, rank), status)
    seeing.poll()
    assert seeing.errors[1].signal == signal.SIGKILL and not seeing.errors[1].consequence
    assert "in epoch 2 while waiting for boundary messages" in seeing.errors[1].cause
    assert seeing.errors[0].consequence and seeing.errors[2].signal == signal.SIGTERM


def test_the_rank_that_died_of_itself_is_the_cause_even_after_lost_connections(tmp_path: Path) -> None:
    folder = files.create(tmp_path, "run")
    seeing = witness(folder, 2)
    report_exit(seeing, dead_rank(folder, 1), signal.SIGSEGV)
    report = {"type": "RuntimeError", "text": "Connection closed by peer", "phase": "wait", "epoch": 2}
    Heartbeat(folder / "heartbeat" / "rank0", 0).fail(
        json.dumps({**report, "traceback": "", "monotonic_ns": 1}).encode()
    )
    seeing.poll()
    assert [error.rank for error in order(list(seeing.errors.values()))] == [1, 0]
    assert seeing.errors[1].signal == signal.SIGSEGV


def test_monitor_waits_for_a_delayed_exit_status(tmp_path: Path, clock: Clock) -> None:
    folder = files.create(tmp_path, "run")
    seeing, pid = witness(folder, 1), dead_rank(folder, 0)
    clock.at(2.5, lambda: report_exit(seeing, pid, signal.SIGKILL))
    seeing.poll()
    assert seeing.errors[0].signal == signal.SIGKILL


def test_monitor_stops_waiting_when_the_exit_status_is_reported(tmp_path: Path, clock: Clock) -> None:
    folder = files.create(tmp_path, "run")
    seeing, pid = witness(folder, 1), dead_rank(folder, 0)
    clock.at(0.2, lambda: report_exit(seeing, pid, signal.SIGTERM))
    seeing.poll()
    assert seeing.errors[0].signal == signal.SIGTERM and clock.seconds < 0.21


def test_a_plain_torchrun_names_the_cause_in_its_log(tmp_path: Path, clock: Clock) -> None:
    folder = files.create(tmp_path, "run")
    pids = [dead_rank(folder, rank) for rank in range(3)]
    said = f"failed (exitcode: -9) local_rank: 1 (pid: {pids[1]}) of fn: main\n"
    clock.at(0.5, lambda: (folder / "agent.log").write_text(said))
    seeing = witness(folder, 3)
    seeing.poll()
    assert seeing.errors[1].signal == signal.SIGKILL and not seeing.errors[1].consequence
    assert seeing.errors[0].consequence and "was ended with the others" in seeing.errors[2].cause
    assert clock.seconds < 0.51, "the others have no report, and the monitor does not wait for one"


def test_rank_with_unknown_exit_status_is_reported_as_died_without_waiting(tmp_path: Path, clock: Clock) -> None:
    folder = files.create(tmp_path, "run")
    dead_rank(folder, 0)
    seeing = witness(folder, 1)
    seeing.ended[123] = 1 << 8  # torchrun, without a message
    seeing.poll()
    assert clock.seconds < 0.01
    assert seeing.errors[0].cause == "rank 0 died in epoch 2 while waiting for boundary messages"


def test_ranks_of_another_machine_on_a_shared_disk_are_left_alone(tmp_path: Path) -> None:
    folder = files.create(tmp_path, "run")
    Heartbeat(folder / "heartbeat" / "rank0", 0)
    Heartbeat(folder / "heartbeat" / "rank1", 1, node=1)
    seeing = witness(folder, 1)
    seeing.poll()
    assert list(seeing.pulses) == [0] and seeing.pulses[0].pid == os.getpid() and not seeing.errors


def test_the_end_of_a_process_that_another_has_collected() -> None:
    for command, status in (("exit 3", 3 << 8), ("kill -9 $$", signal.SIGKILL)):
        child = subprocess.Popen(["sh", "-c", f"read line; {command}"], stdin=subprocess.PIPE)
        start = processes.start_time(child.pid)
        pidfd = processes.open_pidfd(child.pid, start)
        child.communicate(b"\n")
        kernel = tuple(map(int, os.uname().release.split(".")[:2]))
        assert processes.exit_status(child.pid, start, pidfd) == (status if kernel >= (6, 15) else None)
        assert processes.open_pidfd(child.pid, start) is None


def rank_process(folder: Path, rank: int, body: str) -> subprocess.Popen[str]:
    """Start a rank that writes its stack at the signal of the guard, and return it once it is about to run ``body``."""
    code = (
        "import faulthandler, signal, sys, time; from pathlib import Path\n"
        "from gnnqlab.train.heartbeat import Heartbeat\n"
        f"faulthandler.register({int(STACKS)}, open(sys.argv[1] + '/errors/rank{rank}.trace', 'w'))\n"
        f"heartbeat = Heartbeat(Path(sys.argv[1], 'heartbeat', 'rank{rank}'), {rank})\n"
        "heartbeat.phase('compute', epoch=1)\nprint('ready', flush=True)\n" + body
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


def test_a_working_rank_writes_its_stack_only_when_it_is_ended(tmp_path: Path) -> None:
    folder = files.create(tmp_path, "run")
    with rank_process(folder, 0, "time.sleep(1000)") as asleep, rank_process(folder, 1, "while True: pass") as working:
        try:
            wait_until(lambda: processes.is_asleep(asleep.pid, processes.start_time(asleep.pid)), what="the sleep")
            seeing = witness(folder, 2)
            seeing.poll()

            # Asked again until it sleeps for good: it may have been asleep for a moment before. A process whose threads
            # run is not asked, because faulthandler may crash it.
            def has_written() -> bool:
                seeing.ask_for_stacks()
                return seeing._trace(0) != ""

            wait_until(has_written, what="the stack of the sleeping rank")
            assert seeing._trace(1) == ""
            seeing.ask_for_stacks([1])
            wait_until(lambda: 'File "<string>", line' in seeing._trace(1), what="the stack of the working rank")
        finally:
            asleep.kill()
            working.kill()


def test_the_cause_of_an_ended_torchrun_quotes_its_log(tmp_path: Path) -> None:
    (tmp_path / "heartbeat").mkdir()
    log = "Traceback\n  File x\nOSError: [Errno 98] Address already in use: 29500\nmore\n"
    (tmp_path / "agent.log").write_text(log)
    seen = RankMonitor(
        tmp_path, local_workers=2, node=0, agent_log=tmp_path / "agent.log", appeared=lambda pidfd: None
    ).agent_ended(1 << 8)
    assert "before the workers were finished (OSError: [Errno 98] Address already in use: 29500), while" in seen.cause
