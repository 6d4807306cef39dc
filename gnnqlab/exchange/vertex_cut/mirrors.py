"""What travels between the copies of a node: partial sums from mirrors to their master, totals from it to them.

Both directions of a layer do the same. For copies r of a node, ``T_r = sum over all copies q of S_q``: a sum, then a
copy to all; its matrix is symmetric, so it is its own transpose, and gradients take the same two rounds.
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
from gnnqlab.partition.host_aggregation import apart, meeting
from gnnqlab.partition.plan import Plan
from gnnqlab.partition.replica_shard import ReplicaShard

__all__ = ["GATHER", "SCATTER", "MirrorAggregation", "Mirrors"]

GATHER, SCATTER = 0, 1
"""Rounds of a synchronisation of copies that do not meet on hosts; see :mod:`gnnqlab.partition.host_aggregation` for others."""


class Mirrors:
    """The copies that one worker shares with others.

    Args:
        shard: its share of the graph.
        wires: how rows travel.
        timeline: when each part ran.
        device: where it trains.
        hosts: on how many copies of a node meet before their sum leaves; 1: none do.
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
        self.legs = apart(shard, device) if hosts == 1 else meeting(shard, hosts, device)
        """Of a synchronisation, one round each, the same in both directions."""
        self.totals: dict[int, Tensor] = {}
        """Layer -> sums that are the same in every epoch, found once."""
        self._bytes: ByteBuffers = {}
        """Memory of all messages: rounds follow one another, so those of one round are under way at a time."""
        self._channels: dict[ExchangeKey, Channel] = {}
        self._exact: dict[ExchangeKey, Channel] = {}
        self._once: list[Channel] = []

    @property
    def channels(self) -> list[Channel]:
        """The channels of training passes, and those of rows that travel once."""
        return [*self._channels.values(), *self._once]

    @property
    def every_channel(self) -> list[Channel]:
        """Those of evaluation too."""
        return [*self.channels, *self._exact.values()]

    def channel(self, place: ExchangeKey, plan: Plan, *, exact: bool) -> Channel:
        """Return the channel of a place; an exact one has float32 rows and counts nowhere."""
        how: dict[str, Any] = {"launch": self.timeline.stages.after_launch, "buffers": self._bytes}
        if exact:
            if place not in self._exact:
                self._exact[place] = self.wires.exact_channel(place, plan, phases=self.timeline, **how)
            return self._exact[place]
        if place not in self._channels:
            phases = partial(self.timeline, place=place)
            self._channels[place] = self.wires.channel(place, plan, phases=phases, **how)
        return self._channels[place]

    def once(self, place: ExchangeKey) -> Channel:
        """Return a new channel of float32 rows that travel once in the run."""
        plan = self.legs[place.round].plan
        phases = partial(self.timeline, place=place)
        self._once.append(self.wires.exact_channel(place, plan, phases=phases, keeps_buffers=False))
        return self._once[-1]


@dataclass(frozen=True, eq=False)
class MirrorAggregation:
    """One look at neighbours: the arguments of its steps that are not tensors."""

    mirrors: Mirrors
    adjacency: Adjacency
    """``(R, R)``, central rows first; the rows of mirrors, and of masters that have some, are parts of sums."""
    context: AggregationContext
    schedule: Runner
    products: Products

    @property
    def keeps(self) -> bool:
        """Whether these sums are the same in every epoch, and travel once in the whole run."""
        return self.context.static and self.mirrors.wires.keep_static

    def place(self, direction: str, round: int = GATHER) -> ExchangeKey:
        return ExchangeKey(self.context.layer, direction, round)

    def part(self, what: str, direction: str, round: int = GATHER) -> AbstractContextManager[object]:
        """Run a part of a step; unseen outside training."""
        return self.mirrors.timeline(what, self.place(direction, round) if self.context.training else None)

    def channel(self, direction: str, round: int, plan: Plan | None = None) -> Channel:
        """Return the channel of a round; by default with the plan of its leg."""
        place = self.place(direction, round)
        if direction == "forward" and self.keeps:
            return self.mirrors.once(place)
        return self.mirrors.channel(place, plan or self.mirrors.legs[round].plan, exact=not self.context.training)

    @property
    def last(self) -> int:
        """The round after which all copies have the totals."""
        return len(self.mirrors.legs) - 1

    def gather(self, direction: str, rows: Tensor, round: int = GATHER) -> PendingReceive:
        """Post partial sums towards masters; those that come are added to ``rows`` ``(R, D)``."""
        return self.channel(direction, round).post(rows, rows, epoch=self.context.epoch)

    def scatter(self, direction: str, rows: Tensor, round: int = SCATTER) -> PendingReceive:
        """Post totals away from masters; those that come replace the rows of mirrors.

        A master's own total becomes what its mirrors decode, so all copies of a node are equal bit by bit.
        """
        channel = self.channel(direction, round)
        came = channel.post(rows, rows, epoch=self.context.epoch)
        channel.as_received(rows)
        return came
