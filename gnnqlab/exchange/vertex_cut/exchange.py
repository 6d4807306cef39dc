"""The exchange of a vertex-cut: partial sums gather at masters, totals scatter to mirrors (CDFGNN Algorithm 1).

Each copy of a node is a row of the model on its worker: it is projected, normed and dropped there like its master,
from the same numbers, and only the sums over neighbours travel. Where the sum is taken is the layer's choice, as for
every exchange: after the product with W where that makes rows narrower, before it elsewhere. Bias, norms, self weights
and the projections that follow act on totals, so they count once. A weight's gradient is the sum over copies of what
came through the edges of each, and through the loss at its master.

Letters: R rows (masters, then mirrors), D columns in, O columns out, K heads of F features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.protocol import ExchangePart, WorkerExchange
from gnnqlab.exchange.schedules.schedule import Schedule
from gnnqlab.exchange.traffic_model import AggregationCall, MessageVolumes, PartitionSizes
from gnnqlab.exchange.vertex_cut.attention import Attend
from gnnqlab.exchange.vertex_cut.mirrors import MirrorAggregation, Mirrors
from gnnqlab.exchange.vertex_cut.sums import Aggregate
from gnnqlab.exchange.whole import convolve_in_steps
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.direction import of_direction
from gnnqlab.message.exchange_key import Phases, no_phases
from gnnqlab.partition.replica_shard import ReplicaShard

__all__ = ["ReplicaExchange", "Replicas"]


@dataclass(frozen=True, kw_only=True)
class Replicas(ExchangePart):
    """Recipe part of the axis ``exchange``: copies of a node add their sums up and share the total (vertex-cut).

    On several hosts copies may meet first: those of one host sum at a representative, which alone sends to the master
    and gets the total, and relays it. Rows within hosts are then float32, and codec, widths and cache are those of rows
    between hosts, of which there are never more. A host with one worker has nothing that could meet.

    Differs: CDFGNN's copies do not meet; each counts in its Table 3.

    Example:
        >>> Replicas(meet=True).on_hosts(2).hosts, Replicas(meet=True, hosts=4).on_hosts(2).hosts
        (2, 4)
    """

    takes_cuts_of: ClassVar[str] = "edges"
    """A node's edges lie on several workers, and each has a part of its sum: what a cut of edges gives."""
    drops_before: ClassVar[bool] = True
    """Rows are dropped before they are summed, so none travels that its receiver would have to drop."""
    meet: bool = False
    """Whether the copies of a node meet on their host. Each row that is saved between hosts is one more within a host,
    in float32 there: with float32 between hosts it pays where these are slower, with 8 bits, of which every inner row
    then has four times as many, only where they are slower by far; so it is asked for."""
    hosts: int | None = None
    """Of equally many consecutive workers each; by default those of the run."""

    def __post_init__(self) -> None:
        if self.hosts is not None and self.hosts < 1:
            raise ValueError(f"Replicas hosts must be at least 1, got {self.hosts}")
        if self.hosts is not None and not self.meet:
            raise ValueError(f"hosts are where copies meet, got hosts {self.hosts} with meet False; choose meet True")

    def on_hosts(self, hosts: int) -> Replicas:
        """Return the exchange of a run on so many hosts; one that names its own keeps them."""
        return replace(self, hosts=hosts) if self.meet and self.hosts is None else self

    def refuses(self, system: Any) -> str:
        """Say why a system cannot have it."""
        if system.schedule.lag:
            return (
                "a total is made of parts of one epoch, and this schedule's rows are those of an epoch before; choose "
                "schedule Synchronous() or Overlapped()"
            )
        if system.sampler.p < 1.0:
            return "a sum lacks what a sampler leaves out of its parts; choose sampler AllRows()"
        for direction in ("forward", "backward"):
            if of_direction(system.bits, direction).of_halo_rows:
                kind = type(of_direction(system.bits, direction)).__name__
                return f"bits {kind} are those of halo rows, got parts of sums; choose bits Fixed() or UniformRandom()"
        return ""

    def moved(self, look: AggregationCall, sizes: PartitionSizes) -> MessageVolumes:
        """Return what a look moves: partial sums of mirrors and their totals, in attention a denominator a head too."""
        back = [("backward", 2 * sizes.copies, look.columns)] if look.needs_gradient else []
        return [("forward", 2 * sizes.copies, look.columns + look.heads), *back]

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
        """Return the exchange of one worker; arguments as for :meth:`gnnqlab.exchange.halo.exchange.Halo.join`."""
        hosts = self.hosts or 1
        if shard.workers % hosts:
            raise ValueError(f"workers must be a multiple of the hosts, got {shard.workers} worker(s) on {hosts} hosts")
        if hosts == shard.workers:
            hosts = 1  # each is alone on its host
        return ReplicaExchange(shard, wires, schedule, products, device=device, phases=phases, hosts=hosts)


class ReplicaExchange(WorkerExchange):
    """Looks at neighbours under a vertex-cut; see :class:`gnnqlab.exchange.protocol.Exchange`."""

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
        """What travels, and where it lands."""

    @property
    def channels(self) -> list[Channel]:
        return self.mirrors.channels

    def aggregate(self, adjacency: Adjacency, x: Tensor, context: AggregationContext) -> Tensor:
        """Return ``S A x``, float32 ``(R, D)``: the sums of all edges of a node, at each of its copies.

        Args:
            adjacency: ``(R, R)``, the edges here.
            x: rows of all copies here, float32 ``(R, D)``.
            hop: which look at neighbours this is.
        """
        if context.training:
            self.adjacencies[context.layer] = adjacency
        result: Tensor = Aggregate.apply(context.own(x), self._look(adjacency, context))
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
        look = self._look(adjacency, context)
        if context.training and not look.keeps and self.mirrors.wires.rounds("forward"):
            look.products.note_requantized(self.mirrors.num_mirrors * x.shape[1])
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
            adjacency, hop: as for :meth:`aggregate`; weights are not used.
            z: projected rows of all copies here, float32 ``(R, K, F)``.
            a_source, a_target: the two halves of the attention vector, ``(K, F)``.
            slope: of the leaky rectifier.
        """
        result: Tensor = Attend.apply(z, a_source, a_target, self._look(adjacency, context), slope)
        return result

    def extend(self, x: Tensor, context: AggregationContext) -> Tensor:
        """Refuse: a node's neighbours lie on several workers.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "extend brings a node's neighbours to its owner, got a cut of edges, under which they stay apart; call "
            "aggregate or attend, or choose exchange Halo()"
        )

    def _look(self, adjacency: Adjacency, context: AggregationContext) -> MirrorAggregation:
        return MirrorAggregation(
            self.mirrors,
            adjacency,
            context,
            self._runner(context),
            self.products.exact if context.exact else self.products,
        )
