"""Exchange of a vertex-cut: gather partial sums at masters, scatter totals to mirrors (CDFGNN Algorithm 1).

Each copy of a node is a row of the model on its worker: projection, normalization and dropout run there on the same
values as at the master, and only aggregated sums are exchanged. As for every exchange, the layer decides whether to
aggregate after the product with W, if that makes rows smaller, or before it. Bias, norms, self weights and subsequent
projections act on totals, so they count once. The gradient of a weight is the sum over copies of the gradients through
the edges of each copy, plus that through the loss at the master.

Letters: R rows (masters, then mirrors), D columns in, O columns out, K heads of F features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.protocol import ExchangePart, WorkerExchange, check_hosts
from gnnqlab.exchange.schedules.schedule import Schedule
from gnnqlab.exchange.traffic_model import AggregationCall, MessageVolumes, PartitionSizes
from gnnqlab.exchange.vertex_cut.attention import Attend
from gnnqlab.exchange.vertex_cut.mirrors import MirrorAggregation, Mirrors
from gnnqlab.exchange.vertex_cut.sums import Aggregate
from gnnqlab.exchange.whole import convolve_in_steps
from gnnqlab.former_names import accepts_former_names
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.direction import of_direction
from gnnqlab.message.exchange_key import Phases, no_phases
from gnnqlab.partition.cut import check_host_count
from gnnqlab.partition.replica_shard import ReplicaShard
from gnnqlab.settings import Former

__all__ = ["ReplicaExchange", "Replicas"]


@accepts_former_names
@dataclass(frozen=True, kw_only=True)
class Replicas(ExchangePart):
    """Part of the axis ``exchange`` for vertex-cuts: copies of a node add their partial sums and share the total.

    Hierarchical aggregation (``hierarchical``) adds the copies of one host at a representative first, which alone
    exchanges with the master and relays the total. Rows within hosts are then float32; codec, bits and cache apply to
    rows between hosts, whose number never increases. With one worker per host it has no effect.

    Differs: CDFGNN has no hierarchical aggregation; every copy counts in its Table 3.

    Example:
        >>> Replicas(hierarchical=True).on_hosts(2).hosts, Replicas(hierarchical=True, hosts=4).on_hosts(2).hosts
        (2, 4)
    """

    takes_cuts_of: ClassVar[str] = "edges"
    """Vertex-cut: the edges of a node are on several workers, each of which computes a partial sum."""
    drops_before: ClassVar[bool] = True
    """True: dropout is applied before aggregation, so receivers never apply it."""
    hierarchical: Annotated[bool, Former("meet")] = False
    """True for hierarchical aggregation. Each row saved between hosts is one more float32 row within a host. That pays
    off if links between hosts are slower; with 8-bit rows between hosts, only if they are much slower, because a row
    within a host then has four times the bytes. Therefore off by default."""
    hosts: int | None = None
    """Number of hosts with equally many consecutive workers; by default that of the run."""

    def __post_init__(self) -> None:
        check_hosts("Replicas", self.hosts, is_hierarchical=self.hierarchical)

    def on_hosts(self, hosts: int) -> Replicas:
        """Return a copy for a run on ``hosts`` hosts; an explicit number of hosts is not changed."""
        return replace(self, hosts=hosts) if self.hierarchical and self.hosts is None else self

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use this exchange, or an empty string."""
        if system.schedule.lag:
            return (
                "a total needs partial sums of one epoch, but this schedule uses rows of an earlier one; choose "
                "schedule Synchronous() or Overlapped()"
            )
        if system.sampler.p < 1.0:
            return "a total needs every partial sum, but this sampler omits some; choose sampler AllRows()"
        for direction in ("forward", "backward"):
            if of_direction(system.bits, direction).of_halo_rows:
                kind = type(of_direction(system.bits, direction)).__name__
                return f"bits {kind} need halo rows, got partial sums; choose bits Fixed() or UniformRandom()"
        return ""

    def volumes(self, call: AggregationCall, sizes: PartitionSizes) -> MessageVolumes:
        """Return the volume of an aggregation: partial sums and totals of mirrors; for attention, K more columns."""
        # Each mirror sends a partial sum and receives a total; attention adds K logarithms to both, forward.
        backward_volumes = [("backward", 2 * sizes.copies, call.columns)] if call.needs_gradient else []
        return [("forward", 2 * sizes.copies, call.columns + call.heads), *backward_volumes]

    def join(
        self,
        shard: ReplicaShard,
        wires: ChannelFactory,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
    ) -> ReplicaExchange:
        """Create the exchange of one worker; arguments as for :meth:`gnnqlab.exchange.halo.exchange.Halo.join`."""
        hosts = self.hosts or 1
        check_host_count(shard.workers, hosts)
        if hosts == shard.workers:
            hosts = 1  # one worker per host: nothing to aggregate within hosts
        return ReplicaExchange(shard, wires, schedule, products, device=device, phases=phases, hosts=hosts)


