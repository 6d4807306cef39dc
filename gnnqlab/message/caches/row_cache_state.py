"""Rows that a worker stores between messages, by exchange key, and their checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor

from gnnqlab.adaptive import Adaptive, State, Training
from gnnqlab.axis_part import complete
from gnnqlab.message.caches.cache import Cache, Held, RunningCache
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.partition.plan import Plan
from gnnqlab.worker_context import WorkerContext

__all__ = ["OWN", "RowCacheCheckpoint", "RowCacheState", "at_work"]

OWN = "own"
"""Side of a worker's storage with rows that it holds for itself; the peer is the worker."""


def at_work(cache: Cache) -> RunningCache:
    """Create the run-time state of a cache on one worker, by its method ``at_work``, and complete its defaults.

    The receivers' copies of a cache of rows that does not store them itself are stored, and saved in checkpoints.

    Example:
        >>> from gnnqlab.message.caches.cache import NoCache
        >>> at_work(NoCache())
        NoCache()
    """
    complete(cache, Cache)
    running_cache = cache.at_work()
    complete(running_cache, RunningCache)
    if cache.of_blocks or isinstance(running_cache, RowCacheState) or running_cache.build() is None:
        return running_cache
    return _StoredCopies(running_cache)


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


class _StoredCopies(RowCacheState):
    """Run-time state of a cache that only selects rows, with the receivers' copies of all rows."""

    def __init__(self, cache: RunningCache) -> None:
        super().__init__(both_ends=True)
        self._cache = cache

    def build(self) -> Any:
        return self._cache.build()

    def held_at(self, place: ExchangeKey) -> Held:
        own_copies = self._cache.held_at(place)
        return super().held_at(place) if own_copies is None else own_copies

    def selection_at(self, place: ExchangeKey, plan: Plan) -> Any:
        return self._cache.selection_at(place, plan)

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [*self._cache.adaptives(training), RowCacheCheckpoint("cached-rows", self, training.worker)]


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
