"""End processes that have outlived their run. Standard library only."""

import dataclasses
import os
import shutil
import signal
from pathlib import Path

from gnnqlab.run import folder as files
from gnnqlab.run import processes

__all__ = ["Stray", "end_strays"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stray:
    """Process that outlived its run."""

    run: str
    """Name of the run."""
    role: str
    """``agent`` or ``rank R``."""
    pid: int
    """Process id."""


def end_strays(folder: Path) -> list[Stray]:
    """End processes of one run whose guard has ended; return these processes."""
    strays: list[Stray] = []
    for path in sorted(folder.glob("guard*.json")):
        guard = files.read_json(path)
        # Only processes of this machine and boot, and only if no guard is left to end them.
        if guard is None or guard["place"] != processes.place() or processes.is_alive(*guard["guard"]):
            continue
        by_role = {"agent": guard["agent"], **{f"rank {rank}": process for rank, process in guard["workers"].items()}}
        for role, (pid, start) in by_role.items():
            if processes.is_alive(pid, start):  # pid and start time: never another process with the same pid
                os.kill(pid, signal.SIGKILL)
                strays.append(Stray(run=folder.name, role=role, pid=pid))
        shutil.rmtree(folder / "tmp", ignore_errors=True)
    return strays
