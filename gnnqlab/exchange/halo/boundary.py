"""State shared by the steps of an edge-cut on one worker: plans, samples, channels and halo buffers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.halo.peer_schedule import PeerSchedule, PeerTurn
from gnnqlab.exchange.halo.sampling import Sampling
from gnnqlab.exchange.schedules.schedule import Runner
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import ByteBuffers, Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.exchange_key import ExchangeKey, Phases
from gnnqlab.message.transport.once_per_host import agree_on_relays
from gnnqlab.message.transport.preposted_receives import PrepostedReceives
from gnnqlab.observe import TensorAllocated
from gnnqlab.partition.plan import Plan
from gnnqlab.partition.shard import Shard

__all__ = ["Boundary", "LayerPlan", "plan_layer"]


class Boundary:
    """Rows that one worker exchanges under an edge-cut: plans, samples, channels and halo buffers."""

    stands_for: ClassVar[dict[str, str]] = {"_halos": "halo", "_static": "halo"}

    def __init__(
        self,
        shard: Shard,
        wires: ChannelFactory,
        *,
        lag: int,
        in_turn: bool = False,
        timeline: Timeline,
        device: torch.device | str = "cpu",
        hosts: int = 1,
    ) -> None:
        self.num_owned, self.num_central, self.num_halo = shard.num_owned, shard.num_central, shard.num_halo
        self.wires, self.timeline = wires, timeline
        self.still = lag == 0
        """True if sent rows are not modified before the transfer ends, because the same step waits for it."""
        self.owners_drop = lag == 0
        """True if the owner of a row applies the dropout mask to its summed gradient; see `LayerPlan`."""
        self._lag = lag
        self._halo_ids = shard.halo.to(device)
        self._plans = {direction: shard.plan(direction, device) for direction in ("forward", "backward")}
        self.sampling = Sampling(
            wires.sampler,
            self._plans,
            num_owned=shard.num_owned,
            num_central=shard.num_central,
            num_halo=shard.num_halo,
            seed=wires.seed,
            lag=lag,
            # A sampler with p > 0 has weights of its own, for hidden edges only.
            edge_coverage=shard.edge_coverage if wires.sampler.p == 0.0 else None,
        )
        """Samples of halo rows by epoch, with their weight."""
        num_owned, num_central = shard.num_owned, shard.num_central
        in_turn = in_turn and shard.workers > 1
        self.turns = PeerSchedule(self._plans, num_owned=num_owned, num_central=num_central) if in_turn else None
        """Turns, if rows are received from one worker at a time; else ``None``."""
        self._bytes: ByteBuffers = {}
        """Shared buffers of messages that are never in flight together: of all passes, or with stale rows only of
        evaluation."""
        # No preposting with stale rows, which have an epoch to be received, nor in turns, which free their buffers.
        self._ahead = None if lag or self.turns is not None else PrepostedReceives(self._bytes)
        self._channels: dict[ExchangeKey, Channel] = {}
        self._exact: dict[ExchangeKey, Channel] = {}
        self._once: list[Channel] = []
        self._static: dict[int, Tensor] = {}
        # Relays of rows that are sent once to each other host are agreed on when the first row is sent.
        self._relayed_hosts = hosts if 1 < hosts < shard.workers else None
        self._halos: dict[tuple[int, int, int], Tensor] = {}

    @property
    def channels(self) -> list[Channel]:
        """Channels of training passes, and those of rows that are sent once."""
        return [*self._channels.values(), *self._once]

    @property
    def every_channel(self) -> list[Channel]:
        """All channels, including those of evaluation."""
        return [*self.channels, *self._exact.values()]

    def channel(self, context: AggregationContext, direction: str) -> Channel:
        """Return the channel of an aggregation and direction; that of evaluation sends float32 and is not counted."""
        # Opened at first use: models decide which layers aggregate, and in which directions.
        place, channels = ExchangeKey(context.layer, direction), self._channels if context.training else self._exact
        if not context.training and self._ahead is not None:
            self._ahead.leave()  # preposted receives of a training pass may own the shared buffers
        if place not in channels:
            channels[place] = self._open(place, training=context.training)
        return channels[place]

    def _plan(self, direction: str) -> Plan:
        """Return the plan of all rows of a direction; the first one forward is agreed on by all workers."""
        if direction == "forward" and self._relayed_hosts is not None:
            hosts, self._relayed_hosts = self._relayed_hosts, None
            transport = self.wires.exact_transport or self.wires.transport
            self._plans[direction] = agree_on_relays(self._plans[direction], hosts, transport)
        return self._plans[direction]

    def _open(self, place: ExchangeKey, *, training: bool) -> Channel:
        plan, stages = self._plan(place.direction), self.timeline.stages
        options: dict[str, Any] = {"launch": stages.after_launch, "keeps_buffers": self.turns is None}
        if not training:
            return self.wires.exact_channel(place, plan, phases=self.timeline, buffers=self._bytes, **options)
        # Stale rows are still in flight when the next layer posts, so their channels have buffers of their own.
        options |= {"buffers": None if self._lag else self._bytes, "ahead": self._ahead}
        return self.wires.channel(place, plan, phases=partial(self.timeline, place=place), **options)

    def halo_buffer(self, layer: int, like: Tensor, buffer: int, sampled_in: int | None) -> Tensor:
        """Return a buffer for the halo rows of a layer, ``(H, D)``, or for those of an epoch's sample, ``(K, D)``.

        Buffers are reused in every epoch. With stale rows, rows of two epochs and gradients coexist and have different
        ``buffer`` indices; otherwise all layers with the same D share one. With a sampler, buffers for whole halos,
        which only evaluation needs, are not stored: they would be larger than all others.
        """
        num_rows, columns = self.num_halo if sampled_in is None else self.sampling.num_rows(sampled_in), like.shape[1]
        if self.sampling.active and sampled_in is None:
            return self.report_buffer(self.wires.codec_of("forward").rows(num_rows, columns, like.device))
        key = (layer, columns, buffer) if self._lag else (0, columns, 0)
        if key not in self._halos or self._halos[key].shape[0] < num_rows:
            spare_rows = num_rows // 16 if self.sampling.active else 0  # the next sample may be larger
            # The codec allocates, because the strides of the rows decide how fast it decodes them.
            codec = self.wires.codec_of("forward")
            self._halos[key] = self.report_buffer(codec.rows(num_rows + spare_rows, columns, like.device))
        return self._halos[key][:num_rows]  # (num_rows, D), a view

    def turn_buffer(self, turn: PeerTurn, like: Tensor) -> Tensor:
        """Allocate a buffer for the halo rows of a turn, ``(H_k, D)``; it is freed after use."""
        return self.report_buffer(self.wires.codec_of("forward").rows(turn.num_rows, like.shape[1], like.device))

    def report_buffer(self, halo: Tensor) -> Tensor:
        """Report a buffer for halo rows or their gradients to observers, and return it."""
        if (observers := self.wires.observers).tensor_allocated:
            observers.emit(observers.tensor_allocated, TensorAllocated(observers.rank, observers.epoch, "halo", halo))
        return halo

    def halo_ids(self, sampled_in: int | None) -> Tensor:
        """Return the global node ids of halo rows, int64 ``(H,)``, or of an epoch's sample, ``(K,)``."""
        return self._halo_ids if sampled_in is None else self._halo_ids[self.sampling.rows(sampled_in)]

    @property
    def halo_bytes(self) -> int:
        """Bytes of the halo buffers that are reused in every epoch, including static rows."""
        return sum(halo.untyped_storage().nbytes() for halo in self.halos)

    @property
    def halos(self) -> list[Tensor]:
        """Halo buffers that are reused in every epoch, including static rows."""
        return [*self._halos.values(), *self._static.values()]

    def halo_sent_once(self, layer: int, x: Tensor, epoch: int) -> Tensor:
        """Return the halo rows of a static input; they are sent once, in float32."""
        if layer not in self._static:
            halo = self.report_buffer(x.new_empty(self.num_halo, x.shape[1]))
            place = ExchangeKey(layer, "forward")
            phases = partial(self.timeline, place=place)
            channel = self.wires.exact_channel(place, self._plan("forward"), phases=phases, keeps_buffers=False)
            self._once.append(channel)  # listed, so that its bytes are counted
            # Without overlap: this happens once in the run.
            channel.post(x, halo, epoch=epoch).decode()
            self._static[layer] = halo
        return self._static[layer]


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerPlan:
    """Plan of one aggregation: everything that its steps need except tensors, resolved once when it begins.

    If receivers reuse rows over epochs, rows are sent before dropout, and the worker that aggregates them applies this
    epoch's mask. Backward, a schedule with stale rows sends masked gradients of halo rows, as PipeGCN does. A cache
    stores gradients without the mask, because the mask changes in every epoch; the owner applies it to their sum.
    """

    boundary: Boundary
    adjacency: Adjacency | None
    """Matrix ``(N, N + H)``, central rows first; ``None`` if rows are received but not aggregated."""
    context: AggregationContext
    schedule: Runner
    """Runner of its steps."""
    products: Products
    """Backend of its products."""
    sent_once: bool
    """True if these rows are sent once in the whole run."""
    turns: PeerSchedule | None
    """Turns with one owner each; ``None``: rows of all owners together."""
    rounds: int
    """Number of communication rounds."""
    sample: int | None
    """Epoch whose sample is sent; ``None``: all rows."""
    drops_gradients: bool
    """True if the gradients of halo rows are sent with this epoch's dropout mask applied."""
    places: dict[str, ExchangeKey]
    """Direction -> exchange key of the first round."""
    parts: dict[str, Phases]
    """Direction -> function that runs a part of a step on the timeline; recorded in training only."""

    def dropped(self, halo: Tensor, sampled_in: int | None) -> Tensor:
        """Apply this epoch's dropout mask to halo rows or their gradients."""
        drop = self.context.drop
        return halo if drop is None else drop.rows(halo, self.boundary.halo_ids(sampled_in))

    def count_rounded(self, rows: Tensor) -> Tensor:
        """Return received rows; report their number to the products if a codec rounded them."""
        is_counted = self.products.quantized is not None and self.context.training and not self.sent_once
        if is_counted and self.boundary.wires.rounds("forward"):
            self.products.note_requantized(rows.numel())
        return rows

    def plan(self, direction: str, sampled_in: int | None) -> Plan | None:
        """Return the plan of an epoch's sample; ``None``: all rows."""
        return None if sampled_in is None else self.boundary.sampling.plan(direction, sampled_in)


