"""Guard process of a run on this machine: signal it, and end it. Standard library only."""

import contextlib
import os
import signal
import time
from pathlib import Path

from gnnqlab.run import folder as files
from gnnqlab.run import processes

__all__ = ["end_guard", "is_here", "is_launcher", "pid_and_start", "signal_guard"]


def pid_and_start(folder: Path) -> tuple[int, int] | None:
    """Return pid and start time of a run's guard; ``None`` before it has started."""
    guard = files.read_json(folder / "guard.json")
    return (guard["guard"][0], guard["guard"][1]) if guard else None


def is_here(folder: Path) -> bool:
    """Return True if the pids of the run are valid here (same machine, same boot)."""
    guard = files.read_json(folder / "guard.json")
    return guard is not None and guard["place"] == processes.place()


def is_launcher(folder: Path) -> bool:
    """Return True if this process has launched the run, and its end would end the run."""
    launcher = (files.read_json(folder / "guard.json") or {}).get("launcher")
    return launcher is not None and is_here(folder) and launcher[0] == os.getpid()


def signal_guard(folder: Path, number: int) -> None:
    """Send a signal to the guard of a run, unless it has ended."""
    guard = pid_and_start(folder)
    if guard is not None and is_here(folder) and processes.is_alive(*guard):
        with contextlib.suppress(ProcessLookupError):  # it may end by itself at any moment
            os.kill(guard[0], number)


def end_guard(folder: Path, timeout: float) -> None:
    """Make the guard end its run at once; kill a guard that has not ended within the timeout."""
    guard = pid_and_start(folder)
    if guard is None or not is_here(folder):
        return
    with contextlib.suppress(OSError):  # tmp is absent once the run has ended
        (folder / "tmp" / files.END_NOW).touch()  # else the workers would end another epoch first
    signal_guard(folder, signal.SIGTERM)  # the guard ends all processes and writes the last status
    deadline_s = time.monotonic() + timeout
    while processes.is_alive(*guard) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    signal_guard(folder, signal.SIGKILL)
