"""SANCUS's cache: skip the broadcast of a whole block while its copies are recent or similar enough.

The staleness of the copies is bounded: by a common period, by the age of each block, or by the distance from the last
broadcast. The owner of a block decides for all workers.
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
    """Skip the broadcast of a block whose rows changed little; the other workers reuse their copy.

    Forward only: gradients are always those of this epoch. Block H of owner p is sent in epoch t, by ``rule``

        fixed      if t is a multiple of ``every``, for all owners
        age        if t - t' >= ``every``, t' the epoch of its last broadcast
        variation  if ||H - H'|| > ``epsilon`` ||H'||, H' the receivers' copy, Frobenius norms

    and always in the first ``warm_up`` epochs, if t - t' > ``max_age``, and at its first use. The owner aggregates its
    own current rows. With a quantizing codec H' is the decoded block, at the owner too.

    Differs: the threshold of ``variation`` is relative to the norm, so that it has the same meaning for blocks of any
    size; ``measure="absolute"`` has ``||H - H'|| > epsilon`` as SANCUS's description has it. Defaults are ours.

    Example:
        >>> cache = StaleBlocks(rule="fixed", every=3, max_age=9)
        >>> [cache.due(epoch, held_since=0) for epoch in range(1, 5)]
        [False, False, True, False]
    """

    of_blocks: ClassVar[bool] = True
    """True: the cache skips whole blocks, which only a broadcast exchange sends."""

    rule: Annotated[str, OneOf(RULES)] = "variation"
    """``fixed``, ``age`` or ``variation``."""
    every: Annotated[int, Range(1)] = 2
    """Epochs between broadcasts, for ``fixed`` and ``age``; 1: every epoch."""
    epsilon: Annotated[float, Range(0)] = 0.05
    """For ``variation``: largest skipped change; 0 skips only unchanged blocks."""
    measure: Annotated[str, OneOf(MEASURES)] = "relative"
    """``relative``: ``epsilon`` is a share of the norm of the copy; ``absolute``: it is compared with the change."""
    warm_up: Annotated[int, Range(0)] = 0
    """Number of first epochs in which every block is sent."""
    max_age: Annotated[int, Range(0)] = 10
    """Maximum staleness of a copy, in epochs."""
    as_released: bool = False
    """Reproduce the published code, which creates its caches and then disables all of them: every block is sent."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def assumes(self) -> str:
        """Assumption of forecasts, as text."""
        is_known = self.as_released or self.rule != "variation"
        return "" if is_known else "every block is sent: the skipped blocks are only known in training"

    def due(self, epoch: int, *, held_since: int) -> bool:
        """Return True if a block must be sent by its age or period, independently of its rows."""
        # The bound on the staleness comes first: no rule may exceed it.
        age = epoch - held_since
        if epoch < self.warm_up or age > self.max_age:
            return True
        return epoch % self.every == 0 if self.rule == "fixed" else self.rule == "age" and age >= self.every

    def build(self) -> BlocksAtWork | None:
        """Create the run-time state; ``None`` if no block is ever skipped, as in the published code."""
        return None if self.as_released else BlocksAtWork(self)

    def at_work(self) -> RunningCache:
        return self.build() or self

    def share(self, direction: str, epoch: int | None) -> float:
        """Return the expected share of blocks that are sent in an epoch; ``None``: in a typical epoch."""
        if self.as_released or direction == "backward" or self.rule == "variation":
            return 1.0
        if epoch is None:
            return max(1.0 / self.every, 1.0 / (self.max_age + 1))  # a block older than ``max_age`` is sent by any rule
        # Ages depend on earlier broadcasts, so replay them from epoch 0, in which every block is sent.
        sent_epoch = 0
        for replay_epoch in range(1, epoch + 1):
            sent_epoch = replay_epoch if self.due(replay_epoch, held_since=sent_epoch) else sent_epoch
        return 1.0 if sent_epoch == epoch else 0.0

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use this cache, or an empty string."""
        if not system.exchange.sends_blocks:
            return (
                "it skips whole blocks, but this exchange sends single rows; choose exchange Broadcast() with "
                "partition Contiguous(), or cache AdaptiveCache()"
            )
        return needs_rows_of_this_epoch(system)


class BlocksAtWork(RunningCache):
    """Run-time state of one worker: stored blocks by exchange key, and the epochs of their last broadcasts."""

    stands_for: ClassVar[dict[str, str]] = {"held": "halo"}

    def __init__(self, settings: StaleBlocks) -> None:
        self.settings = settings
        self.held: dict[ExchangeKey, Held] = {}
        self.since: dict[ExchangeKey, int] = {}
        """Exchange key -> epoch in which this worker last sent its block."""

    def build(self) -> BlocksAtWork:
        return self

    def chooser_at(self, place: ExchangeKey) -> _Block:
        """Return the chooser of an exchange key."""
        return _Block(self, place)

    def held_at(self, place: ExchangeKey) -> Held:
        """Return the storage of an exchange key."""
        return self.held.setdefault(place, {})

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [_BlockCheckpoint(self, training.worker)]


class _Block:
    """Chooser of the block of one exchange key."""

    def __init__(self, cache: BlocksAtWork, place: ExchangeKey) -> None:
        self._cache, self._place = cache, place

    def refreshes(self, x: Tensor, held: Tensor | None, epoch: int) -> bool:
        settings, sent_epochs = self._cache.settings, self._cache.since
        # The rule by age first: it reads no rows, while norms read the whole block and synchronize a GPU.
        is_sent = held is None or settings.due(epoch, held_since=sent_epochs[self._place])
        if not is_sent and settings.rule == "variation":
            assert held is not None
            bound = settings.epsilon * (float(held.norm()) if settings.measure == "relative" else 1.0)  # Frobenius norm
            # Negated, so that a block with NaN is sent, and then refused by the codec.
            is_sent = not float((x - held).norm()) <= bound
        if is_sent:
            sent_epochs[self._place] = epoch
        return is_sent


class _BlockCheckpoint(Adaptive):
    """Callback that saves blocks in checkpoints: each owner its own, identical to the copies of all receivers."""

    name = "blocks"
    decides = False

    def __init__(self, cache: BlocksAtWork, worker: WorkerContext) -> None:
        self._cache, self._seat = cache, worker

    def state(self) -> State:
        rank = self._seat.rank
        if self._seat.workers == 1:
            return State()
        # Names are unique over all workers, because a checkpoint joins the tensors of all of them.
        tensors = {}
        for place, copies in self._cache.held.items():
            for (side, _), rows in copies.items():
                if side == "send":  # receivers have the same copy, so only owners save theirs
                    name = f"{place.layer}/{place.direction}/{place.round}/{rank}"
                    tensors[name] = rows
                    tensors[f"{name}/since"] = torch.tensor([self._cache.since[place]])
        return State(own=tensors)

    def load(self, facts: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
        for name, rows in tensors.items():
            layer, direction, round_, owner, *suffix = name.split("/")
            place, is_owner = ExchangeKey(int(layer), direction, int(round_)), int(owner) == self._seat.rank
            # Every worker restores every block: its own as the sender, all others as a receiver.
            if suffix and is_owner:
                self._cache.since[place] = int(rows)
            elif not suffix:
                copies = self._cache.held_at(place)
                copies["send" if is_owner else "receive", int(owner)] = rows.to(self._seat.device, copy=True)
