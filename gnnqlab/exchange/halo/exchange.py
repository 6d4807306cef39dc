"""Exchange of an edge-cut: receive halo rows forward, send their gradients to the owners backward.

Letters: N owned, H halo, D columns in, O columns out, K heads of F features.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

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
from gnnqlab.exchange.protocol import ExchangePart, WorkerExchange, check_hosts
from gnnqlab.exchange.schedules.schedule import Schedule
from gnnqlab.exchange.traffic_model import AggregationCall, MessageVolumes, PartitionSizes
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.caches.cache import NoCache
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.direction import of_direction
from gnnqlab.message.exchange_key import Phases, no_phases
from gnnqlab.partition.cut import check_host_count
from gnnqlab.partition.host_copies import relayed_rows
from gnnqlab.partition.shard import Shard

__all__ = ["Halo", "HaloExchange"]


@dataclass(frozen=True)
class Halo(ExchangePart):
    """Part of the axis ``exchange`` for edge-cuts: halo rows are copies of their owners' rows.

    A hierarchical exchange sends a row that several workers of one other host need once to that host. One of these
    workers receives it and passes its bytes on to the others: rows are the same bit for bit, each decoded once by each
    worker. It saves the bytes of ``Quality.repeated_outer`` rows between hosts, and sends as many more within hosts,
    after the first transfer. Gradients are sent as without it, because each receiver of a row has another one.

    Example:
        >>> Halo(hierarchical=True).on_hosts(2).hosts, Halo(hierarchical=True, hosts=4).on_hosts(2).hosts
        (2, 4)
    """

    former_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({"hierarchical": False, "hosts": None})
    takes_cuts_of: ClassVar[str] = "nodes"
    """Edge-cut: each node has one owner, which computes its whole sum."""
    takes_turns: ClassVar[bool] = True
    """True: an aggregation is a sum over the owners of the neighbours."""
    hierarchical: bool = False
    """True sends each row once to each other host. Off by default: a row that is passed on has two transfers."""
    hosts: int | None = None
    """Number of hosts with equally many consecutive workers; by default that of the run, where ``torchrun`` or SLURM
    has started the workers the number of machines."""

    def __post_init__(self) -> None:
        check_hosts("Halo", self.hosts, is_hierarchical=self.hierarchical)

    def on_hosts(self, hosts: int) -> Halo:
        """Return a copy for a run on ``hosts`` hosts; an explicit number of hosts is not changed."""
        # One host may be one of several machines, see `_machines`.
        is_open = self.hierarchical and self.hosts is None and hosts > 1
        return replace(self, hosts=hosts) if is_open else self

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use this exchange, or an empty string."""
        if not self.hierarchical:
            return ""
        codec, bits = (of_direction(part, "forward") for part in (system.codec, system.bits))
        if system.sampler.p < 1.0:
            return "a hierarchical exchange sends every row, but this sampler omits some; choose sampler AllRows()"
        if system.cache != NoCache():
            kind = type(system.cache).__name__
            return f"a hierarchical exchange needs messages of all rows, got cache {kind}; choose cache NoCache()"
        if system.schedule.in_turn:
            kind = type(system.schedule).__name__
            return (
                f"a relay passes on rows of all owners, got schedule {kind}, which receives them in turn; choose "
                "schedule Synchronous()"
            )
        if len(bits.choices) > 1:
            return (
                f"a row must have one bit-width at all receivers, got bits {type(bits).__name__} with "
                f"{sorted(bits.choices)}; choose bits Fixed()"
            )
        if not codec.same_at_receivers:
            return (
                f"a row must have the same bytes at all receivers, got codec {type(codec).__name__} with noise "
                f"{codec.noise!r}; choose codec Float32() or Stochastic(noise='node')"
            )
        return ""

    def volumes(self, call: AggregationCall, sizes: PartitionSizes) -> MessageVolumes:
        """Return the volume of an aggregation: halo rows forward and, if rows need a gradient, backward."""
        backward_volumes = [("backward", sizes.copies, call.columns)] if call.needs_gradient else []
        return [("forward", sizes.copies, call.columns), *backward_volumes]

    def probed(self) -> Halo:
        """Return the exchange without relays: its messages have all rows, from which :meth:`relayed_rows` follow."""
        return replace(self, hierarchical=False, hosts=None) if self.hierarchical else self

    def relayed_rows(
        self, ids: Mapping[tuple[int, int], Tensor], workers: int, hosts: int
    ) -> dict[tuple[int, int], dict[tuple[int, int], int]]:
        """Return the rows of forward messages by pair of workers; empty if rows are sent to all receivers."""
        hosts = self.hosts or hosts
        return relayed_rows(ids, workers, hosts) if self.hierarchical and 1 < hosts < workers else {}

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
        """Create the exchange of one worker.

        Args:
            shard: the worker's share of the graph.
            wires: factory of its channels.
            schedule: order of communication and computation.
            products: backend of sparse and dense products.
            device: device of the worker.
            phases: timer of the epoch's phases.
        """
        hosts = (self.hosts or _machines(shard.workers)) if self.hierarchical else 1
        check_host_count(shard.workers, hosts)
        return HaloExchange(shard, wires, schedule, products, device=device, phases=phases, hosts=hosts)


