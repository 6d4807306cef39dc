"""Rows that a worker keeps from one message to the next, place by place, over checkpoints too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from gnnqlab.adaptive import Adaptive, State
from gnnqlab.message.caches.cache import Held, RunningCache
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.worker_context import WorkerContext

__all__ = ["RowCacheState", "RowCacheCheckpoint"]


class RowCacheState(RunningCache):
    """What the messages of one worker leave behind.

    Args:
        alike: whether both ends hold the same, bit for bit: then a receiver's rows are kept for its sender too. Else
            only senders hold something.
    """

    stands_for: ClassVar[dict[str, str]] = {"held": "halo"}

    def __init__(self, *, alike: bool) -> None:
        self.held: dict[ExchangeKey, Held] = {}
        """By place: what the receivers have, of both ends of this worker's messages, or what its sender keeps."""
        self._sides = ("receive", "send") if alike else ("send",)

    def held_at(self, place: ExchangeKey) -> Held:
        """Return where the channel of a place keeps rows."""
        return self.held.setdefault(place, {})

    def kept(self, worker: WorkerContext) -> dict[str, Tensor] | None:
        """Return what a checkpoint keeps of this worker, under names of its own; ``None`` of a worker without peers."""
        if worker.workers == 1:
            return None
        return {
            "/".join(map(str, (*place, *_ends(side, worker.rank, peer)))): rows
            for place, held in self.held.items()
            for (side, peer), rows in held.items()
            if side == self._sides[0]
        }

    def put_back(self, tensors: Mapping[str, Tensor], worker: WorkerContext) -> None:
        """Take what :meth:`kept` returned on all workers; each end takes what is its own."""
        for name, rows in tensors.items():
            layer, direction, round_, *ends = name.split("/")
            sender, receiver = map(int, ends)
            held = self.held_at(ExchangeKey(int(layer), direction, int(round_)))
            for side in self._sides:
                end, peer = (receiver, sender) if side == "receive" else (sender, receiver)
                if end == worker.rank:
                    held[side, peer] = rows.to(worker.device, copy=True)


class RowCacheCheckpoint(Adaptive):
    """Decides nothing: takes rows over a checkpoint.

    Args:
        name: in the checkpoint.
        rows: which.
        seat: of this worker.
    """

    decides: ClassVar[bool] = False

    def __init__(self, name: str, rows: RowCacheState, worker: WorkerContext) -> None:
        self.name, self._rows, self._seat = name, rows, worker

    def state(self) -> State:
        return State(own=self._rows.kept(self._seat))

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self._rows.put_back(tensors, self._seat)


def _ends(side: str, rank: int, peer: int) -> tuple[int, int]:
    """Return sender and receiver of a side."""
    return (peer, rank) if side == "receive" else (rank, peer)
