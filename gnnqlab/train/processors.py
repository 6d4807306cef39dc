"""Processors that a run may use, and the threads of each worker. Standard library only.

A control group can limit a container to the time of a few processors on a machine with many: ``sched_getaffinity``
still returns all of them, and one thread for each would wait most of the time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = [
    "BOUND", "ORIGIN", "REQUESTED", "SHARED_BY", "cpu_quota", "group_folders", "requested_threads",
    "threads_per_worker", "usable_processors",
]  # fmt: skip

REQUESTED = "GNNQLAB_REQUESTED_THREADS"
"""Environment variable of a worker: the user's OMP_NUM_THREADS, empty if not set; torchrun sets its own default."""
ORIGIN = "GNNQLAB_THREADS_FROM"
"""Environment variable that a worker sets for its own records: the origin of its number of threads."""
SHARED_BY = "GNNQLAB_SHARED_BY"
"""Environment variable of a worker: number of workers that share its processors; by default those on its machine."""
BOUND = "GNNQLAB_BOUND"
"""Environment variable of a worker: not empty if its starter may give each rank processors and a GPU of its own."""
_GROUPS, _MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cpu_quota(groups: Path = _GROUPS, membership: Path = _MEMBERSHIP) -> float | None:
    """Return the processors whose time the control groups of this process grant, ``None`` without a limit.

    Args:
        groups: folder of control groups, of version 2 (``cpu.max``) or version 1 (``cpu/cpu.cfs_quota_us``).
        membership: file with the groups of this process, as in ``/proc/self/cgroup``.
    """
    folders = [
        folder
        for root in (groups, groups / "cpu", groups / "cpu,cpuacct")
        for folder in group_folders(root, membership, "cpu")
    ]
    quotas = [quota for folder in folders if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def group_folders(root: Path, membership: Path, controller: str) -> Iterator[Path]:
    """Yield the root of a hierarchy of control groups and the folders of this process's group below it.

    Each may have a limit.

    Args:
        root: folder of the hierarchy.
        membership: as for :func:`cpu_quota`.
        controller: kind of limit, ``cpu`` or ``pids``.
    """
    yield root
    try:
        lines = os.fsdecode(membership.read_bytes()).splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        # Version 2 has no controllers in its line. In a container the path may be one of the machine, absent here.
        if not controllers or controller in controllers.split(","):
            group = root / path.lstrip("/")
            yield from (folder for folder in (group, *group.parents) if folder != root and root in folder.parents)


def _quota(folder: Path) -> float | None:
    try:
        granted, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            granted = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    # "max" and -1: no limit.
    return int(granted) / int(period) if granted.isdigit() and period.isdigit() and int(period) > 0 else None


def usable_processors(quota: float | None = None) -> int:
    """Return the number of processors that this process can keep busy: those of its affinity, at most the quota.

    Args:
        quota: processors that a control group grants; :func:`cpu_quota` by default.
    """
    cores, granted = len(os.sched_getaffinity(0)), cpu_quota() if quota is None else quota
    return cores if granted is None else min(cores, max(1, int(granted)))


def requested_threads(environ: Mapping[str, str], variable: str = "OMP_NUM_THREADS") -> int | None:
    """Return the number of threads that an environment requests, ``None`` if it requests none.

    Raises:
        ValueError: if it is not a positive whole number; a list of nested levels counts by its first entry.

    Example:
        >>> requested_threads({"OMP_NUM_THREADS": "4,2"}), requested_threads({})
        (4, None)
    """
    text = environ.get(variable, "").strip()
    if not text:
        return None
    number = text.partition(",")[0].strip()
    if not number.isdecimal() or int(number) < 1:
        raise ValueError(
            f"OMP_NUM_THREADS must be a whole number of at least 1, got {text!r}; unset it, or pass threads_per_worker"
        )
    return int(number)


def threads_per_worker(setting: int | None, requested: int | None, local_workers: int) -> tuple[int, str]:
    """Return the threads of each worker on this machine, and their origin.

    Args:
        setting: ``threads_per_worker`` of the run, which has priority.
        requested: the user's ``OMP_NUM_THREADS``, which comes next.
        local_workers: number of workers on this machine, which otherwise share its processors.

    Example:
        >>> threads_per_worker(3, 2, 4), threads_per_worker(None, 2, 4)
        ((3, 'threads_per_worker'), (2, 'OMP_NUM_THREADS'))
    """
    if setting:
        return setting, "threads_per_worker"
    if requested:
        return requested, "OMP_NUM_THREADS"
    quota = cpu_quota()
    has_fewer = quota is not None and int(quota) < len(os.sched_getaffinity(0))
    origin = f"CPU quota of {quota:g} processors" if has_fewer else "processors"
    return max(1, usable_processors(quota) // local_workers), origin