def _machines(workers: int) -> int:
    """Return the number of machines of a run of ``torchrun`` or SLURM; 1 if the workers are not theirs."""
    local_workers = int(os.environ.get("LOCAL_WORLD_SIZE", workers))
    return workers // local_workers if workers % local_workers == 0 else 1


class HaloExchange(WorkerExchange):
    """Aggregation under an edge-cut; see :class:`gnnqlab.exchange.protocol.Exchange`."""

    def __init__(
        self,
        shard: Shard,
        wires: ChannelFactory,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
        hosts: int = 1,
    ) -> None:
        super().__init__(schedule, products, device=device, phases=phases)
        self.uses_stale_rows = shard.workers > 1 and (self.lag > 0 or wires.holds_rows)
        """True if a receiver may use a row of an earlier epoch."""
        self.aggregates_before_projection = self.uses_stale_rows and schedule.dropped_by == "receiver"
        """True if layers with dropout aggregate before projecting even if projected rows are smaller."""
        self.boundary = Boundary(
            shard, wires, lag=self.lag, in_turn=self.in_turn, timeline=self.timeline, device=device, hosts=hosts
        )
        """Plans, channels and halo buffers."""

    @property
    def channels(self) -> list[Channel]:
        return self.boundary.channels

    def aggregate(self, adjacency: Adjacency, x: Tensor, context: AggregationContext) -> Tensor:
        """Return ``A [x; halo(x)]`` for owned rows, differentiable in ``x``.

        Args:
            adjacency: ``(N, N + H)``, central rows first.
            x: rows of owned nodes, float32 ``(N, D)``.
            context: context of the aggregation.

        Returns:
            float32 ``(N, D)``.
        """
        result: Tensor = Aggregate.apply(
            context.own(x), None if context.drop is None else x, self._plan(adjacency, context)
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
            adjacency, x, context: as for :meth:`aggregate`.
            weight: ``(D, O)``; ``self_weight`` likewise, or ``None`` without this term; ``bias`` ``(O,)``.

        Returns:
            float32 ``(N, O)``.
        """
        layer = self._plan(adjacency, context)
        result: Tensor = Convolve.apply(
            context.own(x), None if context.drop is None else x, weight, bias, self_weight, layer
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
            slope: negative slope of the leaky ReLU.
            context: as for :meth:`aggregate`.

        Returns:
            float32 ``(N, K, F)``.
        """
        layer = self._plan(adjacency, context, fixed_weights=False)
        # Rows of one owner at a time need a running softmax.
        attend = Attend if layer.turns is None else AttendInTurn
        result: Tensor = attend.apply(z, a_source, a_target, layer, slope)
        return result

    def extend(self, x: Tensor, context: AggregationContext) -> Tensor:
        """Return owned rows followed by halo rows, ``(N + H, D)``, differentiable in ``x``.

        With a sampler, sampled halo rows are divided by p and the others are zeros.

        Raises:
            ValueError: in training with a schedule of stale rows, or in any pass with one that stores the rows of one
                worker at a time.
        """
        if self.in_turn:
            raise ValueError(
                "extend needs all halo rows at once, got a schedule that frees those of one worker before it receives "
                "the next; call aggregate or attend, or choose schedule Synchronous() or Overlapped()"
            )
        # Evaluation uses fresh rows under every schedule, so only training is refused.
        if self.lag and context.training:
            raise ValueError(
                f"extend needs the rows of this epoch, got a schedule whose rows are {self.lag} epoch(s) old; call "
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
