"""Interface of exchanges for models, layers and the trainer, and the base class of distributed exchanges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
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

__all__ = ["Exchange", "ExchangePart", "WorkerExchange", "check_hosts"]


def check_hosts(exchange: str, hosts: int | None, *, is_hierarchical: bool) -> None:
    """Check the number of hosts that an exchange is given, if any.

    Raises:
        ValueError: if it is below 1, or the exchange is not hierarchical.
    """
    if hosts is not None and hosts < 1:
        raise ValueError(f"{exchange} hosts must be at least 1, got {hosts}")
    if hosts is not None and not is_hierarchical:
        raise ValueError(
            f"hosts needs hierarchical=True, got hosts={hosts} with hierarchical=False; choose hierarchical=True"
        )


class ExchangePart(AxisPart, ABC):
    """Base class of the parts of the axis ``exchange``."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = (("join",),)
    renamed: ClassVar[dict[str, str]] = {"meet": "hierarchical", "moved": "volumes"}
    takes_cuts_of: ClassVar[str] = "nodes"
    """Supported cut: ``nodes`` for an edge-cut, ``edges`` for a vertex-cut, ``blocks`` or ``columns``; as in
    ``Partitioner.cuts``."""
    takes_turns: ClassVar[bool] = False
    """True if rows can be received from one worker at a time; read by the schedule ``Sequential``."""
    sends_blocks: ClassVar[bool] = False
    """True if whole blocks of rows are broadcast; read by caches and quantized products."""
    drops_before: ClassVar[bool] = False
    """True if dropout is applied before rows are sent, never by a receiver; read by ``System``."""
    overlaps: ClassVar[bool] = True
    """True if some sums need no received rows, so that they may be computed meanwhile; read by
    ``gnnqlab.systems.services``."""

    ranks_nodes: ClassVar[bool] = True
    """True if its shards rank boundary nodes by degree; read by ``Orchestrated``."""

    @property
    def hierarchical(self) -> bool:
        """True for hierarchical aggregation, within each host first; read by forecasts for other hosts."""
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
        """Create the exchange of one worker.

        Args:
            shard: the worker's share of the graph.
            wires: factory of its channels.
            schedule: order of communication and computation.
            products: backend of sparse and dense products.
            device: device of the worker.
            phases: timer of the epoch's phases.
        """

    def volumes(self, call: AggregationCall, sizes: PartitionSizes) -> MessageVolumes:
        """Return the message volume of one aggregation; formulas of an epoch's bytes call it."""
        raise not_predicted("exchange", self, "volumes")

    def probed(self) -> ExchangePart:
        """Return the exchange whose messages and times are measured for forecasts of this one; by default itself."""
        return self

    def relayed_rows(
        self, ids: Mapping[tuple[int, int], Tensor], workers: int, hosts: int
    ) -> dict[tuple[int, int], dict[tuple[int, int], int]]:
        """Return the rows of forward messages by pair of workers, if some are relayed, else nothing; forecasts call it.

        Args:
            ids: (sender, receiver) -> global node ids of a message.
            workers, hosts: of the run.

        Returns:
            (sender, receiver) -> ``{(from, to): rows}``.
        """
        return {}

    def refuses_attention(self, system: Any) -> str:
        """Return the reason why a system cannot train attention, or an empty string; ``RunConfig`` calls it."""
        return ""


class Exchange(Protocol):
    """Interface of aggregations over local and remote neighbours; all results are differentiable in their tensors.

    Letters: N rows of this worker, D columns in, O columns out, K heads of F features.
    """

    lag: int
    """Maximum staleness of rows in epochs, by the schedule."""
    uses_stale_rows: bool
    """True if a receiver may use a row of an earlier epoch; then it applies the dropout mask itself."""
    aggregates_before_projection: bool
    """True if layers aggregate before projecting even if projected rows are smaller, so that receivers can drop."""
    schedule: Runner
    """Runner of the steps of training passes."""
    timeline: Timeline
    """Recorder of when each part ran."""
    adjacencies: dict[int, Adjacency]
    """Layer -> matrix of its last training pass."""
    products: Products
    """Backend of sparse and dense products."""

    @property
    def channels(self) -> list[Channel]:
        """Channels of training passes; those of evaluation are not counted."""

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
        """Return the rows of this worker, followed by those of its remote neighbours."""

    def release(self) -> None:
        """Post messages that the schedule delayed until after the all-reduce of weight gradients."""

    def drain(self) -> None:
        """Wait until no message is in flight."""


class WorkerExchange(Running, ABC):
    """Base class of the exchange of one worker among several; see :class:`Exchange`.

    Args:
        schedule: part of the axis ``schedule``.
        products: backend of sparse and dense products.
        device: device of the worker.
        phases: timer of the epoch's phases.
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
        """True if rows are received from one worker at a time, outside training too."""
        self.timeline = Timeline(phases, stages_on(device))
        self.adjacencies: dict[int, Adjacency] = {}

    @property
    @abstractmethod
    def channels(self) -> list[Channel]:
        """Channels of training passes; those of evaluation are not counted."""

    def release(self) -> None:
        """Post messages that the schedule delayed until after the all-reduce of weight gradients."""
        self.schedule.release()

    def drain(self) -> None:
        """Wait until no message is in flight."""
        self.schedule.drain()

    def _runner(self, context: AggregationContext) -> Runner:
        """Return the runner of a pass; evaluation is synchronous, or receives rows from one worker at a time."""
        # Evaluation must not use stale rows, but with rows in turn it needs the same memory bound as training.
        return self.schedule if context.training or self.in_turn else Synchronous()
