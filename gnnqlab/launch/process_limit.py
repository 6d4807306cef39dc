"""The limit of processes and threads of a run. Standard library only."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from gnnqlab.errors import LaunchRefused
from gnnqlab.train.processors import group_folders

__all__ = ["free_threads", "min_threads", "require_threads"]

_GROUPS, _MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_BASE, _PER_WORKER = 4, 7
"""Measured: one thread in the guard, three in torchrun's agent, seven in a worker with one thread for computing."""


def min_threads(workers: int) -> int:
    """Return a lower bound on the threads of a run's processes, each of which counts as a process.

    Example:
        >>> min_threads(2)
        18
    """
    return _BASE + _PER_WORKER * workers


def free_threads() -> int | None:
    """Return the number of threads that this user may still start, ``None`` without a limit."""
    soft, of_user = resource.getrlimit(resource.RLIMIT_NPROC)[0], None
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0:  # the kernel does not apply it to root
        of_user = soft - _own_threads()
    return min((free for free in (_free_in_groups(), of_user) if free is not None), default=None)


def require_threads(workers: int) -> None:
    """Raise if the processes of a run may not be started.

    Raises:
        LaunchRefused: with the number that may be started.
    """
    free = free_threads()
    if free is not None and free < (least := min_threads(workers)):
        raise LaunchRefused(
            f"{workers} workers need at least {least} processes and threads, got a limit that leaves {max(0, free)}; "
            "raise it (ulimit -u, pids.max of the control group, docker run --pids-limit), or choose fewer workers"
        )


def _free_in_groups(groups: Path = _GROUPS, membership: Path = _MEMBERSHIP) -> int | None:
    """Return the least number that a control group of this process leaves; arguments as for ``cpu_quota``."""
    folders = [folder for root in (groups, groups / "pids") for folder in group_folders(root, membership, "pids")]
    return min((free for folder in folders if (free := _free_in(folder)) is not None), default=None)


def _free_in(folder: Path) -> int | None:
    try:
        most, present = (folder / "pids.max").read_text().strip(), (folder / "pids.current").read_text()
    except OSError:
        return None
    return int(most) - int(present) if most.isdigit() else None  # "max": no limit


def _own_threads() -> int:
    """Return the number of threads of all processes of this user."""
    count = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:  # it has ended
            continue
    return count
