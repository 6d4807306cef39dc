"""Failures on the other machines of a run, from the statuses in its shared folder. Standard library only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gnnqlab.run import folder as files

__all__ = ["OtherMachines"]

_SETTLE_S = 3.0
"""Time for this machine's own ranks to report an error: the other's failure may be a consequence of it."""


class OtherMachines:
    """Reader of the statuses of a run's other machines, which without it would wait for the failed one for minutes.

    Args:
        folder: the run folder, which all machines share.
        node: number of this machine.
        machines: number of machines.
        noun: ``machine``, or ``rank`` if every rank has a guard of its own.
    """

    def __init__(self, folder: Path, node: int, machines: int, noun: str = "machine") -> None:
        self._noun = noun
        self._paths = {other: folder / files.node_name("status", other) for other in range(machines) if other != node}
        # If the same commands were started before, statuses of then do not count. They are compared, not dated, because
        # clocks of machines differ.
        was_started = (folder / files.node_name("status", node)).exists()
        self._earlier = {other: self._read(other).get("time") if was_started else None for other in self._paths}
        self._first_seen_s: float | None = None

    def failure(self, now_s: float) -> str:
        """Return the cause of another machine's failure once it is some seconds old; empty if there is none."""
        for other in self._paths:
            status = self._read(other)
            if status.get("state") == "failed" and status.get("time") != self._earlier[other]:
                self._first_seen_s = now_s if self._first_seen_s is None else self._first_seen_s
                if now_s - self._first_seen_s >= _SETTLE_S:
                    return f"{self._noun} {other} has failed: {status.get('cause', '')}"
        return ""

    def _read(self, other: int) -> dict[str, Any]:
        return files.read_json(self._paths[other]) or {}
