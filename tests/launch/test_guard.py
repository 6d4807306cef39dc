"""Conclusions of the guard from incomplete evidence."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnnqlab.launch.guard import Guard
from gnnqlab.launch.hosts import RunLink
from gnnqlab.launch.stall import Rules
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.failure_report import WorkerError
from tests.launch.conftest import config


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    """A guard whose torchrun has been killed but cannot be collected yet, and whose rank 1 was killed with it."""
    folder, launch = files.create(tmp_path, "run"), config(2).to_json()["launch"]
    guard = Guard(folder, ["true"], local_workers=2, rules=Rules(), link=RunLink(folder, launch))
    agent = subprocess.Popen(["sleep", "100"])
    guard.state, guard.agent_pid, guard._agent_start = "running", agent.pid, processes.start_time(agent.pid)
    agent.kill()
    os.waitid(os.P_PID, agent.pid, os.WEXITED | os.WNOWAIT)
    guard._witness.errors[1] = WorkerError(
        rank=1, cause="rank 1 was killed", signal=signal.SIGKILL, phase="compute", epoch=2, monotonic_ns=1
    )
    yield guard
    agent.wait()


def test_a_rank_that_was_killed_with_torchrun_is_no_cause(guard: Guard) -> None:
    guard._judge_trouble(100.0)
    guard._judge_trouble(100.5)  # its other threads have not ended yet
    assert guard.state == "running"
    guard._witness.ended[guard.agent_pid] = signal.SIGKILL
    guard._judge_trouble(100.55)
    assert guard.state == "failed" and guard.cause.startswith("torchrun, which started the workers, was killed")


def test_a_torchrun_that_never_ends_is_not_waited_for(guard: Guard) -> None:
    guard._judge_trouble(100.0)
    guard._judge_trouble(101.1)
    assert (guard.state, guard.cause) == ("failed", "rank 1 was killed")


def test_a_rank_that_was_killed_alone_is_the_cause_at_once(guard: Guard) -> None:
    guard.agent_pid, guard._agent_start = os.getpid(), processes.start_time(os.getpid())
    guard._judge_trouble(100.0)
    guard._judge_trouble(100.1)
    assert (guard.state, guard.cause) == ("failed", "rank 1 was killed")
