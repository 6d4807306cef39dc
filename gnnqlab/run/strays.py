"""What outlived its run: found and ended, though nothing we know of leaves it."""

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
    """A process that outlived its run."""

    run: str
    """Name of the run."""
    role: str
    """``agent`` or ``rank R``."""
    pid: int
    """Its number."""


def end_strays(folder: Path) -> list[Stray]:
    """End processes of one run whose guard is gone; return what was found."""
    strays: list[Stray] = []
    for path in sorted(folder.glob("guard*.json")):
        guard = files.read_json(path)
        if guard is None or guard["place"] != processes.place() or processes.alive(*guard["guard"]):
            continue
        named = {"agent": guard["agent"], **{f"rank {rank}": it for rank, it in guard["workers"].items()}}
        for role, (pid, start) in named.items():
            if processes.alive(pid, start):
                os.kill(pid, signal.SIGKILL)
                strays.append(Stray(run=folder.name, role=role, pid=pid))
        shutil.rmtree(folder / "tmp", ignore_errors=True)
    return strays
