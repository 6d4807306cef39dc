"""Synchronization of the copies of a node: mirrors send partial sums to the master, which sends totals back.

Both directions of a layer are identical. For copies r of a node, ``T_r = sum over all copies q of S_q``: a sum, then a
copy to all. This matrix is symmetric, so it is its own transpose, and gradients use the same two rounds.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.schedules.schedule import Runner
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import ByteBuffers, Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.channels.incoming import PendingReceive
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.partition.host_aggregation import direct_legs, hierarchical_legs
from gnnqlab.partition.plan import Plan
from gnnqlab.partition.replica_shard import ReplicaShard

__all__ = ["GATHER", "SCATTER", "MirrorAggregation", "Mirrors"]

GATHER, SCATTER = 0, 1
"""Rounds without hierarchical aggregation; see :mod:`gnnqlab.partition.host_aggregation` for the rounds with it."""


class Mirrors:
    """Replicated rows of one worker: rounds, channels and buffers of their synchronization.

    Args:
        shard: the worker's share of the graph.
        wires: factory of its channels.
        timeline: recorder of when each part runs.
        device: device of the worker.
        hosts: number of hosts for hierarchical aggregation; 1: none.
    """

    def __init__(
        self,
        shard: ReplicaShard,
        wires: ChannelFactory,
        *,
        timeline: Timeline,
        device: torch.device | str = "cpu",
        hosts: int = 1,
    ) -> None:
        self.num_rows, self.num_central, self.num_mirrors = shard.num_columns, shard.num_central, shard.num_halo
        self.wires, self.timeline = wires, timeline
        self.legs = direct_legs(shard, device) if hosts == 1 else hierarchical_legs(shard, hosts, device)
        """Exchanges of a synchronization, one per round, identical in both directions."""
        self.totals: dict[int, Tensor] = {}
        """Layer -> cached sums of static rows."""
        self._bytes: ByteBuffers = {}
        """Buffers shared by all messages: rounds run one after another, so only one is in flight."""
        self._channels: dict[ExchangeKey, Channel] = {}
        self._exact: dict[ExchangeKey, Channel] = {}
        self._static_channels: list[Channel] = []

    @property
    def channels(self) -> list[Channel]:
        """Channels of training passes, and those of rows that are sent once."""
        return [*self._channels.values(), *self._static_channels]

    @property
    def every_channel(self) -> list[Channel]:
        """All channels, including those of evaluation."""
        return [*self.channels, *self._exact.values()]

    def channel(self, place: ExchangeKey, plan: Plan, *, exact: bool) -> Channel:
        """Return the channel of an exchange key; an exact one sends float32 rows and is not counted."""
        options: dict[str, Any] = {"launch": self.timeline.stages.after_launch, "buffers": self._bytes}
        if exact:
            if place not in self._exact:
                self._exact[place] = self.wires.exact_channel(place, plan, phases=self.timeline, **options)
            return self._exact[place]
        if place not in self._channels:
            phases = partial(self.timeline, place=place)
            self._channels[place] = self.wires.channel(place, plan, phases=phases, **options)
        return self._channels[place]

    def static_channel(self, place: ExchangeKey) -> Channel:
        """Create a channel for float32 rows that are sent once in the run."""
        plan = self.legs[place.round].plan
        phases = partial(self.timeline, place=place)
        self._static_channels.append(self.wires.exact_channel(place, plan, phases=phases, keeps_buffers=False))
        return self._static_channels[-1]


@dataclass(frozen=True, eq=False)
class MirrorAggregation:
    """Arguments of the steps of one aggregation, except tensors."""

    mirrors: Mirrors
    adjacency: Adjacency
    """Matrix ``(R, R)``, central rows first; products with rows of replicated nodes are partial sums."""
    context: AggregationContext
    schedule: Runner
    products: Products

    @property
    def keeps(self) -> bool:
        """True if these sums are identical in every epoch, so that they are exchanged once and cached."""
        return self.context.static and self.mirrors.wires.keep_static

    def place(self, direction: str, round: int = GATHER) -> ExchangeKey:
        return ExchangeKey(self.context.layer, direction, round)

    def part(self, what: str, direction: str, round: int = GATHER) -> AbstractContextManager[object]:
        """Run a part of a step; recorded in training only."""
        return self.mirrors.timeline(what, self.place(direction, round) if self.context.training else None)

    def channel(self, direction: str, round: int, plan: Plan | None = None) -> Channel:
        """Return the channel of a round, by default with the plan of its leg."""
        place = self.place(direction, round)
        if direction == "forward" and self.keeps:  # in float32: the sums are reused in every epoch
            return self.mirrors.static_channel(place)
        return self.mirrors.channel(place, plan or self.mirrors.legs[round].plan, exact=not self.context.training)

    @property
    def last(self) -> int:
        """Last round, after which all copies have the totals."""
        return len(self.mirrors.legs) - 1

    def gather(self, direction: str, rows: Tensor, round: int = GATHER) -> PendingReceive:
        """Post partial sums to masters; received ones are added to ``rows`` ``(R, D)``."""
        channel, joins = self.channel(direction, round), self.mirrors.legs[round].joins
        if joins is not None:
            channel.selection.cache_own(rows, joins)
        return channel.post(rows, rows, epoch=self.context.epoch)

    def scatter(self, direction: str, rows: Tensor, round: int = SCATTER) -> PendingReceive:
        """Post totals from masters; received ones overwrite the rows of mirrors.

        A master replaces its own total by the decoded one, so all copies of a node are identical bit by bit.
        """
        channel = self.channel(direction, round)
        # Encode first, then replace: the decoded values come from the bytes that were just sent.
        pending_rows = channel.post(rows, rows, epoch=self.context.epoch)
        channel.as_received(rows)
        return pending_rows
