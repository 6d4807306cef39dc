"""State shared by the rounds of a broadcast on one worker: plans, buffers, channels and matrices of each block.

Letters: N local rows, n rows of a block, D columns, E edges of a matrix.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.schedules.schedule import Runner
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.caches.cache import NoCache
from gnnqlab.message.channels.channel import ByteBuffers, Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.exchange_key import ExchangeKey, Phases
from gnnqlab.partition.block_shard import BlockMatrix, BlockShard
from gnnqlab.partition.plan import Plan, Route

__all__ = ["Blocks", "BlockAggregation", "columns_between"]

_SLOTS = 2
"""Number of alternating receive buffers: one block is received while the other is aggregated."""


class Blocks:
    """Blocks that one worker aggregates: its own, and those that others broadcast to it."""

    stands_for: ClassVar[dict[str, str]] = {"_rows": "halo"}

    def __init__(
        self, shard: BlockShard, wires: ChannelFactory, *, timeline: Timeline, device: torch.device | str = "cpu"
    ) -> None:
        self.shard, self.num_rows, self.wires, self.timeline = shard, shard.block.numel(), wires, timeline
        self.stages = list(shard.stages())
        """Blocks in the order of their rounds."""
        # Blocks are contiguous in the global ids, so an id is the first one of its block plus an offset.
        firsts = shard.block_splits.cumsum(0) - shard.block_splits  # (blocks,) first global id of each
        self.ids = [
            torch.arange(int(firsts[block]), int(firsts[block] + shard.block_splits[block]), device=device)
            for block in self.stages
        ]
        """Global node ids of the rows of each round's block."""
        self.plans = [self._plan(number, device) for number in range(len(self.stages))]
        self.rows_plans = (shard.gather(device), shard.scatter(device)) if shard.replication > 1 else ()
        """Plans of the two rounds in which workers with the same rows add their partial sums."""
        self.plain = replace(wires, cache=NoCache())
        """Factory of channels without a cache, for partial sums and gradients of attention."""
        self.sums: dict[int, Tensor] = {}
        """Layer -> cached sums of static rows."""
        self._matrices: dict[Adjacency, dict[str, list[Adjacency]]] = {}
        self._channels: dict[ExchangeKey, Channel] = {}
        self._exact: dict[ExchangeKey, Channel] = {}
        self._once: list[Channel] = []
        self._bytes: ByteBuffers = {}
        self._rows: dict[tuple[int, int], Tensor] = {}

    @property
    def channels(self) -> list[Channel]:
        """Channels of training passes, and those of blocks that are sent once."""
        return [*self._channels.values(), *self._once]

    @property
    def block_bytes(self) -> int:
        """Bytes of the send and receive buffers of blocks."""
        return sum(rows.untyped_storage().nbytes() for rows in (*self._rows.values(), *self._bytes.values()))

    def channel(self, place: ExchangeKey, *, exact: bool, once: bool = False) -> Channel:
        """Return the channel of a round; an exact one sends float32 and is only counted if its rows are sent once."""
        if place.round >= self.first_row_round:
            return self._row_channel(place, exact=exact, once=once)
        # Rounds two apart share buffers: the first of them is aggregated before the second is posted.
        plan, slot = self.plans[place.round], place.round % _SLOTS
        options: dict[str, Any] = {"buffers": self._bytes, "slot": slot, "launch": self.timeline.stages.after_launch}
        if once:  # listed with the channels of training, so that its bytes are counted
            phases: Phases = partial(self.timeline, place=place)
            self._once.append(self.wires.block_channel(place, plan, exact=True, phases=phases, **options))
            return self._once[-1]
        channels = self._exact if exact else self._channels
        if place not in channels:
            phases = self.timeline if exact else partial(self.timeline, place=place)
            channels[place] = self.wires.block_channel(place, plan, exact=exact, phases=phases, **options)
        return channels[place]

    @property
    def first_row_round(self) -> int:
        """First round in which partial sums are added, on all workers after those of all blocks."""
        return self.shard.block_splits.numel()

    def _row_channel(self, place: ExchangeKey, *, exact: bool, once: bool) -> Channel:
        plan = self.rows_plans[place.round - self.first_row_round]
        launch = self.timeline.stages.after_launch
        phases: Phases = partial(self.timeline, place=place)
        if once:
            self._once.append(self.plain.exact_channel(place, plan, phases=phases, launch=launch))
            return self._once[-1]
        if exact and place not in self._exact:
            self._exact[place] = self.plain.exact_channel(place, plan, phases=self.timeline, launch=launch)
        elif not exact and place not in self._channels:
            self._channels[place] = self.plain.channel(place, plan, phases=phases, launch=launch)
        return (self._exact if exact else self._channels)[place]

    def buffer(self, round: int, columns: int, device: torch.device) -> Tensor:
        """Return the receive buffer of a round's block, ``(n, D)``: one of two that alternate, shared by all layers."""
        key = round % _SLOTS, columns
        if key not in self._rows:
            max_rows = int(self.shard.block_splits.max())  # rows of the largest block, so that one buffer fits all
            self._rows[key] = self.wires.codec_of("forward").rows(max_rows, columns, device)
        return self._rows[key][: self.ids[round].numel()]

    def matrices(self, adjacency: Adjacency, direction: str) -> list[Adjacency]:
        """Return the columns of each round's block, ``(N, n)``, of A forward or of its transpose backward; cached."""
        if adjacency not in self._matrices:
            assert isinstance(adjacency, BlockMatrix) and adjacency.returning is not None
            ranges = [self.shard.columns_of(block) for block in self.stages]
            # Cut once per matrix; in each epoch the products only read these submatrices.
            self._matrices[adjacency] = {
                way: [columns_between(matrix, *each) for each in ranges]
                for way, matrix in (("forward", adjacency), ("backward", adjacency.returning))
            }
        return self._matrices[adjacency][direction]

    def _plan(self, number: int, device: torch.device | str) -> Plan:
        """Build the plan of a round: the owner of its block sends to the other workers of its process column."""
        shard, block = self.shard, self.stages[number]
        owner = block * shard.replication + shard.column  # the replica of the block in this process column
        # Blocks are only sent within a process column; each column sums its own share of the blocks (1.5-D).
        peers = [row * shard.replication + shard.column for row in range(shard.block_splits.numel()) if row != block]
        ids = self.ids[number]
        rows = torch.arange(ids.numel(), device=device)
        routes = [Route(peer=peer, rows=rows, ids=ids, first=0) for peer in (peers if shard.rank == owner else [owner])]
        send, receive = (routes, []) if shard.rank == owner else ([], routes)
        return Plan(shard.rank, shard.workers, send=tuple(send), receive=tuple(receive), accumulate=False, to_all=True)


