"""Redistribution of rows before and after an aggregation: from all columns of own nodes to own columns of all nodes.

A redistribution is an all-to-all of rows, a *split* or a *join*: in a split, worker p sends worker q its rows,
restricted to q's columns. That permutes elements, so the join is its transpose, and ``y = T' A T x`` has the gradient
``dx = T' A' T dy``: both directions are the same exchange, with A or its transpose. D columns in P shares are one
longer for the first ``D mod P`` workers. Rows of a message are equally long, so receivers of longer and of shorter
shares have separate rounds, in flight together.

Each (row, share) is a message row of its own: a codec gives it its own scale and zero-point.

Letters: N own rows, V nodes, D columns, P workers, w columns of this worker, K heads, F features of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.kernels.sparse import attention
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import ByteBuffers, Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.channels.incoming import PendingReceive
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.partition.column_shard import ColumnShard
from gnnqlab.partition.plan import Plan, Route

__all__ = ["Aggregate", "ColumnAggregation", "Redistribution", "attend", "column_groups"]

_SPLIT, _JOIN, _LOGITS = 0, 2, 4
"""First round of a split, first round of a join, and round of the logits of attention."""


def column_groups(columns: int, workers: int) -> list[tuple[range, int]]:
    """Return the workers with equally many columns and their number of columns; workers without columns are left out.

    Example:
        >>> column_groups(5, 3), column_groups(6, 3), column_groups(2, 3)
        ([(range(0, 2), 2), (range(2, 3), 1)], [(range(0, 3), 2)], [(range(0, 2), 1)])
    """
    longer = columns % workers
    groups = [(range(longer), columns // workers + 1), (range(longer, workers), columns // workers)]
    return [(members, size) for members, size in groups if members and size]


class Redistribution:
    """Plans, channels and buffers with which one worker redistributes rows.

    Args:
        shard: the worker's nodes and the matrix of the whole graph.
        wires: factory of its channels.
        timeline: recorder of when each part runs.
        device: device of the worker.
    """

    def __init__(
        self, shard: ColumnShard, wires: ChannelFactory, *, timeline: Timeline, device: torch.device | str = "cpu"
    ) -> None:
        self.rank, self.workers, self.wires, self.timeline = shard.rank, shard.workers, wires, timeline
        self.num_rows, self.num_nodes = shard.num_owned, shard.num_columns
        self._whole = shard.plan("forward", device)
        """All own rows to every worker, the rows of all others from their owners."""
        self.logit_plans = {"forward": replace(self._whole, to_all=True), "backward": shard.plan("backward", device)}
        """Plans of the logits of attention: to all workers, and partial gradients back to the owners."""
        self.sums: dict[int, Tensor] = {}
        """Layer -> cached sums of static rows."""
        self._plans: dict[tuple[int, range], Plan] = {}
        self._channels: dict[tuple[ExchangeKey, Plan], Channel] = {}
        self._exact: dict[tuple[ExchangeKey, Plan], Channel] = {}
        self._once: list[Channel] = []
        self._bytes: ByteBuffers = {}
        """Buffers of all rounds: one redistribution is in flight, and no two rounds of it have a peer in common."""

    @property
    def channels(self) -> list[Channel]:
        """Channels of training passes, and those of rows that are sent once."""
        return [*self._channels.values(), *self._once]

    def plan(self, kind: int, members: range) -> Plan:
        """Return the plan of a round of a split, ``_SPLIT``, or of a join, ``_JOIN``, of the columns of some workers.

        Whole rows are ``(N, members, c)``, seen as ``(N members, c)``: row ``i members + q`` has the columns of q.
        """
        if (kind, members) not in self._plans:
            whole, is_member = self._whole, self.rank in members
            shares = tuple(
                replace(route, rows=route.rows * len(members) + route.peer - members.start, first=None)
                for route in whole.send
                if route.peer in members
            )
            nodes = tuple(map(self._behind_own, whole.receive)) if is_member else ()
            send, receive = (shares, nodes) if kind == _SPLIT else (nodes, shares)
            # A row of own columns has as many senders as there are shares, whose rounding errors are independent.
            self._plans[kind, members] = Plan(
                self.rank,
                self.workers,
                send=send,
                receive=receive,
                accumulate=False,
                parts=kind == _JOIN,
                from_owners=kind == _SPLIT,
            )
        return self._plans[kind, members]

    def _behind_own(self, route: Route) -> Route:
        """Return the route of a peer's rows among the rows of all nodes, where own rows come first."""
        assert route.first is not None
        return replace(route, rows=route.rows + self.num_rows, first=route.first + self.num_rows)

    def channel(self, place: ExchangeKey, plan: Plan, *, exact: bool, once: bool) -> Channel:
        """Return the channel of a round; an exact one sends float32 and is only counted if its rows are sent once."""
        options: dict[str, Any] = {"launch": self.timeline.stages.after_launch, "buffers": self._bytes}
        recorded = partial(self.timeline, place=place)
        if once:
            self._once.append(self.wires.exact_channel(place, plan, phases=recorded, **options))
            return self._once[-1]
        if exact and (place, plan) not in self._exact:
            self._exact[place, plan] = self.wires.exact_channel(place, plan, phases=self.timeline, **options)
        elif not exact and (place, plan) not in self._channels:
            self._channels[place, plan] = self.wires.channel(place, plan, phases=recorded, **options)
        return (self._exact if exact else self._channels)[place, plan]


