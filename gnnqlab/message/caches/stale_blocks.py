"""SANCUS's cache: a whole block stays home while it is young enough, or has moved little enough.

What is bounded is the staleness of the blocks that others use: by a period that all share, by the age of each block, or
by how far it has moved from what was last broadcast. The owner decides for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.adaptive import Adaptive, State, Training
from gnnqlab.message.caches.cache import Cache, Held, RunningCache, needs_rows_of_this_epoch
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.settings import OneOf, Range, check
from gnnqlab.worker_context import WorkerContext

__all__ = ["BlocksAtWork", "StaleBlocks"]

RULES = ("fixed", "age", "variation")
MEASURES = ("relative", "absolute")


@dataclass(frozen=True, kw_only=True)
class StaleBlocks(Cache):
    """A worker whose rows changed little skips its broadcast, and all others go on with the block they have.

    Forward only: gradients are always those of this epoch. Block H of owner p travels in epoch t, by ``rule``

        fixed      where t is a multiple of ``every``, for all owners alike
        age        where t - t' >= ``every``, t' the epoch of its last broadcast
        variation  where ||H - H'|| > ``epsilon`` ||H'||, H' what receivers hold, norms of Frobenius

    and always in the first ``warm_up`` epochs, where t - t' would be above ``max_age``, and at its first use. The owner
    multiplies its own rows as they are. With a quantizing codec H' is what was decoded, at the owner too.

    Differs: the threshold of ``variation`` is a share of the norm, so that it means the same for blocks of any size;
    ``measure="absolute"`` has ``||H - H'|| > epsilon`` as SANCUS's description has it. Defaults are ours.

    Example:
        >>> cache = StaleBlocks(rule="fixed", every=3, max_age=9)
        >>> [cache.due(epoch, held_since=0) for epoch in range(1, 5)]
        [False, False, True, False]
    """

    of_blocks: ClassVar[bool] = True
    """It holds whole blocks, which an exchange of blocks alone has."""

    rule: Annotated[str, OneOf(RULES)] = "variation"
    """``fixed``, ``age`` or ``variation``."""
    every: Annotated[int, Range(1)] = 2
    """Epochs between broadcasts, for ``fixed`` and ``age``; 1: every epoch."""
    epsilon: Annotated[float, Range(0)] = 0.05
    """For ``variation``: by how much a block may have moved; with 0 only one that did not change at all stays home."""
    measure: Annotated[str, OneOf(MEASURES)] = "relative"
    """Whether ``epsilon`` is a share of the norm of what is held, or a norm itself."""
    warm_up: Annotated[int, Range(0)] = 0
    """Epochs at the beginning in which every block travels."""
    max_age: Annotated[int, Range(0)] = 10
    """Most epochs by which a block that is used may be older than the rows around it."""
    as_released: bool = False
    """Do as the published code, which sets up its caches and then switches all of them off: every block travels."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def assumes(self) -> str:
        """What forecasts have to assume."""
        known = self.as_released or self.rule != "variation"
        return "" if known else "every block travels: which stay home is known in training alone"

    def due(self, epoch: int, *, held_since: int) -> bool:
        """Return whether a block travels whatever its rows are."""
        age = epoch - held_since
        if epoch < self.warm_up or age > self.max_age:
            return True
        return epoch % self.every == 0 if self.rule == "fixed" else self.rule == "age" and age >= self.every

    def build(self) -> BlocksAtWork | None:
        """Return what runs of it; ``None`` where no block stays home, as in the published code."""
        return None if self.as_released else BlocksAtWork(self)

    def at_work(self) -> RunningCache:
        return self.build() or self

    def share(self, direction: str, epoch: int | None) -> float:
        """Return the share of blocks that travel, as forecasts expect it, in an epoch or, ``None``, in a usual one."""
        if self.as_released or direction == "backward" or self.rule == "variation":
            return 1.0
        if epoch is None:
            return max(1.0 / self.every, 1.0 / (self.max_age + 1))
        since = 0
        for now in range(1, epoch + 1):
            travels = self.due(now, held_since=since)
            since = now if travels else since
        return 1.0 if since == epoch else 0.0

    def refuses(self, system: Any) -> str:
        """Say why a system cannot have it."""
        if not system.exchange.sends_blocks:
            return (
                "it keeps whole blocks home, and this exchange sends single rows; choose exchange Broadcast() with "
                "partition Contiguous(), or cache AdaptiveCache()"
            )
        return needs_rows_of_this_epoch(system)


class BlocksAtWork(RunningCache):
    """The cache of one worker: what is held of every place, and since when."""

    stands_for: ClassVar[dict[str, str]] = {"held": "halo"}

    def __init__(self, settings: StaleBlocks) -> None:
        self.settings = settings
        self.held: dict[ExchangeKey, Held] = {}
        self.since: dict[ExchangeKey, int] = {}
        """ExchangeKey -> epoch in which this worker last sent its block there."""

    def build(self) -> BlocksAtWork:
        return self

    def chooser_at(self, place: ExchangeKey) -> _Block:
        """Return who decides for a place."""
        return _Block(self, place)

    def held_at(self, place: ExchangeKey) -> Held:
        """Return where the channel of a place keeps the block."""
        return self.held.setdefault(place, {})

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [_Kept(self, training.worker)]


class _Block:
    def __init__(self, cache: BlocksAtWork, place: ExchangeKey) -> None:
        self._cache, self._place = cache, place

    def refreshes(self, x: Tensor, held: Tensor | None, epoch: int) -> bool:
        settings, since = self._cache.settings, self._cache.since
        travels = held is None or settings.due(epoch, held_since=since[self._place])
        if not travels and settings.rule == "variation":
            assert held is not None
            bound = settings.epsilon * (float(held.norm()) if settings.measure == "relative" else 1.0)
            travels = not float((x - held).norm()) <= bound  # a block that is not finite travels, and is refused
        if travels:
            since[self._place] = epoch
        return travels


class _Kept(Adaptive):
    """Keeps blocks over a checkpoint: each owner its own, which are what all others have."""

    name = "blocks"
    decides = False

    def __init__(self, cache: BlocksAtWork, worker: WorkerContext) -> None:
        self._cache, self._seat = cache, worker

    def state(self) -> State:
        rank = self._seat.rank
        if self._seat.workers == 1:
            return State()
        own = {}
        for place, held in self._cache.held.items():
            for (side, _), rows in held.items():
                if side == "send":
                    name = f"{place.layer}/{place.direction}/{place.round}/{rank}"
                    own[name] = rows
                    own[f"{name}/since"] = torch.tensor([self._cache.since[place]])
        return State(own=own)

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        for name, rows in tensors.items():
            layer, direction, round_, owner, *what = name.split("/")
            place, mine = ExchangeKey(int(layer), direction, int(round_)), int(owner) == self._seat.rank
            if what and mine:
                self._cache.since[place] = int(rows)
            elif not what:
                held = self._cache.held_at(place)
                held["send" if mine else "receive", int(owner)] = rows.to(self._seat.device, copy=True)