@dataclass(frozen=True, eq=False)
class BlockAggregation:
    """Arguments of the steps of one aggregation, except tensors."""

    blocks: Blocks
    adjacency: Adjacency
    context: AggregationContext
    schedule: Runner
    products: Products

    @property
    def keeps(self) -> bool:
        """True if these sums are identical in every epoch, so that their blocks are sent once and sums are cached."""
        return self.context.static and self.context.drop is None and self.blocks.wires.keep_static

    def place(self, direction: str, round: int = 0) -> ExchangeKey:
        return ExchangeKey(self.context.layer, direction, round)

    def part(self, what: str, direction: str, round: int = 0) -> AbstractContextManager[object]:
        """Run a part of a step; recorded in training only."""
        return self.blocks.timeline(what, self.place(direction, round) if self.context.training else None)

    def channel(self, direction: str, round: int) -> Channel:
        is_sent_once = direction == "forward" and self.keeps
        return self.blocks.channel(self.place(direction, round), exact=not self.context.training, once=is_sent_once)


def columns_between(adjacency: Adjacency, first: int, last: int) -> Adjacency:
    """Return the columns ``[first, last)`` of a matrix, renumbered from 0.

    Example:
        >>> matrix = Adjacency(torch.tensor([0, 2, 3]), torch.tensor([0, 2, 1], dtype=torch.int32), num_columns=3)
        >>> part = columns_between(matrix, 1, 3)
        >>> part.indptr.tolist(), part.indices.tolist(), part.num_columns
        ([0, 1, 2], [1, 0], 2)
    """
    mask = (adjacency.indices >= first) & (adjacency.indices < last)  # (E,) bool
    # Number of selected edges before each edge, which maps old row pointers to new ones.
    num_before = torch.zeros(mask.numel() + 1, dtype=torch.int64, device=mask.device)  # (E + 1,)
    torch.cumsum(mask, 0, out=num_before[1:])
    weights = None if adjacency.weights is None else adjacency.weights[mask]
    indices = adjacency.indices[mask] - first  # (E of the block,)
    return Adjacency.of_checked(num_before[adjacency.indptr], indices, weights, num_columns=last - first)
