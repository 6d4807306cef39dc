"""Exchange of columns: each worker aggregates the whole graph on its share of the columns (MixGCN, NeutronTP).

Nodes are split over workers for dense layers, columns for aggregations. Before an aggregation a worker sends every
other one its rows, restricted to that one's columns; afterwards sums return in the same way. The two redistributions of
an aggregation together send ``2 (P - 1) / P V D`` elements over all workers, for any cut: a worker's traffic falls with
the number of workers, while each stores the structure of the whole graph.

Memory of a worker: ``16 E`` bytes for the matrix and its transpose, so P copies over all workers, and in an aggregation
``8 V D / P`` for the rows of all nodes on its columns and for their sums, in place of its halo rows.

Letters: N own rows, V nodes, D columns in, O columns out, P workers, K heads of F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.compute import Float32Products, Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.products import to_float32
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.columns.redistribution import Aggregate, ColumnAggregation, Redistribution, attend, column_groups
from gnnqlab.exchange.protocol import ExchangePart, WorkerExchange
from gnnqlab.exchange.schedules.schedule import Schedule
from gnnqlab.exchange.traffic_model import AggregationCall, MessageVolumes, PartitionSizes
from gnnqlab.exchange.whole import convolve_in_steps
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.caches.cache import NoCache
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.direction import of_direction
from gnnqlab.message.exchange_key import Phases, no_phases
from gnnqlab.partition.block_shard import block_sizes
from gnnqlab.partition.column_shard import ColumnShard

__all__ = ["ColumnExchange", "Columns"]


@dataclass(frozen=True)
class Columns(ExchangePart):
    """Part of the axis ``exchange``: workers have their nodes, and for aggregations their columns.

    Example:
        >>> from gnnqlab.exchange.traffic_model import AggregationCall, PartitionSizes
        >>> call = AggregationCall(kind="aggregate", columns=16, out=16, needs_gradient=False)
        >>> Columns().volumes(call, PartitionSizes(num_nodes=100, workers=4))  # 2 * 3 * 100 rows of 16 / 4 columns
        [('forward', 600, 4)]
    """

    takes_cuts_of: ClassVar[str] = "columns"
    """Column partition: each worker has some nodes and the matrix of the whole graph."""
    drops_before: ClassVar[bool] = True
    """True: dropout is applied to own rows before columns are split, so receivers never apply it."""
    overlaps: ClassVar[bool] = False
    """False: every sum needs the rows of all nodes."""
    ranks_nodes: ClassVar[bool] = False
    """False: there are no boundary nodes."""

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use this exchange, or an empty string."""
        if system.schedule.lag or not system.schedule.computes_after:
            return (
                "sums need the rows of all nodes of this epoch, so nothing is computed while rows are in flight; "
                "choose schedule Synchronous()"
            )
        if system.sampler.p < 1.0:
            return "sums need the rows of all nodes, but this sampler omits some; choose sampler AllRows()"
        if not isinstance(system.cache, NoCache):
            kind = type(system.cache).__name__
            return f"every row is sent in each split and join, got cache {kind}; choose cache NoCache()"
        if not isinstance(system.compute, Float32Products):
            kind = type(system.compute).__name__
            return f"sums are computed in float32, got compute {kind}; choose compute Float32Products()"
        for direction in ("forward", "backward"):
            bits = of_direction(system.bits, direction)
            if bits.of_halo_rows:
                kind = type(bits).__name__
                return f"bits {kind} need halo rows, got shares of rows; choose bits Fixed() or UniformRandom()"
        return ""

    def volumes(self, call: AggregationCall, sizes: PartitionSizes) -> MessageVolumes:
        """Return the volume of an aggregation: a split, a join and, for attention, 2 K logits of each node to all."""
        owned, unit = block_sizes(sizes.num_nodes, sizes.workers).tolist(), call.heads or 1
        # A worker receives its columns of all other nodes, and sends sums of as many.
        rows = [
            (2 * sum(sizes.num_nodes - owned[rank] for rank in members), size * unit)
            for members, size in column_groups(call.columns // unit, sizes.workers)
        ]
        if call.heads:
            rows.append(((sizes.workers - 1) * sizes.num_nodes, 2 * call.heads))
        ways = ("forward", "backward") if call.needs_gradient else ("forward",)
        return [(way, *each) for way in ways for each in rows]

    def join(
        self,
        shard: ColumnShard,
        wires: ChannelFactory,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
    ) -> ColumnExchange:
        """Create the exchange of one worker; arguments as for :meth:`gnnqlab.exchange.halo.exchange.Halo.join`."""
        return ColumnExchange(shard, wires, schedule, products, device=device, phases=phases)


class ColumnExchange(WorkerExchange):
    """Aggregation of the whole graph on own columns; see :class:`gnnqlab.exchange.protocol.Exchange`."""

    def __init__(
        self,
        shard: ColumnShard,
        wires: ChannelFactory,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
    ) -> None:
        super().__init__(schedule, products, device=device, phases=phases)
        self.redistribution = Redistribution(shard, wires, timeline=self.timeline, device=device)
        """Plans, channels and buffers of splits and joins."""

    @property
    def channels(self) -> list[Channel]:
        return self.redistribution.channels

    def aggregate(self, adjacency: Adjacency, x: Tensor, context: AggregationContext) -> Tensor:
        """Return ``A x``, float32 ``(N, D)``.

        Args:
            adjacency: the whole matrix, ``(V, V)``, own nodes first.
            x: own rows, ``(N, D)``.
            context: context of the aggregation.
        """
        if context.training:
            self.adjacencies[context.layer] = adjacency
        result: Tensor = Aggregate.apply(context.own(to_float32(x)), self._aggregation(adjacency, context))
        return result

    def convolve(
        self,
        adjacency: Adjacency,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        self_weight: Tensor | None,
        context: AggregationContext,
    ) -> Tensor:
        """Return ``aggregate(x) weight + x self_weight + bias``, float32 ``(N, O)``; products are of own rows."""
        return convolve_in_steps(self, adjacency, x, weight, bias, self_weight, context)

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
        """Return attention-weighted sums over neighbours, float32 ``(N, K, F)``.

        Args:
            adjacency, context: as for :meth:`aggregate`; weights are not used.
            z: projected own rows, float32 ``(N, K, F)``.
            a_source, a_target: the two halves of the attention vector, ``(K, F)``.
            slope: negative slope of the leaky ReLU.
        """
        return attend(self._aggregation(adjacency, context, unit=z.shape[1]), z, a_source, a_target, slope)

    def extend(self, x: Tensor, context: AggregationContext) -> Tensor:
        """Raise an error: a worker has all columns of its own rows only.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "extend needs all columns of a node's neighbours at its owner, got an exchange of columns, which splits "
            "them; call aggregate or attend, or choose exchange Halo()"
        )

    def _aggregation(self, adjacency: Adjacency, context: AggregationContext, *, unit: int = 1) -> ColumnAggregation:
        products = self.products.exact if context.exact else self.products
        return ColumnAggregation(self.redistribution, adjacency, context, products, unit)
