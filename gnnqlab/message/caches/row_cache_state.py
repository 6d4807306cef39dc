"""Rows that a worker stores between messages, by exchange key, and their checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from gnnqlab.adaptive import Adaptive, State
from gnnqlab.message.caches.cache import Held, RunningCache
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.worker_context import WorkerContext

__all__ = ["OWN", "RowCacheCheckpoint", "RowCacheState"]

OWN = "own"
"""Side of a worker's storage with rows that it holds for itself; the peer is the worker."""


class RowCacheState(RunningCache):
    """Run-time state of a cache that stores rows between messages.

    Args:
        both_ends: True if sender and receiver store identical rows, of which a checkpoint saves the receiver's; False
            if only senders store rows.
    """

    stands_for: ClassVar[dict[str, str]] = {"held": "halo"}

    def __init__(self, *, both_ends: bool) -> None:
        self.held: dict[ExchangeKey, Held] = {}
        """Exchange key -> the receivers' copies, for messages sent and received, or the rows stored by the sender."""
        self._sides = ("receive", "send") if both_ends else ("send",)

    def held_at(self, place: ExchangeKey) -> Held:
        """Return the storage of an exchange key."""
        return self.held.setdefault(place, {})

    def rows_to_save(self, worker: WorkerContext) -> dict[str, Tensor] | None:
        """Return this worker's rows for a checkpoint, under globally unique names; ``None`` without peers."""
        if worker.workers == 1:
            return None
        return {
            "/".join(map(str, (*place, *_ends(side, worker.rank, peer)))): rows  # layer/direction/round/sender/receiver
            for place, copies in self.held.items()
            for (side, peer), rows in copies.items()
            # of two identical copies only the receiver's is saved; a worker's own rows exist once
            if side == self._sides[0] or peer == worker.rank
        }

    def restore_rows(self, tensors: Mapping[str, Tensor], worker: WorkerContext) -> None:
        """Restore the rows that :meth:`rows_to_save` returned on all workers.

        Each worker takes those that it sends or receives.
        """
        for name, rows in tensors.items():
            layer, direction, round_, *ends = name.split("/")
            sender, receiver = map(int, ends)
            copies = self.held_at(ExchangeKey(int(layer), direction, int(round_)))
            if sender == receiver == worker.rank:  # rows that a worker holds for itself
                copies[OWN, sender] = rows.to(worker.device, copy=True)
                continue
            # Both ends restore the one saved copy, so that they are identical again.
            for side in self._sides:
                end, peer = (receiver, sender) if side == "receive" else (sender, receiver)
                if end == worker.rank:
                    copies[side, peer] = rows.to(worker.device, copy=True)


class RowCacheCheckpoint(Adaptive):
    """Callback without decisions that saves the rows of a cache in checkpoints.

    Args:
        name: name in the checkpoint.
        rows: cache with the rows.
        worker: context of this worker.
    """

    decides: ClassVar[bool] = False

    def __init__(self, name: str, rows: RowCacheState, worker: WorkerContext) -> None:
        self.name, self._rows, self._seat = name, rows, worker

    def state(self) -> State:
        return State(own=self._rows.rows_to_save(self._seat))

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self._rows.restore_rows(tensors, self._seat)


def _ends(side: str, rank: int, peer: int) -> tuple[int, int]:
    """Return sender and receiver of a message, from the side of ``rank``."""
    return (peer, rank) if side == "receive" else (rank, peer)
