"""The job of a queue that starts a run's ranks: its state, and its end. Standard library only.

RUN/job.json holds ``queue`` (``slurm``, or ``local`` for a process of this machine), ``id`` and ``since``, in seconds.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.train.stop_request import request_stop

__all__ = ["Job", "mark_queued", "read_job", "status_between_attempts", "status_from_queue", "stop_job", "write_job"]

_COMMAND_S = 20.0
"""Limit of one command of the queue."""
_REFRESH_S = 2.0
"""Least time between two readings of a queue for one run, because ``squeue`` loads its controller."""
_SILENT_S = 30.0
"""Age of a guard's last status after which the queue must confirm that the job still exists."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job."""

    queue: str
    """``slurm`` or ``local``."""
    id: str
    """Number of the job; of a local job ``PID:START`` of its process."""
    since: float
    """Time of the submission, in seconds."""

    def state(self) -> tuple[str, str] | None:
        """Return the queue's state and reason, ``("", "")`` for a job that has ended, ``None`` if it cannot be read."""
        if self.queue == "local":
            return ("RUNNING", "") if processes.is_alive(*processes.parse_pid_and_start(self.id)) else ("", "")
        try:
            found = _run("squeue", "--noheader", f"--jobs={self.id}", "--format=%T|%r")
        except (OSError, subprocess.SubprocessError):
            return None
        if found.returncode != 0:
            return ("", "") if "Invalid job id" in found.stderr else None
        state, _, reason = found.stdout.strip().partition("|")
        return state, reason

    def cancel(self) -> None:
        """End the job.

        Raises:
            RuntimeError: if the queue refuses.
        """
        if self.queue == "local":
            pid, start = processes.parse_pid_and_start(self.id)
            if processes.is_alive(pid, start):
                # Its tasks end next, and then the guards below them, which write a last status.
                tasks = [process.pid for process in processes.tree(pid) if process.parent == pid]
                for each in (pid, *tasks):  # the job first, or it would start the tasks again
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(each, signal.SIGKILL)
            return
        ended = _run("scancel", self.id)
        if ended.returncode != 0:
            raise RuntimeError(f"scancel must end job {self.id}, got {ended.stderr.strip()}; end it by hand")


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S, stdin=subprocess.DEVNULL)


def read_job(folder: Path) -> Job | None:
    """Return the job of a run, ``None`` for a run without one."""
    values = files.read_json(folder / "job.json")
    return None if values is None else Job(**values)


def write_job(folder: Path, job: Job) -> None:
    """Record the job of a run."""
    files.write_json(folder / "job.json", asdict(job))


def mark_queued(folder: Path) -> None:
    """Set the status of a run whose job waits in a queue, for the first time or again."""
    # Of the attempt before, which would show as running.
    for path in (*folder.glob("status-node*.json"), *folder.glob("heartbeat/rank*")):
        path.unlink(missing_ok=True)
    status = {"state": "queued", "cause": "", "epoch": -1, "errors": [], "time": time.time()}
    files.write_json(folder / "status.json", status)
    files.append_event(folder, "queued")


def status_from_queue(folder: Path, status: dict[str, Any], cache: dict[str, Any]) -> dict[str, Any]:
    """Return the status of a run, completed by the state of its job in the queue.

    Args:
        folder: the run folder.
        status: the latest status in the folder: of a run that waits, or of one on another machine.
        cache: of the caller, for the latest answer of the queue.
    """
    job = read_job(folder)
    is_waiting = status["state"] == "queued"
    if job is None or not (is_waiting or time.time() - status.get("time", 0.0) > _SILENT_S):
        return status
    if time.monotonic() - cache.get("read_s", float("-inf")) >= _REFRESH_S:
        cache["read_s"], cache["state"] = time.monotonic(), job.state()
    if cache["state"] is None:
        return status
    state, reason = cache["state"]
    since = time.strftime("%H:%M:%S", time.localtime(job.since))
    if state == "":
        later_status = files.read_json(folder / "status.json") or status
        if later_status != status:  # its guards wrote it before the job ended
            return later_status
        when = "before its ranks had started" if is_waiting else "without a last status of its ranks"
        return {**status, "state": "failed", "cause": f"job {job.id} has left the queue {when}; see {folder / 'job'}"}
    if not is_waiting:
        return status
    if state == "PENDING":
        return {**status, "cause": f"job {job.id} waits in the queue since {since}: {reason or 'no reason given'}"}
    return {**status, "state": "starting", "cause": f"job {job.id} is {state.lower()}, its ranks start"}


def status_between_attempts(folder: Path, status: dict[str, Any], cache: dict[str, Any]) -> dict[str, Any]:
    """Return ``queued`` in place of ``stopped`` for a run that its queue has interrupted, and will start again.

    Args:
        folder: the run folder.
        status: the status from all guards.
        cache: as for :func:`status_from_queue`.
    """
    is_interrupted = status["state"] == "stopped" and status.get("signal") == signal.SIGUSR2
    if not is_interrupted or (job := read_job(folder)) is None:
        return status
    if time.monotonic() - cache.get("read_s", float("-inf")) >= _REFRESH_S:
        cache["read_s"], cache["state"] = time.monotonic(), job.state()
    has_left = cache["state"] == ("", "")
    return status if has_left else {**status, "state": "queued", "cause": f"job {job.id} goes back into the queue"}


def stop_job(folder: Path, job: Job | None, timeout: float, state: Callable[[], str]) -> None:
    """End a run that waits, or that a queue has started: then after the present epoch, at the latest after the timeout.

    Args:
        folder: the run folder.
        job: its job; ``None`` for a prepared run.
        timeout: seconds for the orderly end.
        state: returns the status of the run.
    """
    if state() == "running":
        request_stop(folder, signal.SIGTERM)
        deadline_s = time.monotonic() + timeout
        while state() in files.LIVE and time.monotonic() < deadline_s:
            time.sleep(0.05)
    if state() not in files.LIVE:
        return
    if job is not None:
        job.cancel()
        deadline_s = time.monotonic() + timeout
        while state() in ("starting", "running", "stalled") and time.monotonic() < deadline_s:
            time.sleep(0.05)  # the guards of cancelled ranks write a last status
    status = files.read_json(folder / "status.json") or {}
    if status.get("state") in files.LIVE:  # else a guard has written its last status
        text = "it was prepared and never started" if job is None else f"job {job.id} was cancelled"
        with contextlib.suppress(OSError):
            files.write_json(folder / "status.json", {**status, "state": "stopped", "cause": text})
        files.append_event(folder, "stopped", text=text)