def plan_layer(
    boundary: Boundary, adjacency: Adjacency | None, context: AggregationContext, schedule: Runner, products: Products
) -> LayerPlan:
    """Resolve the rows, communication rounds and dropout of one aggregation."""
    sent_once = context.static and adjacency is not None and boundary.wires.keep_static
    # Static halo rows stay in memory for the whole run, so there is nothing to free after a turn.
    turns = None if sent_once else boundary.turns
    # Evaluation uses all rows, and static rows must be complete for all later epochs.
    is_sampled = context.training and not sent_once and boundary.sampling.active
    if adjacency is not None and is_sampled:
        adjacency = boundary.sampling.corrected(adjacency)
    forward, backward = ExchangeKey(context.layer, "forward"), ExchangeKey(context.layer, "backward")
    timeline, training = boundary.timeline, context.training
    return LayerPlan(
        boundary=boundary,
        adjacency=adjacency,
        context=context,
        schedule=schedule,
        products=products.exact if context.exact else products,
        sent_once=sent_once,
        turns=turns,
        rounds=1 if turns is None else len(turns.turns),
        sample=context.epoch if is_sampled else None,
        drops_gradients=context.drop is not None and not boundary.owners_drop,
        places={"forward": forward, "backward": backward},
        parts={
            "forward": partial(timeline, place=forward) if training else timeline,
            "backward": partial(timeline, place=backward) if training else timeline,
        },
    )
