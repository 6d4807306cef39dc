"""Gather rows of arbitrary nodes from their owners by lists of ids; gradients are sent back to the owners.

Rows are sent as float32, in one message per peer with an exact plan. If the codec rounds, rows that are fetched in
every pass are quantized, and those fetched only in this pass are sent in a second, exact message. Sender and receiver
know the lists beforehand, so only rows, parameters and headers are sent.

Letters: N rows of this worker, F fetched rows, D columns, M nodes whose rows all workers need.
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
    """Global ids of the rows that this worker sends to, and needs from, each worker; ascending, empty for itself."""

    send: Sequence[Tensor]
    receive: Sequence[Tensor]


@dataclass(frozen=True, eq=False)
class _Messages:
    """Plans of one message per peer, forward and backward; several messages have different rounds."""

    forward: Plan
    backward: Plan
    round: int = 0


@dataclass(frozen=True, eq=False)
class _PassPlan:
    """Plan of one pass."""

    shared: Tensor
    """Global ids of the shared rows, int64 ``(M,)``."""
    exact: tuple[_Messages, ...]
    """All rows in one float32 message."""
    rounded: tuple[_Messages, ...]
    """Rows of every pass, quantized, then the others in float32; empty if the codec does not round."""
    places: Tensor
    """Positions of the shared rows in the result, int64 ``(M,)``."""
    num_rows: int
    """N + F."""


@dataclass(frozen=True, eq=False)
class GatheredRows:
    """Result of a fetch: rows of this worker, followed by fetched rows."""

    rows: Tensor
    """Rows of this worker, then fetched rows, float32 ``(N + F, D)``; differentiable in the former."""
    shared: Tensor
    """Positions of the rows that all workers need, int64 ``(M,)``."""


class RowGather:
    """Gather of remote rows for one worker: a fixed set in every pass, and further rows shared by all workers.

    Args:
        owned: global ids of the rows of this worker, int64 ``(N,)``.
        owner: rank that owns each node, int32 ``(V,)``.
        wanted: rows to fetch in every pass.
        wires: factory of channels; ``None`` without other workers.
        rank, workers: rank of this worker, and number of workers.
        device: device of the rows.
        timeline: recorder of when each part runs.
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
        self._peers = [(rank + k) % workers for k in range(1, workers)]  # not all start with rank 0
        self._local = torch.full((owner.numel(),), -1, dtype=torch.int64)  # (V,) row of each owned node, -1 for others
        self._local[owned] = torch.arange(owned.numel())
        self._firsts = [0] * workers
        """Position in the result of the first fixed row of each worker."""
        first = owned.numel()
        for peer in sorted(self._peers):
            self._firsts[peer] = first
            first += wanted.receive[peer].numel()
        self._num_fixed = first
        self._sent = [self._local[ids] for ids in wanted.send]
        self._channels: dict[tuple[ExchangeKey, bool], Channel] = {}
        self._buffers: tuple[ByteBuffers, ByteBuffers] = ({}, {})
        """Byte buffers of each round, because both may be in flight at once."""
        self._rounds = wires is not None and any(wires.rounds(way) for way in ("forward", "backward"))
        self._fixed = self._messages(
            {peer: (self._sent[peer], wanted.send[peer]) for peer in self._peers},
            {peer: (self._fixed_rows(peer), wanted.receive[peer]) for peer in self._peers},
            exact=False,
        )
        self._last_plan: _PassPlan | None = None

    @property
    def channels(self) -> list[Channel]:
        """Channels of training passes; those of evaluation are not counted."""
        return [channel for (_, training), channel in self._channels.items() if training]

    def places(self, ids: Tensor) -> Tensor:
        """Return the positions in the result of nodes that are owned or fetched in every pass, int64.

        Raises:
            ValueError: if a node is neither.
        """
        places = self._local[ids]  # (n,) int64, -1 for remote nodes until below
        for peer in self._peers:
            remote_indices = (self._owner[ids] == peer).nonzero().flatten()
            positions, is_known = _find(self._wanted.receive[peer], ids[remote_indices])
            if not bool(is_known.all()):
                unknown_id = int(ids[remote_indices][~is_known][0])
                raise ValueError(
                    f"rank {self.rank}: nodes must be its own or fetched in every pass, got node {unknown_id} of rank "
                    f"{peer}; distribute the links again"
                )
            places[remote_indices] = self._firsts[peer] + positions
        return places

    def __call__(self, rows: Tensor, shared: Tensor, context: AggregationContext) -> GatheredRows:
        """Gather remote rows; collective over all workers.

        Args:
            rows: rows of this worker's nodes, float32 ``(N, D)``.
            shared: distinct nodes whose rows all workers need in this pass, int64 ``(M,)``, equal on all workers.
            context: epoch, layer and direction of use; evaluation is not counted.

        Raises:
            NonFiniteMessage: if a row to send holds NaN or Inf.
        """
        plan = self._plan_pass(shared)
        if not self._peers:
            return GatheredRows(rows, plan.places)
        # Evaluation, or a codec that does not round: one float32 message in place of two.
        messages = plan.rounded if self._rounds and context.training else plan.exact
        return GatheredRows(_Fetch.apply(rows, self, context, messages, plan.num_rows), plan.places)

    def channel(self, context: AggregationContext, direction: str, messages: _Messages) -> Channel:
        """Return the channel of a pass and direction; that of evaluation sends float32 and is not counted."""
        assert self._wires is not None
        place = ExchangeKey(context.layer, direction, messages.round)
        key = place, context.training
        if key not in self._channels:
            make = self._wires.channel if context.training else self._wires.exact_channel
            phases = partial(self._timeline, place=place) if context.training else self._timeline
            plan = messages.forward if direction == "forward" else messages.backward
            self._channels[key] = make(place, plan, phases=phases, buffers=self._buffers[messages.round])
        return self._channels[key]

    def _plan_pass(self, shared_ids: Tensor) -> _PassPlan:
        """Plan the messages of a pass; cached while ``shared_ids`` is the same tensor."""
        if self._last_plan is not None and self._last_plan.shared is shared_ids:
            return self._last_plan
        fixed_rows, owners, places = self._wanted, self._owner[shared_ids], self._local[shared_ids]
        own_ids, first = shared_ids[owners == self.rank], self._num_fixed  # shared rows of this worker, in common order
        # Shared rows that a peer fetches in every pass anyway are not sent twice.
        send, receive = {}, {}
        for peer in self._peers:
            _, is_known = _find(fixed_rows.send[peer], own_ids)
            send[peer] = self._local[own_ids[~is_known]], own_ids[~is_known]
        for peer in sorted(self._peers):
            remote_indices = (owners == peer).nonzero().flatten()
            positions, is_known = _find(fixed_rows.receive[peer], shared_ids[remote_indices])
            # Rows of every pass have a fixed place; the others follow after all fixed rows.
            places[remote_indices[is_known]] = self._firsts[peer] + positions[is_known]
            pass_indices = remote_indices[~is_known]
            places[pass_indices] = torch.arange(first, first + pass_indices.numel())
            # Routes count from the first row after those of this worker, as ``out`` is sliced in `_Fetch`.
            receive[peer] = places[pass_indices] - self._num_owned, shared_ids[pass_indices]
            first += pass_indices.numel()
        # At this point ``send`` and ``receive`` hold only the rows that are not fetched in every pass.
        rounded_messages: tuple[_Messages, ...] = ()
        if self._rounds:
            rounded_messages = self._fixed, self._messages(send, receive, exact=True, round=1)
        for peer in self._peers:
            send[peer] = _concatenate((self._sent[peer], fixed_rows.send[peer]), send[peer])
            receive[peer] = _concatenate((self._fixed_rows(peer), fixed_rows.receive[peer]), receive[peer])
        exact_messages = (self._messages(send, receive, exact=True),)
        self._last_plan = _PassPlan(shared_ids, exact_messages, rounded_messages, places.to(self._device), first)
        return self._last_plan

    def _fixed_rows(self, peer: int) -> Tensor:
        """Return the positions, after the rows of this worker, of a peer's rows that are fetched in every pass."""
        first = self._firsts[peer] - self._num_owned
        return torch.arange(first, first + self._wanted.receive[peer].numel())

    def _messages(self, send: dict[int, _Rows], receive: dict[int, _Rows], *, exact: bool, round: int = 0) -> _Messages:
        """Build the plans of messages from local rows and their ids, by peer."""
        send_routes, receive_routes = (
            tuple(
                Route(peer, rows.to(self._device), ids.to(self._device), None) for peer, (rows, ids) in by_peer.items()
            )
            for by_peer in (send, receive)
        )
        return _Messages(
            forward=Plan(self.rank, self.workers, send_routes, receive_routes, accumulate=False, exact=exact),
            # The same routes in reverse: several workers may fetch a row, so its gradients are added.
            backward=Plan(self.rank, self.workers, receive_routes, send_routes, accumulate=True, exact=exact),
            round=round,
        )


