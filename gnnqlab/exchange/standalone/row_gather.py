"""Rows of any nodes, fetched from their owners; their gradients go home. No graph says which: a list does.

Rows travel as float32, in one message a peer whose plan is exact; where wires round, those fetched each time are coded,
and what is fetched this time alone goes in an exact message beside it. Sender and receiver know the lists beforehand,
so nothing but rows, parameters and headers travels.

Letters: N rows of this worker, F rows that come, D columns, M nodes whose rows all workers need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.message.channels.channel import ByteBuffers, Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.exchange_key import ExchangeKey, no_phases
from gnnqlab.partition.plan import Plan, Route

__all__ = ["RowGather", "GatheredRows", "GatherPlan"]


@dataclass(frozen=True, eq=False, kw_only=True)
class GatherPlan:
    """Global ids of rows that this worker sends to, and needs from, each worker; ascending, none for itself."""

    send: Sequence[Tensor]
    receive: Sequence[Tensor]


@dataclass(frozen=True, eq=False)
class _Messages:
    """A message of each peer, there and back; of several, each has a round."""

    forward: Plan
    backward: Plan
    round: int = 0


@dataclass(frozen=True, eq=False)
class _This:
    """What is fetched this time."""

    shared: Tensor
    exact: tuple[_Messages, ...]
    """All in one message."""
    rounded: tuple[_Messages, ...]
    """What is fetched each time, coded, then the rest; empty where nothing is rounded."""
    places: Tensor
    """Where the shared rows are then."""
    num_rows: int


@dataclass(frozen=True, eq=False)
class GatheredRows:
    """What came: where rows are behind those of this worker."""

    rows: Tensor
    """Rows of this worker, then those fetched, float32 ``(N + F, D)``; differentiable in the former."""
    shared: Tensor
    """Where the rows are that all workers need, int64 ``(M,)``."""


class RowGather:
    """Fetches the rows that one worker needs, pass by pass: the same ones each time, and others for all workers.

    Args:
        owned: global ids of the rows of this worker, int64 ``(N,)``.
        owner: of every node, int32 ``(V,)``.
        wanted: what is fetched each time.
        wires: how rows travel in training passes; none if there are no other workers.
        rank, workers: who this is, of how many.
        device: where rows are.
        timeline: told when each part runs.
    """

    def __init__(
        self,
        owned: Tensor,
        owner: Tensor,
        wanted: GatherPlan,
        wires: ChannelFactory | None,
        *,
        rank: int,
        workers: int,
        device: torch.device | str = "cpu",
        timeline: Timeline | None = None,
    ) -> None:
        self.rank, self.workers, self._wires, self._device = rank, workers, wires, device
        self._timeline = timeline or Timeline(no_phases)
        self._owner, self._wanted, self._num_owned = owner, wanted, owned.numel()
        self._peers = [(rank + k) % workers for k in range(1, workers)]
        self._local = torch.full((owner.numel(),), -1, dtype=torch.int64)
        self._local[owned] = torch.arange(owned.numel())
        self._firsts = [0] * workers
        """Where the rows that each worker always sends begin."""
        first = owned.numel()
        for peer in sorted(self._peers):
            self._firsts[peer] = first
            first += wanted.receive[peer].numel()
        self._num_fixed = first
        self._sent = [self._local[ids] for ids in wanted.send]
        self._channels: dict[tuple[ExchangeKey, bool], Channel] = {}
        self._buffers: tuple[ByteBuffers, ByteBuffers] = ({}, {})
        """Of each round: both may be under way at once."""
        self._rounds = wires is not None and any(wires.rounds(way) for way in ("forward", "backward"))
        self._fixed = self._messages(
            {peer: (self._sent[peer], wanted.send[peer]) for peer in self._peers},
            {peer: (self._fixed_rows(peer), wanted.receive[peer]) for peer in self._peers},
            exact=False,
        )
        self._made: _This | None = None

    @property
    def channels(self) -> list[Channel]:
        """The channels of training passes; evaluation has its own, which count nowhere."""
        return [channel for (_, training), channel in self._channels.items() if training]

    def places(self, ids: Tensor) -> Tensor:
        """Return where the rows of nodes are that are this worker's, or fetched each time, int64.

        Raises:
            ValueError: if a node is neither.
        """
        found = self._local[ids]
        for peer in self._peers:
            theirs = (self._owner[ids] == peer).nonzero().flatten()
            came = self._wanted.receive[peer]
            at, known = _find(came, ids[theirs])
            if not bool(known.all()):
                strange = int(ids[theirs][~known][0])
                raise ValueError(
                    f"rank {self.rank}: rows must be its own or fetched each time, got node {strange} of rank {peer}; "
                    "share the links out again"
                )
            found[theirs] = self._firsts[peer] + at
        return found

    def __call__(self, rows: Tensor, shared: Tensor, look: AggregationContext) -> GatheredRows:
        """Return the rows of this worker with those fetched behind them.

        Args:
            rows: of this worker's nodes, float32 ``(N, D)``.
            shared: distinct nodes whose rows all workers need this time, int64 ``(M,)``, the same everywhere.
            look: epoch and place; outside training nothing is counted.

        Raises:
            NonFiniteMessage: if a row to send holds NaN or Inf.
        """
        this = self._this(shared)
        if not self._peers:
            return GatheredRows(rows, this.places)
        messages = this.rounded if self._rounds and look.training else this.exact
        return GatheredRows(_Fetch.apply(rows, self, look, messages, this.num_rows), this.places)

    def channel(self, look: AggregationContext, direction: str, messages: _Messages) -> Channel:
        """Return the channel of a look and direction; outside training one of float32 rows, which counts nowhere."""
        assert self._wires is not None
        place = ExchangeKey(look.layer, direction, messages.round)
        key = place, look.training
        if key not in self._channels:
            make = self._wires.channel if look.training else self._wires.exact_channel
            phases = partial(self._timeline, place=place) if look.training else self._timeline
            plan = messages.forward if direction == "forward" else messages.backward
            self._channels[key] = make(place, plan, phases=phases, buffers=self._buffers[messages.round])
        return self._channels[key]

    def _this(self, shared: Tensor) -> _This:
        """Return who sends which rows to whom, and where the shared rows are then."""
        if self._made is not None and self._made.shared is shared:
            return self._made
        wanted, owners, places = self._wanted, self._owner[shared], self._local[shared]
        mine, first = shared[owners == self.rank], self._num_fixed
        send, receive = {}, {}
        for peer in self._peers:
            _, known = _find(wanted.send[peer], mine)
            send[peer] = self._local[mine[~known]], mine[~known]
        for peer in sorted(self._peers):
            theirs = (owners == peer).nonzero().flatten()
            at, known = _find(wanted.receive[peer], shared[theirs])
            places[theirs[known]] = self._firsts[peer] + at[known]
            others = theirs[~known]
            places[others] = torch.arange(first, first + others.numel())
            receive[peer] = places[others] - self._num_owned, shared[others]
            first += others.numel()
        rounded: tuple[_Messages, ...] = ()
        if self._rounds:
            rounded = self._fixed, self._messages(send, receive, exact=True, round=1)
        for peer in self._peers:
            send[peer] = _behind((self._sent[peer], wanted.send[peer]), send[peer])
            receive[peer] = _behind((self._fixed_rows(peer), wanted.receive[peer]), receive[peer])
        exact = (self._messages(send, receive, exact=True),)
        self._made = _This(shared, exact, rounded, places.to(self._device), first)
        return self._made

    def _fixed_rows(self, peer: int) -> Tensor:
        """Return where, behind those of this worker, the rows of a peer come that are fetched each time."""
        first = self._firsts[peer] - self._num_owned
        return torch.arange(first, first + self._wanted.receive[peer].numel())

    def _messages(self, send: dict[int, _Rows], receive: dict[int, _Rows], *, exact: bool, round: int = 0) -> _Messages:
        """Return messages of local rows and their ids, by peer."""
        out, back = (
            tuple(Route(peer, rows.to(self._device), ids.to(self._device), None) for peer, (rows, ids) in of.items())
            for of in (send, receive)
        )
        return _Messages(
            forward=Plan(self.rank, self.workers, out, back, accumulate=False, exact=exact),
            backward=Plan(self.rank, self.workers, back, out, accumulate=True, exact=exact),
            round=round,
        )


_Rows = tuple[Tensor, Tensor]
"""Local rows, and their global ids."""


class _Fetch(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        fetch: RowGather,
        look: AggregationContext,
        messages: tuple[_Messages, ...],
        num_rows: int,
    ) -> Tensor:
        ctx.fetch, ctx.look, ctx.messages, ctx.num_owned = fetch, look, messages, rows.shape[0]
        rows = rows.contiguous()
        out = rows.new_empty(num_rows, rows.shape[1])
        under_way = [
            fetch.channel(look, "forward", each).post(rows, out[rows.shape[0] :], epoch=look.epoch, plan=each.forward)
            for each in messages
        ]
        out[: rows.shape[0]] = rows
        for came in under_way:
            came.decode()
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, look = gradients[0], ctx.look
        home = gradient[: ctx.num_owned].clone()
        theirs = gradient[ctx.num_owned :].contiguous()
        under_way = [
            ctx.fetch.channel(look, "backward", each).post(theirs, home, epoch=look.epoch, plan=each.backward)
            for each in ctx.messages
        ]
        for came in under_way:
            came.decode()
        return home, None, None, None, None


def _behind(rows: _Rows, others: _Rows) -> _Rows:
    """Return rows with others behind them."""
    return torch.cat([rows[0], others[0]]), torch.cat([rows[1], others[1]])


def _find(ascending: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return where ids are in an ascending list, and which are."""
    if not ascending.numel():
        return torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    at = torch.searchsorted(ascending, ids).clamp_(max=ascending.numel() - 1)
    return at, ascending[at] == ids
