"""Exchange of blocks: every worker broadcasts its rows in turn (CAGNET; SANCUS with a cache of blocks).

A layer has as many rounds as there are blocks, forward and backward. The volume grows with the number of nodes and of
workers, not with the number of cut edges, so no partitioner is needed.

Letters: N local rows, D columns in, O columns out, K heads of F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.products import to_float32
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.broadcast.attention import Attend
from gnnqlab.exchange.broadcast.blocks import BlockAggregation, Blocks
from gnnqlab.exchange.broadcast.sums import Aggregate, Convolve
from gnnqlab.exchange.halo.boundary import Boundary, plan_layer
from gnnqlab.exchange.protocol import ExchangePart, WorkerExchange
from gnnqlab.exchange.schedules.schedule import Schedule
from gnnqlab.exchange.traffic_model import AggregationCall, MessageVolumes, PartitionSizes
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.direction import of_direction
from gnnqlab.message.exchange_key import Phases, no_phases
from gnnqlab.partition.block_shard import BlockShard

__all__ = ["Broadcast", "BroadcastExchange"]


@dataclass(frozen=True)
class Broadcast(ExchangePart):
    """Part of the axis ``exchange``: each owner in turn broadcasts its whole block of rows."""

    takes_cuts_of: ClassVar[str] = "blocks"
    """Block partition: each worker has complete rows of the matrix and of its transpose."""
    sends_blocks: ClassVar[bool] = True
    """True: whole blocks are sent, as caches of blocks need."""
    ranks_nodes: ClassVar[bool] = False
    """False: there are no boundary nodes."""

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use this exchange, or an empty string."""
        if system.schedule.lag:
            return (
                "blocks are used in the epoch in which they are sent, but this schedule uses rows of an earlier one; "
                "choose schedule Synchronous() or Overlapped(), and cache StaleBlocks() for stale blocks"
            )
        if system.sampler.p < 1.0:
            return "blocks are sent whole, but this sampler omits rows; choose sampler AllRows()"
        if system.cache.build() is not None and not system.cache.of_blocks:
            kind = type(system.cache).__name__
            return f"a block is sent or skipped as a whole, got cache {kind}, which selects rows; choose StaleBlocks()"
        for direction in ("forward", "backward"):
            bits = of_direction(system.bits, direction)
            if bits.of_halo_rows:
                kind = type(bits).__name__
                return f"bits {kind} need halo rows, got whole blocks; choose bits Fixed() or UniformRandom()"
        return ""

    def refuses_attention(self, system: Any) -> str:
        """Return the reason why a system cannot train attention with this exchange, or an empty string."""
        replication = system.partition.replication
        return _no_softmax(replication) if replication > 1 else ""

    def volumes(self, call: AggregationCall, sizes: PartitionSizes) -> MessageVolumes:
        """Return the volume of an aggregation: all blocks to all others and, with replication, sums and totals."""
        c = sizes.replication
        # P/c - 1 copies of each block within its process column, then an all-reduce of sums among c replicas.
        rows = (sizes.workers // c - 1 + 2 * (c - 1)) * sizes.num_nodes  # over all workers
        # Backward sends dY with O columns, from which both dX and dW follow; dW is needed for input features too.
        backward_volumes = [("backward", rows, call.out)] if call.needs_gradient or call.kind == "convolve" else []
        return [("forward", rows, call.columns), *backward_volumes]

    def join(
        self,
        shard: BlockShard,
        wires: ChannelFactory,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
    ) -> BroadcastExchange:
        """Create the exchange of one worker; arguments as for :meth:`gnnqlab.exchange.halo.exchange.Halo.join`."""
        return BroadcastExchange(shard, wires, schedule, products, device=device, phases=phases)


class BroadcastExchange(WorkerExchange):
    """Aggregation block by block; see :class:`gnnqlab.exchange.protocol.Exchange`."""

    def __init__(
        self,
        shard: BlockShard,
        wires: ChannelFactory,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
    ) -> None:
        super().__init__(schedule, products, device=device, phases=phases)
        self.uses_stale_rows = self.aggregates_before_projection = shard.workers > 1 and wires.holds_rows
        self.blocks = Blocks(shard, wires, timeline=self.timeline, device=device)
        """Plans, channels and buffers of blocks."""
        self._device = device

    @property
    def channels(self) -> list[Channel]:
        boundary = self.__dict__.get("_boundary")  # a cached property, which only attention creates
        return [*self.blocks.channels, *([] if boundary is None else boundary.channels)]

    def aggregate(self, adjacency: Adjacency, x: Tensor, context: AggregationContext) -> Tensor:
        """Return ``A x``, float32 ``(N, D)``, over the blocks of all workers.

        Args:
            adjacency: ``(N, V)``, a :class:`gnnqlab.partition.block_shard.BlockMatrix`.
            x: rows of this worker's block, float32 ``(N, D)``.
            context: context of the aggregation.
        """
        x = to_float32(x)
        result: Tensor = Aggregate.apply(
            context.own(x), None if context.drop is None else x, self._aggregation(adjacency, context)
        )
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
        """Return ``aggregate(x) weight + x self_weight + bias``, ``(N, O)``; backward sends rows of O columns."""
        aggregation, x = self._aggregation(adjacency, context), to_float32(x)
        result: Tensor = Convolve.apply(
            context.own(x), None if context.drop is None else x, weight, bias, self_weight, aggregation
        )
        return result

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
        """Return attention-weighted sums over the blocks of all workers, float32 ``(N, K, F)``.

        Args:
            adjacency, context: as for :meth:`aggregate`; weights are not used.
            z: projected rows of this worker's block, float32 ``(N, K, F)``.
            a_source, a_target: the two halves of the attention vector, ``(K, F)``.
            slope: negative slope of the leaky ReLU.

        Raises:
            ValueError: with replication, because no worker has all terms of a softmax.
        """
        self._refuse("attend needs all terms of a softmax on one worker")
        aggregation = self._aggregation(adjacency, context, fixed_weights=False)
        layer = plan_layer(self._boundary, adjacency, context, aggregation.schedule, aggregation.products)
        result: Tensor = Attend.apply(z, a_source, a_target, aggregation, layer, slope)
        return result

    def extend(self, x: Tensor, context: AggregationContext) -> Tensor:
        """Raise an error: blocks are received one at a time, and each is freed before the next.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "extend needs all neighbours of a node at its owner, got blocks, which are received one at a time; call "
            "aggregate or attend, or choose exchange Halo()"
        )

    @cached_property
    def _boundary(self) -> Boundary:
        """Halo exchange for the gradients of attention, row by row."""
        return Boundary(self.blocks.shard, self.blocks.plain, lag=0, timeline=self.timeline, device=self._device)

    def _refuse(self, reason: str) -> None:
        if self.blocks.shard.replication > 1:
            raise ValueError(f"{reason}, got {_no_softmax(self.blocks.shard.replication)}")

    def _aggregation(
        self, adjacency: Adjacency, context: AggregationContext, *, fixed_weights: bool = True
    ) -> BlockAggregation:
        if context.training and fixed_weights:
            self.adjacencies[context.layer] = adjacency
        return BlockAggregation(
            self.blocks,
            adjacency,
            context,
            self._runner(context),
            self.products.exact if context.exact else self.products,
        )


def _no_softmax(replication: int) -> str:
    return (
        f"replication {replication}, where each worker sums only a share of the columns; choose partition "
        "Contiguous(replication=1) or a model without attention"
    )