class ReplicaExchange(WorkerExchange):
    """Aggregation under a vertex-cut; see :class:`gnnqlab.exchange.protocol.Exchange`."""

    def __init__(
        self,
        shard: ReplicaShard,
        wires: ChannelFactory,
        schedule: Schedule,
        products: Products = PLAIN,
        *,
        device: torch.device | str = "cpu",
        phases: Phases = no_phases,
        hosts: int = 1,
    ) -> None:
        super().__init__(schedule, products, device=device, phases=phases)
        self.mirrors = Mirrors(shard, wires, timeline=self.timeline, device=device, hosts=hosts)
        """Rounds, channels and buffers of replicated rows."""

    @property
    def channels(self) -> list[Channel]:
        return self.mirrors.channels

    def aggregate(self, adjacency: Adjacency, x: Tensor, context: AggregationContext) -> Tensor:
        """Return ``S A x``, float32 ``(R, D)``: sums over all edges of a node, at each of its copies.

        Args:
            adjacency: local edges, ``(R, R)``.
            x: rows of all local copies, float32 ``(R, D)``.
            context: context of the aggregation.
        """
        if context.training:
            self.adjacencies[context.layer] = adjacency
        result: Tensor = Aggregate.apply(context.own(x), self._aggregation(adjacency, context))
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
        """Return ``aggregate(x) weight + x self_weight + bias``, float32 ``(R, O)``; products act on totals."""
        aggregation = self._aggregation(adjacency, context)
        # Totals received by mirrors were rounded by the codec, and are multiplied next.
        if context.training and not aggregation.keeps and self.mirrors.wires.rounds("forward"):
            aggregation.products.note_requantized(self.mirrors.num_mirrors * x.shape[1])
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
        """Return attention-weighted sums over all edges of a node, float32 ``(R, K, F)``, at each of its copies.

        Args:
            adjacency, context: as for :meth:`aggregate`; weights are not used.
            z: projected rows of all local copies, float32 ``(R, K, F)``.
            a_source, a_target: the two halves of the attention vector, ``(K, F)``.
            slope: negative slope of the leaky ReLU.
        """
        result: Tensor = Attend.apply(z, a_source, a_target, self._aggregation(adjacency, context), slope)
        return result

    def extend(self, x: Tensor, context: AggregationContext) -> Tensor:
        """Raise an error: under a vertex-cut no worker has all neighbours of a node.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "extend needs all neighbours of a node at its owner, got a vertex-cut, which distributes them; call "
            "aggregate or attend, or choose exchange Halo()"
        )

    def _aggregation(self, adjacency: Adjacency, context: AggregationContext) -> MirrorAggregation:
        return MirrorAggregation(
            self.mirrors,
            adjacency,
            context,
            self._runner(context),
            self.products.exact if context.exact else self.products,
        )