@dataclass(frozen=True, eq=False)
class ColumnAggregation:
    """Arguments of one aggregation, except tensors."""

    redistribution: Redistribution
    adjacency: Adjacency
    """Matrix ``(V, V)``, own nodes first."""
    context: AggregationContext
    products: Products
    unit: int = 1
    """Number of adjacent columns that stay together."""

    @property
    def keeps(self) -> bool:
        """True if these sums are identical in every epoch, so that rows are sent once and sums are cached."""
        return self.context.static and self.context.drop is None and self.redistribution.wires.keep_static

    def place(self, direction: str, round: int = 0) -> ExchangeKey:
        return ExchangeKey(self.context.layer, direction, round)

    def part(self, direction: str) -> AbstractContextManager[object]:
        """Run the products, which need received rows; recorded in training only."""
        return self.redistribution.timeline("marginal", self.place(direction) if self.context.training else None)

    def channel(self, direction: str, round: int, plan: Plan) -> Channel:
        once = direction == "forward" and self.keeps
        return self.redistribution.channel(
            self.place(direction, round), plan, exact=not self.context.training, once=once
        )

    def split(self, direction: str, x: Tensor) -> Tensor:
        """Return the rows of all nodes on own columns, ``(N, D) -> (V, w)``, own nodes first."""
        redistribution, pending_rows, first = self.redistribution, list[PendingReceive](), 0
        out = x.new_empty(redistribution.num_nodes, 0)  # a worker may have no columns
        for number, (members, size) in enumerate(self._groups(x.shape[1])):
            last = first + len(members) * size
            shares = x[:, first:last].reshape(-1, size)  # (N, members, c) -> (N members, c), a view if all are equal
            if redistribution.rank in members:
                out = x.new_empty(redistribution.num_nodes, size)  # (V, w)
                out[: redistribution.num_rows] = shares.view(-1, len(members), size)[
                    :, redistribution.rank - members.start
                ]
            channel = self.channel(direction, _SPLIT + number, redistribution.plan(_SPLIT, members))
            pending_rows.append(channel.post(shares, out, epoch=self.context.epoch))
            first = last
        _decode(pending_rows)
        return out

    def join(self, direction: str, x: Tensor, columns: int) -> Tensor:
        """Return own rows with all columns, ``(V, w) -> (N, D)``."""
        redistribution, pending_rows, parts = self.redistribution, list[PendingReceive](), list[Tensor]()
        for number, (members, size) in enumerate(self._groups(columns)):
            part = x.new_empty(redistribution.num_rows, len(members), size)  # (N, members, c)
            if redistribution.rank in members:
                part[:, redistribution.rank - members.start] = x[: redistribution.num_rows]
            channel = self.channel(direction, _JOIN + number, redistribution.plan(_JOIN, members))
            # Others have no columns to send in this round, and these need not be as long.
            sent = x if redistribution.rank in members else x.new_empty(0, size)
            pending_rows.append(channel.post(sent, part.view(-1, size), epoch=self.context.epoch))
            parts.append(part.flatten(1))
        _decode(pending_rows)
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def _groups(self, columns: int) -> list[tuple[range, int]]:
        groups = column_groups(columns // self.unit, self.redistribution.workers)
        return [(members, size * self.unit) for members, size in groups]


def _decode(pending_rows: Sequence[PendingReceive]) -> None:
    # All are waited for first: messages of two rounds are in flight together.
    for each in pending_rows:
        each.wait()
    for each in pending_rows:
        each.decode()


class Aggregate(torch.autograd.Function):
    """Compute ``A x``, ``(N, D)``: split columns, aggregate all nodes, and join columns."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, aggregation: ColumnAggregation) -> Tensor:
        ctx.aggregation, layer = aggregation, aggregation.context.layer
        if not aggregation.keeps:
            return _sums(aggregation, "forward", x)
        if layer not in aggregation.redistribution.sums:
            aggregation.redistribution.sums[layer] = _sums(aggregation, "forward", x)
        return aggregation.redistribution.sums[layer].clone()  # cloned, so that callers cannot modify the cache

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _sums(ctx.aggregation, "backward", gradients[0].contiguous()), None


def _sums(aggregation: ColumnAggregation, direction: str, x: Tensor) -> Tensor:
    rows, products = aggregation.split(direction, x), aggregation.products  # (V, w)
    if rows.shape[1]:
        with aggregation.part(direction):
            is_transposed = direction == "backward"
            rows = products.spmm(aggregation.adjacency, products.operand(rows), transposed=is_transposed)
    return aggregation.join(direction, rows, x.shape[1])


class _Split(torch.autograd.Function):
    """Split columns; their gradients are joined."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, aggregation: ColumnAggregation) -> Tensor:
        ctx.aggregation, ctx.columns = aggregation, x.shape[1]
        return aggregation.split("forward", x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.aggregation.join("backward", gradients[0].contiguous(), ctx.columns), None


class _Join(torch.autograd.Function):
    """Join columns; their gradients are split."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, columns: int, aggregation: ColumnAggregation) -> Tensor:
        ctx.aggregation = aggregation
        return aggregation.join("forward", x, columns)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.aggregation.split("backward", gradients[0].contiguous()), None, None


class _Logits(torch.autograd.Function):
    """Send the logits of own nodes to all workers, ``(N, 2 K) -> (V, 2 K)``; partial gradients are added at owners."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, aggregation: ColumnAggregation) -> Tensor:
        redistribution, ctx.aggregation = aggregation.redistribution, aggregation
        channel = aggregation.channel("forward", _LOGITS, redistribution.logit_plans["forward"])
        rows = logits.new_empty(redistribution.num_nodes, logits.shape[1])  # (V, 2 K)
        rows[: redistribution.num_rows] = logits
        channel.post(rows, rows[redistribution.num_rows :], epoch=aggregation.context.epoch).decode()
        channel.as_received(rows)  # the owner uses decoded logits too: all shares of a row have the same attention
        return rows

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        aggregation, (gradient,) = ctx.aggregation, gradients
        num_rows, plan = aggregation.redistribution.num_rows, aggregation.redistribution.logit_plans["backward"]
        channel = aggregation.channel("backward", _LOGITS, plan)
        own = gradient[:num_rows].clone()  # partial, on own columns
        pending_rows = channel.post(gradient[num_rows:].contiguous(), own.shape, epoch=aggregation.context.epoch)
        return pending_rows.decode(own), None


def attend(aggregation: ColumnAggregation, z: Tensor, a_source: Tensor, a_target: Tensor, slope: float) -> Tensor:
    """Return attention-weighted sums over neighbours, ``(N, K, F)``, differentiable.

    Each worker has its share of the F features of every head. An edge's logit is a sum of one value for each end, so
    2 K values per node are sent to all. Their gradients are linear in those of the attention, thus in the columns:
    every worker computes those of its columns, and owners add them.

    Args:
        aggregation: arguments of the aggregation, with unit K.
        z: projected own rows, ``(N, K, F)``.
        a_source, a_target: the two halves of the attention vector, ``(K, F)``.
        slope: negative slope of the leaky ReLU.
    """
    heads, features = z.shape[1:]
    own_logits = torch.cat([(z * a_source).sum(-1), (z * a_target).sum(-1)], 1)  # (N, K, F) -> (N, 2 K)
    logits: Tensor = _Logits.apply(own_logits, aggregation)
    source, target = logits[:, :heads].contiguous(), logits[:, heads:].contiguous()  # (V, K)
    # Feature by feature, so that a share has the same features of all heads.
    rows: Tensor = _Split.apply(z.transpose(1, 2).flatten(1), aggregation)  # (N, F K) -> (V, w)
    values = rows.unflatten(1, (-1, heads)).transpose(1, 2).contiguous()  # (V, K, f)
    if values.shape[2]:
        with aggregation.part("forward"):
            values = attention.attend(aggregation.adjacency, values, source, target, slope=slope)
    else:  # without columns: a gradient of zero, so that this worker takes part in the exchange of gradients
        values = values + 0.0 * logits.sum()
    sums: Tensor = _Join.apply(values.transpose(1, 2).flatten(1), features * heads, aggregation)
    return sums.unflatten(1, (features, heads)).transpose(1, 2).contiguous()
