"""The interface of an exchange to models, layers and the trainer, and the base class of those of several workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from gnnqlab.axis_part import AxisPart, Running, not_predicted
from gnnqlab.compute import Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.cuda_streams import stages_on
from gnnqlab.exchange.schedules.schedule import Runner, Schedule, Synchronous, runner_of
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.exchange.traffic_model import AggregationCall, MessageVolumes, PartitionSizes
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.exchange_key import Phases, no_phases

__all__ = ["Exchange", "ExchangePart", "WorkerExchange", "rows_before_dropout"]


class ExchangePart(AxisPart, ABC):
    """Base class of recipe parts of the axis ``exchange``."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("join",),)
    takes_cuts_of: ClassVar[str] = "nodes"
    """Kind of cut that it works on, ``nodes``, ``edges`` or ``blocks``; ``System`` and checks of models read it."""
    takes_turns: ClassVar[bool] = False
    """Whether the rows of one worker can come at a time; the schedule of turns reads it."""
    sends_blocks: ClassVar[bool] = False
    """Whether whole blocks of rows are sent to all workers; caches and quantized products read it."""
    drops_before: ClassVar[bool] = False
    """Whether rows are dropped before they are sent, so that no receiver has to drop them; ``System`` reads it."""

    @property
    def meet(self) -> bool:
        """Return True if the copies of a node are summed on their host first; forecasts for other hosts read it."""
        return False

    @abstractmethod
    def join(
        self,
        shard: Any,
        wires: ChannelFactory,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
    ) -> Exchange:
        """Return the exchange of one worker.

        Args:
            shard: its share of the graph.
            wires: how its rows travel.
            schedule: when, relative to computation.
            products: run the sums and products around them.
            device: where it trains.
            phases: the epoch's clock.
        """

    def moved(self, look: AggregationCall, sizes: PartitionSizes) -> MessageVolumes:
        """Return the rows that one aggregation moves; the formula of an epoch's bytes calls it."""
        raise not_predicted("exchange", self, "moved")

    def refuses_attention(self, system: Any) -> str:
        """Return why no model that attends can train with it in a system, or an empty text; ``RunConfig`` calls it."""
        return ""


class Exchange(Protocol):
    """Looks at neighbours, wherever they are; every result is differentiable in the tensors given.

    Letters: N rows of this worker, D columns in, O columns out, K heads of F features.
    """

    lag: int
    """Epochs between the post of a row and its use, at most."""
    uses_stale_rows: bool
    """Whether a receiver may use a row in another epoch than that of its post: then it makes dropout's mask itself."""
    aggregates_before_projection: bool
    """Whether it does so too where rows would be narrower once projected, and are therefore summed first."""
    schedule: Runner
    """Runs the steps of training passes."""
    timeline: Timeline
    """When each part ran."""
    adjacencies: dict[int, Adjacency]
    """Matrix that each layer of a training pass used last."""
    products: Products
    """What this worker multiplies with."""

    @property
    def channels(self) -> list[Channel]:
        """The channels of training passes; evaluation has its own, which count nowhere."""

    def aggregate(self, adjacency: Adjacency, x: Tensor, context: AggregationContext) -> Tensor:
        """Return weighted sums over neighbours, ``(N, D)``."""

    def convolve(
        self,
        adjacency: Adjacency,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        self_weight: Tensor | None,
        context: AggregationContext,
    ) -> Tensor:
        """Return ``aggregate(x) weight + x self_weight + bias``, ``(N, O)``."""

    def attend(
        self,
        adjacency: Adjacency,
        z: Tensor,
        a_source: Tensor,
        a_target: Tensor,
        *,
        slope: float,
        context: AggregationContext,
    ) -> Tensor:
        """Return attention-weighted sums over neighbours, ``(N, K, F)``."""

    def extend(self, x: Tensor, context: AggregationContext) -> Tensor:
        """Return the rows of this worker with those of its neighbours elsewhere behind them."""

    def release(self) -> None:
        """Start moving what the schedule held back until the weight gradients are summed."""

    def drain(self) -> None:
        """Return when nothing is under way any more."""

    def forget(self) -> None:
        """Let every row travel next time, whatever receivers hold; all workers between the same two epochs."""


class WorkerExchange(Running, ABC):
    """Base class of the exchange of one worker among several; see :class:`Exchange`.

    Args:
        schedule: recipe part of the axis.
        products: run the sums and products of this worker.
        device: where it trains.
        phases: the epoch's clock.
    """

    uses_stale_rows = False
    aggregates_before_projection = False

    def __init__(
        self,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
    ) -> None:
        self.products, self.lag = products, schedule.lag
        self.schedule = runner_of(schedule)
        self.in_turn = schedule.in_turn
        """Whether the rows of one worker are received at a time, outside training too."""
        self.timeline = Timeline(phases, stages_on(device))
        self.adjacencies: dict[int, Adjacency] = {}

    @property
    @abstractmethod
    def channels(self) -> list[Channel]:
        """The channels of training passes; evaluation has its own, which count nowhere."""

    def release(self) -> None:
        """Start moving what the schedule held back until the weight gradients are summed."""
        self.schedule.release()

    def drain(self) -> None:
        """Return when nothing is under way any more."""
        self.schedule.drain()

    def forget(self) -> None:
        """Send every row next time, whatever receivers hold; all workers between the same two epochs."""
        for channel in self.channels:
            channel.forget()

    def _runner(self, context: AggregationContext) -> Runner:
        """Return what runs the steps of a pass: outside training all rows are received before they are used."""
        return self.schedule if context.training or self.in_turn else Synchronous()


def rows_before_dropout(x: Tensor, context: AggregationContext) -> Tensor | None:
    """Return the rows that are sent, where these are not those that are summed: rows before dropout."""
    return None if context.drop is None else x
