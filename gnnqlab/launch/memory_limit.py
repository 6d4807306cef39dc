"""Processes that the kernel has killed for lack of memory: counters of control groups and of the machine.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gnnqlab.train.processors import group_folders
from gnnqlab.units import human_bytes

__all__ = ["MemoryKills"]

_GROUPS, _MEMBERSHIP, _MACHINE = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"), Path("/proc/vmstat")
# Files of control groups of version 2, then of version 1: counter, limit, and the most that was used.
_FILES = (
    ("memory.events", "memory.max", ("memory.peak", "memory.current")),
    ("memory.oom_control", "memory.limit_in_bytes", ("memory.max_usage_in_bytes",)),
)


class MemoryKills:
    """Counter of kills since this object was created.

    Args:
        groups: folder of control groups, of version 2 or with the folder ``memory`` of version 1.
        membership: file with the groups of this process, as in ``/proc/self/cgroup``.
        machine: file with the counter of the machine.

    Example:
        >>> MemoryKills(Path("/none"), Path("/none"), Path("/none")).reason()
        ''
    """

    def __init__(self, groups: Path = _GROUPS, membership: Path = _MEMBERSHIP, machine: Path = _MACHINE) -> None:
        self._groups, self._membership, self._machine = groups, membership, machine
        self._machine_kills = _count(machine)
        self._group_kills = {folder: _kills_in(folder) for folder in self._folders()}

    def reason(self) -> str:
        """Return limit and use of the control group in which processes were killed since; empty if there were none.

        The counters are those of all processes of a group or of the machine, so this is a likely cause, not a proof.
        """
        limits = [
            (limit, _used_in(folder))
            for folder, kills in self._group_kills.items()
            if _kills_in(folder) > kills and (limit := _limit_of(folder)) is not None
        ]
        if limits:  # the innermost group has the smallest limit
            limit, used = min(limits, key=lambda pair: pair[0])
            return f"out of memory: limit {human_bytes(limit)}" + (
                "" if used is None else f", used {human_bytes(used)}"
            )
        return "out of memory: that of the machine" if _count(self._machine) > self._machine_kills else ""

    def _folders(self) -> Iterator[Path]:
        for root in (self._groups, self._groups / "memory"):
            yield from group_folders(root, self._membership, "memory")


def _count(path: Path) -> int:
    """Return the number in the line ``oom_kill`` of a file, 0 without it."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _kills_in(folder: Path) -> int:
    return max(_count(folder / counter) for counter, *_ in _FILES)


def _limit_of(folder: Path) -> int | None:
    return next((limit for _, name, _ in _FILES if (limit := _bytes_in(folder / name)) is not None), None)


def _used_in(folder: Path) -> int | None:
    names = (name for *_, used_names in _FILES for name in used_names)
    return next((used for name in names if (used := _bytes_in(folder / name)) is not None), None)


def _bytes_in(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # "max": no limit
