"""Rows of any nodes, fetched from their owners; their gradients go home. No graph says which: a list does.

All rows travel as float32, whatever codec, widths and cache a system has: a plan that is exact. Sender and receiver
know the list beforehand, so nothing but rows and headers travels.

Letters: N rows of this worker, F rows that come, D columns, M nodes whose rows all workers need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnnqlab.exchange.hop import Hop
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.message.channel import ByteBuffers, Channel
from gnnqlab.message.place import Place, no_phases
from gnnqlab.message.wires import Wires
from gnnqlab.partition.plan import Plan, Route

__all__ = ["Fetch", "Fetched", "Wanted"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Wanted:
    """Global ids of rows that this worker sends to, and needs from, each worker; ascending, none for itself."""

    send: Sequence[Tensor]
    receive: Sequence[Tensor]


@dataclass(frozen=True, eq=False)
class Fetched:
    """What came: where rows are behind those of this worker."""

    rows: Tensor
    """Rows of this worker, then those fetched, float32 ``(N + F, D)``; differentiable in the former."""
    shared: Tensor
    """Where the rows are that all workers need, int64 ``(M,)``."""


class Fetch:
    """Fetches the rows that one worker needs, pass by pass: the same ones each time, and others for all workers.

    Args:
        owned: global ids of the rows of this worker, int64 ``(N,)``.
        owner: of every node, int32 ``(V,)``.
        wanted: what is fetched each time.
        wires: how rows travel; none if there are no other workers.
        rank, workers: who this is, of how many.
        device: where rows are.
        timeline: told when each part runs.
    """

    def __init__(
        self,
        owned: Tensor,
        owner: Tensor,
        wanted: Wanted,
        wires: Wires | None,
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
        self._channels: dict[tuple[Place, bool], Channel] = {}
        self._buffers: ByteBuffers = {}
        self._made: tuple[Tensor, dict[str, Plan], Tensor, int] | None = None

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

    def __call__(self, rows: Tensor, shared: Tensor, look: Hop) -> Fetched:
        """Return the rows of this worker with those fetched behind them.

        Args:
            rows: of this worker's nodes, float32 ``(N, D)``.
            shared: distinct nodes whose rows all workers need this time, int64 ``(M,)``, the same everywhere.
            look: epoch and place; outside training nothing is counted.

        Raises:
            NonFiniteMessage: if a row to send holds NaN or Inf.
        """
        plans, places, num_rows = self._plans(shared)
        if not self._peers:
            return Fetched(rows, places)
        return Fetched(_Fetch.apply(rows, self, look, plans, num_rows), places)

    def channel(self, look: Hop, direction: str, plan: Plan) -> Channel:
        """Return the channel of a look and direction."""
        assert self._wires is not None
        key = Place(look.layer, direction), look.training
        if key not in self._channels:
            make = self._wires.channel if look.training else self._wires.exact_channel
            phases = partial(self._timeline, place=key[0]) if look.training else self._timeline
            self._channels[key] = make(key[0], plan, phases=phases, buffers=self._buffers)
        return self._channels[key]

    def _plans(self, shared: Tensor) -> tuple[dict[str, Plan], Tensor, int]:
        """Return who sends which rows to whom, where the shared rows are then, and how many rows there are in all."""
        if self._made is not None and self._made[0] is shared:
            return self._made[1], self._made[2], self._made[3]
        owners, places = self._owner[shared], self._local[shared]
        mine = shared[owners == self.rank]
        send, receive, first = [], [], self._num_fixed
        for peer in self._peers:
            _, known = _find(self._wanted.send[peer], mine)
            ids = torch.cat([self._wanted.send[peer], mine[~known]])
            rows = torch.cat([self._sent[peer], self._local[mine[~known]]])
            send.append(Route(peer, rows.to(self._device), ids.to(self._device), None))
        for peer in sorted(self._peers):
            theirs = (owners == peer).nonzero().flatten()
            at, known = _find(self._wanted.receive[peer], shared[theirs])
            places[theirs[known]] = self._firsts[peer] + at[known]
            others = theirs[~known]
            more = torch.arange(first, first + others.numel())
            places[others], first = more, first + others.numel()
            fixed = self._wanted.receive[peer]
            rows = torch.cat([torch.arange(self._firsts[peer], self._firsts[peer] + fixed.numel()), more])
            ids = torch.cat([fixed, shared[others]])
            receive.append(Route(peer, (rows - self._num_owned).to(self._device), ids.to(self._device), None))
        out = {
            "forward": Plan(self.rank, self.workers, tuple(send), tuple(receive), accumulate=False, exact=True),
            "backward": Plan(self.rank, self.workers, tuple(receive), tuple(send), accumulate=True, exact=True),
        }
        self._made = shared, out, places.to(self._device), first
        return out, self._made[2], first


class _Fetch(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, fetch: Fetch, look: Hop, plans: dict[str, Plan], num_rows: int) -> Tensor:
        ctx.fetch, ctx.look, ctx.plans, ctx.num_owned = fetch, look, plans, rows.shape[0]
        rows = rows.contiguous()
        out = rows.new_empty(num_rows, rows.shape[1])
        plan = plans["forward"]
        came = fetch.channel(look, "forward", plan).post(rows, out[rows.shape[0] :], epoch=look.epoch, plan=plan)
        out[: rows.shape[0]] = rows
        came.decode()
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, plan = gradients[0], ctx.plans["backward"]
        home = gradient[: ctx.num_owned].clone()
        theirs = gradient[ctx.num_owned :].contiguous()
        channel = ctx.fetch.channel(ctx.look, "backward", plan)
        return channel.post(theirs, home, epoch=ctx.look.epoch, plan=plan).decode(), None, None, None, None


def _find(ascending: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return where ids are in an ascending list, and which are."""
    if not ascending.numel():
        return torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    at = torch.searchsorted(ascending, ids).clamp_(max=ascending.numel() - 1)
    return at, ascending[at] == ids
