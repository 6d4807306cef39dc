"""Schedules with stale rows: rows posted in one epoch are used in the next (PipeGCN; SYLVIE section V-B).

A message has a whole epoch to be received, in both directions. The first epoch is synchronous, so that the second one
has rows to use; evaluation is always synchronous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from gnnqlab.adaptive import Adaptive, Training
from gnnqlab.bits.assigner.descent import Comparing
from gnnqlab.bits.orchestrator import Orchestrated
from gnnqlab.exchange.schedules.schedule import Overlapped, PendingRows, Runner, Schedule, Step
from gnnqlab.exchange.schedules.stale_rows import StaleRowsCheckpoint
from gnnqlab.exchange.schedules.staleness_switch import replay, switching
from gnnqlab.message.channels.stored_rows import StoredRows
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.settings import OneOf, Option, Range, check

__all__ = ["AdaptivePipeline", "Pipeline", "Pipelined"]

_Share = Annotated[float, Range(0, 1, open_high=True)]
_Dropped = Annotated[str, OneOf(("receiver", "owner"))]
_AT_LEAST_ONE = Range(1, unit="epoch", way="schedule Overlapped has no staleness")


@dataclass(frozen=True, kw_only=True)
class Pipelined(Schedule):
    """Use halo rows and their gradients one epoch late (PipeGCN, Wan et al. 2022).

    Smoothing replaces received rows r by ``m <- γ m + (1 - γ) r`` at the receiver; m starts with the first r.

    Differs: the first epoch is synchronous, while PipeGCN starts from rows of zeros; so m needs no bias correction.
    """

    lag: ClassVar[int] = 1
    feature_smoothing: _Share = 0.0
    """γ in [0, 1) for halo rows; 0: no smoothing. PipeGCN-F uses 0.95."""
    gradient_smoothing: _Share = 0.0
    """γ in [0, 1) for gradients; 0: no smoothing. PipeGCN-G uses 0.95."""
    dropped_by: _Dropped = "receiver"
    """Side that applies dropout to rows that are smaller once projected. ``receiver``, as in PipeGCN: rows are sent
    before projection, and their sums are projected. ``owner``: projected rows are sent, with the dropout mask of the
    epoch in which they are sent. Rows that are aggregated before projection are always dropped by their receiver."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def needs_every_row(self) -> str:
        """Reason why a sampler must not omit rows; empty without smoothing."""
        return "smoothing averages a row with its earlier values" if self._smooths else ""

    @property
    def _smooths(self) -> bool:
        return self.feature_smoothing > 0 or self.gradient_smoothing > 0

    def build(self) -> Pipeline:
        return Pipeline({"forward": self.feature_smoothing, "backward": self.gradient_smoothing})

    def exposed_seconds(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return the transfer time that exceeds the computation of a whole epoch.

        Example:
            >>> Pipelined().exposed_seconds([3.0, 1.0], [2.0, 2.0], 3.5)
            0.5
        """
        # A transfer has the whole next epoch, so only the sums of both count, not single exchanges.
        return max(0.0, sum(under_way) - computing)


@dataclass(frozen=True, kw_only=True)
class AdaptivePipeline(Schedule):
    """Use stale rows while training progresses well, and fresh rows otherwise (SYLVIE section V-B).

    :class:`gnnqlab.exchange.schedules.staleness_switch.StalenessSwitch` decides between epochs, identically on all
    workers. At most ``bound`` epochs in a row are stale.
    """

    lag: ClassVar[int] = 1
    bound: Annotated[int, _AT_LEAST_ONE, Option("stale-bound")] = 10
    """Maximum number of stale epochs in a row, at least 1."""
    dropped_by: _Dropped = "owner"
    """As in schedule `Pipelined`. Not specified by SYLVIE; with ``owner`` rows are as small as in other systems."""

    def __post_init__(self) -> None:
        check(self)

    def build(self) -> Pipeline:
        return Pipeline({"forward": 0.0, "backward": 0.0}, bound=self.bound)

    @property
    def assumes(self) -> str:
        """Assumption of forecasts, as text."""
        return f"fresh rows in 1 epoch of {self.bound + 1}, the minimum"

    @property
    def fresh_share(self) -> float:
        """Share of epochs with fresh rows: the minimum, unless losses are known."""
        return 1 / (self.bound + 1)

    def exposed_seconds(self, under_way: Sequence[float], beside: Sequence[float], computing: float) -> float:
        """Return the mean over stale and fresh epochs; more fresh epochs hide less.

        Example:
            >>> AdaptivePipeline(bound=1).exposed_seconds([3.0, 1.0], [2.0, 2.0], 3.5)
            0.75
        """
        stale_time = Pipelined().exposed_seconds(under_way, beside, computing)
        fresh_time = Overlapped().exposed_seconds(under_way, beside, computing)
        return stale_time + self.fresh_share * (fresh_time - stale_time)

    def with_decisions(
        self, losses: Sequence[float], rule: Comparing | None, epoch_s: Callable[[Schedule], float]
    ) -> AdaptivePipeline:
        """Return the schedule with the share of fresh epochs that its rule decides on, from the first decision on.

        With fewer decisions than ``bound + 1`` the minimum share remains.

        Example:
            >>> falling = [0.9**epoch for epoch in range(30)]  # ever more slowly, which calls for fresh rows
            >>> AdaptivePipeline().with_decisions(falling, None, lambda schedule: 1.0).assumes
            'fresh rows in 74 % of epochs, as decided about the losses of 30 traced ones'
        """
        settings = rule or Orchestrated()
        first = settings.delta + 2  # the first epoch after two comparable rates
        if len(losses) - first <= self.bound:
            return self
        seconds = {"stale_s": epoch_s(Pipelined()), "fresh_s": epoch_s(Overlapped())}
        fresh = replay(losses, settings, bound=self.bound, **seconds)[first:]
        return _DecidedPipeline(
            bound=self.bound, dropped_by=self.dropped_by, share=sum(fresh) / len(fresh), num_losses=len(losses)
        )


@dataclass(frozen=True, kw_only=True)
class _DecidedPipeline(AdaptivePipeline):
    """Adaptive pipeline of a forecast, whose share of fresh epochs is known."""

    share: float
    num_losses: int

    @property
    def fresh_share(self) -> float:
        return self.share

    @property
    def assumes(self) -> str:
        percent = f"{100 * self.share:.0f} %"
        return f"fresh rows in {percent} of epochs, as decided about the losses of {self.num_losses} traced ones"


class Pipeline(Runner):
    """Runner that stores pending rows of each exchange key until the next epoch uses them.

    Args:
        smoothing: γ by direction.
        bound: maximum number of stale epochs in a row for an adaptive pipeline; ``None``: not adaptive.
    """

    stands_for: ClassVar[dict[str, str]] = {"means": "halo"}

    def __init__(self, smoothing: dict[str, float], *, bound: int | None = None) -> None:
        self.is_fresh = False
        """True if steps use rows of their own epoch, as in the first one; set between two epochs."""
        self._smoothing = smoothing
        self._under_way: dict[ExchangeKey, PendingRows] = {}
        self.means: dict[ExchangeKey, Tensor] = {}
        """Exchange key -> moving mean of its received rows, with smoothing."""
        self._delayed: list[Callable[[], None]] = []
        self._bound = bound

    @property
    def adapts(self) -> bool:
        return self._bound is not None

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        checkpoint = StaleRowsCheckpoint(self, training.worker)
        return [checkpoint, *([] if self._bound is None else switching(self, self._bound, training))]

    def run(self, step: Step, place: ExchangeKey) -> None:
        if place.direction == "forward":  # post what no call of `release` has posted since the last pass
            self.release()
        step.prepare()
        is_started = False
        for round_ in range(step.rounds):
            key = place._replace(round=round_)
            earlier_rows = self._under_way.pop(key, None)
            if earlier_rows is None or self.is_fresh:
                if earlier_rows is not None:
                    earlier_rows.wait()  # not used, but its transfer occupies buffers
                # A fresh exchange stays pending: the next epoch may use it as stale rows.
                pending_rows = self._under_way[key] = step.post(round_)
                if not is_started:  # once per step, in the first round
                    step.independent()
                step.wait(round_, pending_rows)
                step.dependent(round_)
            else:
                if not is_started:
                    step.independent()
                step.wait(round_, self._smoothed(key, earlier_rows))
                if place.direction == "backward":
                    self._delay(step, key)
                else:
                    self._under_way[key] = step.post(round_)  # only now are the byte buffers free
                step.dependent(round_)
            is_started = True

    def release(self) -> None:
        """Post the backward messages of this epoch.

        All workers wait for the all-reduce of weight gradients at the end of an epoch, while these messages have a
        whole epoch to be received: posted earlier, they would delay the all-reduce on the same link.
        """
        delayed_posts, self._delayed = self._delayed, []
        for post in delayed_posts:
            post()

    def drain(self) -> None:
        # Every message that a peer has sent must be received, or the peer could wait for ever.
        for pending_rows in self._under_way.values():
            pending_rows.wait()
        self._under_way.clear()

    def rows_to_store(self) -> dict[ExchangeKey, StoredRows]:
        """Wait for the pending rows; return them for a checkpoint. Every worker must call this between two epochs."""
        stored = {key: pending_rows.to_store() for key, pending_rows in self._under_way.items()}
        return {key: rows for key, rows in stored.items() if rows is not None}

    def restore(self, rows: Mapping[ExchangeKey, StoredRows]) -> None:
        """Restore the pending rows of a checkpoint, on all workers before the first epoch."""
        self._under_way.update(rows)

    def _delay(self, step: Step, key: ExchangeKey) -> None:
        def post() -> None:
            self._under_way[key] = step.post(key.round)

        self._delayed.append(post)

    def _smoothed(self, place: ExchangeKey, earlier_rows: PendingRows) -> PendingRows:
        smoothing = self._smoothing[place.direction]
        if smoothing == 0.0:
            return earlier_rows
        rows = earlier_rows.decode()
        mean = self.means.get(place)
        # lerp(r, m, γ) = r + γ (m - r) = γ m + (1 - γ) r
        # A new tensor: the receive buffer that ``rows`` may be a view of is overwritten by the next message.
        self.means[place] = rows.clone() if mean is None else torch.lerp(rows, mean, smoothing)
        return _SmoothedRows(self.means[place], earlier_rows)


class _SmoothedRows:
    """Moving mean in place of received rows."""

    def __init__(self, rows: Tensor, source: PendingRows) -> None:
        self._rows, self.sampled_in = rows, source.sampled_in

    def wait(self) -> None:
        pass

    def decode(self, out: Tensor | None = None) -> Tensor:
        return self._rows if out is None else out.add_(self._rows)

    def to_store(self) -> None:
        return None
