"""The exchange of an edge-cut: pull boundary rows forward, send the gradients of halo rows home.

Letters: N owned, H halo, D columns in, O columns out, K heads of F features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.halo.attention import Attend
from gnnqlab.exchange.halo.attention_in_turn import AttendInTurn
from gnnqlab.exchange.halo.boundary import Boundary, LayerPlan, plan_layer
from gnnqlab.exchange.halo.convolution import Convolve
from gnnqlab.exchange.halo.extension import Extend
from gnnqlab.exchange.halo.sums import Aggregate
from gnnqlab.exchange.protocol import ExchangePart, WorkerExchange, rows_before_dropout
from gnnqlab.exchange.schedules.schedule import Schedule
from gnnqlab.exchange.traffic_model import AggregationCall, MessageVolumes, PartitionSizes
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.exchange_key import Phases, no_phases
from gnnqlab.partition.shard import Shard

__all__ = ["Halo", "HaloExchange"]


@dataclass(frozen=True)
class Halo(ExchangePart):
    """Recipe part of the axis ``exchange``: halo rows are copies of their owners' rows (edge-cut)."""

    takes_cuts_of: ClassVar[str] = "nodes"
    """Copies are pulled from a node's one owner, who has its whole sum: what a cut of nodes gives."""
    takes_turns: ClassVar[bool] = True
    """A sum over neighbours is a sum over their owners."""

    def moved(self, look: AggregationCall, sizes: PartitionSizes) -> MessageVolumes:
        """Return what a look moves: halo rows forward, their gradients back, where the rows learn."""
        back = [("backward", sizes.copies, look.columns)] if look.needs_gradient else []
        return [("forward", sizes.copies, look.columns), *back]

    def join(
        self,
        shard: Shard,
        wires: ChannelFactory,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
    ) -> HaloExchange:
        """Return the exchange of one worker.

        Args:
            shard: its share of the graph.
            wires: how its rows travel.
            schedule: when, relative to computation.
            products: run the sums and products around them.
            phases: the epoch's clock.
        """
        return HaloExchange(shard, wires, schedule, products, device=device, phases=phases)


class HaloExchange(WorkerExchange):
    """Looks at neighbours under an edge-cut; see :class:`gnnqlab.exchange.protocol.Exchange`."""

    def __init__(
        self,
        shard: Shard,
        wires: ChannelFactory,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
    ) -> None:
        super().__init__(schedule, products, device=device, phases=phases)
        self.uses_stale_rows = shard.workers > 1 and (self.lag > 0 or wires.holds_rows)
        """Whether a receiver may use a row in another epoch than that of its post."""
        self.aggregates_before_projection = self.uses_stale_rows and schedule.dropped_by == "receiver"
        """Whether dropped rows are summed before they are projected, however narrow that would make them."""
        self.boundary = Boundary(
            shard, wires, lag=self.lag, in_turn=self.in_turn, timeline=self.timeline, device=device
        )
        """What travels, and where it lands."""

    @property
    def channels(self) -> list[Channel]:
        return self.boundary.channels

    def aggregate(self, adjacency: Adjacency, x: Tensor, context: AggregationContext) -> Tensor:
        """Return ``A [x; halo(x)]`` for owned rows, differentiable in ``x``.

        Args:
            adjacency: ``(N, N + H)``, central rows first.
            x: rows of owned nodes, float32 ``(N, D)``.
            hop: which look at neighbours this is.

        Returns:
            float32 ``(N, D)``.
        """
        result: Tensor = Aggregate.apply(
            context.own(x), rows_before_dropout(x, context), self._plan(adjacency, context)
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
        """Return ``A [x; halo(x)] weight + x self_weight + bias`` for owned rows, differentiable in all tensors.

        Args:
            adjacency, x, hop: as for :meth:`aggregate`.
            weight: ``(D, O)``; ``self_weight`` the same, or ``None`` for no such term; ``bias`` ``(O,)``.

        Returns:
            float32 ``(N, O)``.
        """
        layer = self._plan(adjacency, context)
        result: Tensor = Convolve.apply(
            context.own(x), rows_before_dropout(x, context), weight, bias, self_weight, layer
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
        """Return attention-weighted sums of ``[z; halo(z)]`` for owned rows, differentiable in z and both vectors.

        ``e_vu = leaky(<a_target, z_v> + <a_source, z_u>)``, ``out_v = sum over u of softmax_u(e_vu) z_u``
        (GAT, Velickovic et al. 2018, Eq. 2 to 4).

        Args:
            adjacency: ``(N, N + H)``, central rows first; weights are not used.
            z: projected rows of owned nodes, float32 ``(N, K, F)``.
            a_source, a_target: the two halves of the attention vector, ``(K, F)``.
            slope: of the leaky rectifier.
            hop: as for :meth:`aggregate`.

        Returns:
            float32 ``(N, K, F)``.
        """
        layer = self._plan(adjacency, context, fixed_weights=False)
        attend = Attend if layer.turns is None else AttendInTurn
        result: Tensor = attend.apply(z, a_source, a_target, layer, slope)
        return result

    def extend(self, x: Tensor, context: AggregationContext) -> Tensor:
        """Return owned rows with halo rows behind them, ``(N + H, D)``, differentiable in ``x``.

        Under a sampler halo rows are those that were kept, divided by p, and zeros.

        Raises:
            ValueError: if a training pass under a schedule of older rows asks for it, or any pass under one that
                holds the rows of one worker at a time.
        """
        if self.in_turn:
            raise ValueError(
                "extend holds all halo rows at once, got a schedule that frees those of one worker before those of "
                "the next; call aggregate or attend, or choose schedule Synchronous() or Overlapped()"
            )
        if self.lag and context.training:
            raise ValueError(
                f"extend moves the rows of this epoch, got a schedule whose rows are {self.lag} epoch(s) old; call "
                "aggregate or attend, or choose schedule Synchronous() or Overlapped()"
            )
        result: Tensor = Extend.apply(x, self._plan(None, context))
        return result

    def _plan(
        self, adjacency: Adjacency | None, context: AggregationContext, *, fixed_weights: bool = True
    ) -> LayerPlan:
        if context.training and adjacency is not None and fixed_weights:
            self.adjacencies[context.layer] = adjacency
        return plan_layer(self.boundary, adjacency, context, self._runner(context), self.products)
