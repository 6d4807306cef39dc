"""First cause of a failed exchange: a rank that fails writes a record to the store of its group; others read it."""

from __future__ import annotations

import json
import time

import torch.distributed as dist

__all__ = ["FailureRecords"]

_GRACE_S = 2.0
"""Seconds to wait for the record of another rank, which may fail a little later."""
_STEP_S = 0.05


class FailureRecords:
    """Failures of the exchanges of one plan, shared by its ranks.

    If rank 0 misses a message of rank 1, and rank 1 one of rank 2, which has raised an error, both name rank 2.
    A store is read and written after failures only.

    Args:
        group: process group, or ``None`` for all processes.
        rank, workers: this rank, and the number of ranks.

    Example:
        >>> records = FailureRecords(None, rank=0, workers=1)  # one process has no peers, and no store
        >>> records.write("forward call 1: rows must be finite"), records.cause(0)
        (None, (0, ''))
    """

    def __init__(self, group: dist.ProcessGroup | None, *, rank: int, workers: int) -> None:
        self._group, self._rank = group, rank
        self._store: dist.Store | None = None
        if workers > 1:
            group = dist.group.WORLD if group is None else group
            assert group is not None
            self._store = group.get_group_store()
        self.key = ""
        """Name of the plan in the store, equal on all ranks; set by the plan."""

    def write(self, text: str, *, waits_for: int | None = None) -> None:
        """Write the record of this rank.

        Args:
            text: the error.
            waits_for: rank whose message is missing; ``None`` if this rank is the cause.
        """
        if self._store is None:
            return
        try:
            self._store.set(f"{self.key}/{self._rank}", json.dumps([waits_for, text]))
        except RuntimeError:  # the store may have ended with the process that hosts it
            self._store = None

    def cause(self, peer: int) -> tuple[int, str]:
        """Return the rank that is the first cause of a missing message of ``peer``, and its error or an empty text."""
        rank, followed = peer, {self._rank}
        while rank not in followed:
            followed.add(rank)
            record = self._read(rank)
            if record is None:
                return rank, ""
            waits_for, text = record
            if waits_for is None:
                return rank, text
            rank = waits_for
        return peer, ""  # ranks that wait for each other in a circle

    def _read(self, rank: int) -> tuple[int | None, str] | None:
        if self._store is None:
            return None
        key, end = f"{self.key}/{rank}", time.monotonic() + _GRACE_S
        try:
            while not self._store.check([key]):
                if time.monotonic() > end:
                    return None
                time.sleep(_STEP_S)
            waits_for, text = json.loads(self._store.get(key))
        except (RuntimeError, ValueError):
            return None
        return waits_for, str(text)