_Rows = tuple[Tensor, Tensor]
"""Local row indices, and their global ids."""


class _Fetch(torch.autograd.Function):
    """Append fetched rows to own rows; backward, send their gradients to the owners and add those received."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        fetch: RowGather,
        context: AggregationContext,
        messages: tuple[_Messages, ...],
        num_rows: int,
    ) -> Tensor:
        ctx.fetch, ctx.context, ctx.messages, ctx.num_owned = fetch, context, messages, rows.shape[0]
        rows = rows.contiguous()
        out = rows.new_empty(num_rows, rows.shape[1])  # (N + F, D)
        pending_rows = [
            fetch.channel(context, "forward", plans).post(
                rows, out[rows.shape[0] :], epoch=context.epoch, plan=plans.forward
            )
            for plans in messages
        ]
        out[: rows.shape[0]] = rows  # copied while messages are in flight
        for message in pending_rows:
            message.decode()
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, context = gradients[0], ctx.context
        # The gradient belongs to autograd; received gradients are added to a copy.
        own_gradient = gradient[: ctx.num_owned].clone()  # (N + F, D) -> (N, D)
        remote_gradient = gradient[ctx.num_owned :].contiguous()  # (F, D)
        pending_rows = [
            ctx.fetch.channel(context, "backward", plans).post(
                remote_gradient, own_gradient, epoch=context.epoch, plan=plans.backward
            )
            for plans in ctx.messages
        ]
        for message in pending_rows:
            message.decode()
        return own_gradient, None, None, None, None


def _concatenate(rows: _Rows, other_rows: _Rows) -> _Rows:
    return torch.cat([rows[0], other_rows[0]]), torch.cat([rows[1], other_rows[1]])


def _find(sorted_ids: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positions of ids in an ascending list, and a mask of the ids that are in it."""
    if not sorted_ids.numel():
        return torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    # Clamped, because an id above all others gets the position after the last.
    positions = torch.searchsorted(sorted_ids, ids).clamp_(max=sorted_ids.numel() - 1)
    return positions, sorted_ids[positions] == ids
