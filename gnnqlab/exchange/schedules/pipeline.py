"""Schedules that use yesterday's rows: what is posted in one epoch is used in the next (PipeGCN; SYLVIE section V-B).

An exchange has a whole epoch to arrive in, both ways. The first epoch is synchronous, so that the second one has
rows to start from; evaluation always is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from gnnqlab.adaptive import Adaptive, Training
from gnnqlab.exchange.schedules.schedule import Overlapped, PendingRows, Runner, Schedule, Step
from gnnqlab.exchange.schedules.staleness_switch import switching
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.settings import OneOf, Option, Range, check

__all__ = ["AdaptivePipeline", "Pipeline", "Pipelined"]

_Share = Annotated[float, Range(0, 1, open_high=True)]
_Dropped = Annotated[str, OneOf(("receiver", "owner"))]
_AT_LEAST_ONE = Range(1, unit="epoch", way="schedule Overlapped has no staleness")


@dataclass(frozen=True, kw_only=True)
class Pipelined(Schedule):
    """Halo rows and their gradients are one epoch old (PipeGCN, Wan et al. 2022).

    Smoothing replaces what came by ``m <- γ m + (1 - γ) what came`` at the receiver, m starting at what came first.

    Differs: the first epoch is synchronous, where PipeGCN starts from rows of zeros; so m needs no correction.
    """

    lag: ClassVar[int] = 1
    feature_smoothing: _Share = 0.0
    """γ in [0, 1) for halo rows; 0: none. PipeGCN-F has 0.95."""
    gradient_smoothing: _Share = 0.0
    """γ in [0, 1) for their gradients; 0: none. PipeGCN-G has 0.95."""
    dropped_by: _Dropped = "receiver"
    """Who applies dropout to rows that are narrower once projected. ``receiver``, as in PipeGCN: they travel wide, and
    their sums are projected. ``owner``: they travel projected, with the mask of their own epoch inside. Rows that are
    summed before they are projected are always dropped by their receiver."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def needs_every_row(self) -> str:
        """Why a sampler cannot leave rows out; empty if it can."""
        return "smoothing averages a row with what came for it before" if self._smooths else ""

    @property
    def _smooths(self) -> bool:
        return self.feature_smoothing > 0 or self.gradient_smoothing > 0

    def build(self) -> Pipeline:
        return Pipeline({"forward": self.feature_smoothing, "backward": self.gradient_smoothing})

    def exposed(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return what a whole epoch's computation is too short to hide.

        Example:
            >>> Pipelined().exposed([3.0, 1.0], [2.0, 2.0], 3.5)
            0.5
        """
        return max(0.0, sum(under_way) - computing)


@dataclass(frozen=True, kw_only=True)
class AdaptivePipeline(Schedule):
    """Yesterday's rows while training goes well, fresh ones when it does not (SYLVIE section V-B).

    :class:`gnnqlab.exchange.schedules.staleness_switch.StalenessSwitch` decides between epochs, on all workers alike. A fresh epoch comes
    at the latest after ``bound`` others.
    """

    lag: ClassVar[int] = 1
    bound: Annotated[int, _AT_LEAST_ONE, Option("stale-bound")] = 10
    """Most epochs in a row that use rows of the epoch before, at least 1."""
    dropped_by: _Dropped = "owner"
    """As for :class:`Pipelined`. SYLVIE does not say; ``owner`` leaves its rows as narrow as everybody else's."""

    def __post_init__(self) -> None:
        check(self)

    def build(self) -> Pipeline:
        return Pipeline({"forward": 0.0, "backward": 0.0}, bound=self.bound)

    @property
    def assumes(self) -> str:
        """What a forecast takes for granted."""
        return f"fresh rows in 1 epoch of {self.bound + 1}, the fewest there can be"

    def exposed(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return the mean over ``bound`` epochs of older rows and a fresh one; more fresh ones hide less.

        Example:
            >>> AdaptivePipeline(bound=1).exposed([3.0, 1.0], [2.0, 2.0], 3.5)
            0.75
        """
        stale = Pipelined().exposed(under_way, beside, computing)
        fresh = Overlapped().exposed(under_way, beside, computing)
        return (self.bound * stale + fresh) / (self.bound + 1)


class Pipeline(Runner):
    """Keeps what is under way for each place until the next epoch takes it.

    Args:
        smoothing: γ by direction.
        bound: most epochs in a row without fresh rows, where somebody switches; ``None``: nobody does.
    """

    stands_for: ClassVar[dict[str, str]] = {"_means": "halo"}

    def __init__(self, smoothing: dict[str, float], *, bound: int | None = None) -> None:
        self.fresh = False
        """Whether steps wait for their own rows, as in the first epoch; set between two epochs."""
        self._smoothing = smoothing
        self._under_way: dict[ExchangeKey, PendingRows] = {}
        self._means: dict[ExchangeKey, Tensor] = {}
        self._held: list[Callable[[], None]] = []
        self._bound = bound

    @property
    def adapts(self) -> bool:
        return self._bound is not None

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [] if self._bound is None else switching(self, self._bound, training)

    def run(self, step: Step, place: ExchangeKey) -> None:
        if place.direction == "forward":
            self.release()
        step.prepare()
        began = False
        for round_ in range(step.rounds):
            at = place._replace(round=round_)
            earlier = self._under_way.pop(at, None)
            if earlier is None or self.fresh:
                if earlier is not None:
                    earlier.wait()  # nobody uses it, but it holds buffers
                came = self._under_way[at] = step.post(round_)
                if not began:
                    step.independent()
                step.wait(round_, came)
                step.dependent(round_)
            else:
                if not began:
                    step.independent()
                step.wait(round_, self._smoothed(at, earlier))
                if place.direction == "backward":
                    self._hold(step, at)
                else:
                    self._under_way[at] = step.post(round_)  # into buffers that are free only now
                step.dependent(round_)
            began = True

    def release(self) -> None:
        """Post the backward steps of this epoch.

        The sum of weight gradients is what an epoch ends with and everybody waits for, while these rows have an epoch
        to arrive in: on one link they would only stand before it.
        """
        held, self._held = self._held, []
        for post in held:
            post()

    def drain(self) -> None:
        for came in self._under_way.values():
            came.wait()
        self._under_way.clear()

    def _hold(self, step: Step, at: ExchangeKey) -> None:
        def post() -> None:
            self._under_way[at] = step.post(at.round)

        self._held.append(post)

    def _smoothed(self, place: ExchangeKey, earlier: PendingRows) -> PendingRows:
        smoothing = self._smoothing[place.direction]
        if smoothing == 0.0:
            return earlier
        rows = earlier.decode()
        before = self._means.get(place)
        self._means[place] = rows.clone() if before is None else torch.lerp(rows, before, smoothing)
        return _Made(self._means[place], earlier)


class _Made:
    """Rows made of those that came."""

    def __init__(self, rows: Tensor, of: PendingRows) -> None:
        self._rows, self.sampled_in = rows, of.sampled_in

    def wait(self) -> None:
        pass

    def decode(self, out: Tensor | None = None) -> Tensor:
        return self._rows if out is None else out.add_(self._rows)
