"""Rows fetched from their owners: received rows, returned gradients, and the bytes by formula."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from gnnqlab.bits.policy import Fixed
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.row_gather import GatherPlan, RowGather
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.simulation.threaded_workers import LoopbackTransport, Mailbox

WORKERS, NODES, COLUMNS = 3, 20, 5
OWNER = torch.tensor([0, 1, 2, 0, 1, 1, 0, 2, 2, 1, 0, 2, 1, 0, 0, 2, 1, 2, 0, 1], dtype=torch.int32)
NEEDS = {0: [1, 2, 4], 1: [0, 17], 2: []}
"""Rows of others that each worker needs every time."""


def owned(rank: int) -> torch.Tensor:
    return (OWNER == rank).nonzero().flatten().flip(0)  # ids in no order


def fetch_of(rank: int, mail: Mailbox, bits: int = 32) -> RowGather:
    def part(needing: int, owning: int) -> torch.Tensor:
        return torch.tensor([node for node in NEEDS[needing] if OWNER[node] == owning], dtype=torch.int64)

    wanted = GatherPlan(
        send=[part(peer, rank) for peer in range(WORKERS)], receive=[part(rank, peer) for peer in range(WORKERS)]
    )
    codec = Float32() if bits == 32 else Stochastic()
    wires = ChannelFactory(transport=LoopbackTransport(mail, rank), codec=codec, bits=Fixed(bits=bits))
    return RowGather(owned(rank), OWNER, wanted, wires, rank=rank, workers=WORKERS)


def all_ranks(work: Any, bits: int = 32) -> list[Any]:
    mail = Mailbox(WORKERS)
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda rank: work(rank, fetch_of(rank, mail, bits)), range(WORKERS)))


def test_rows_come_as_they_are_and_gradients_go_home_whole():
    table = torch.randn(NODES, COLUMNS, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(NODES, COLUMNS, generator=torch.Generator().manual_seed(1))
    pools = [torch.tensor([4, 17, 3, 8]), torch.tensor([1, 0, 2]), torch.tensor([19, 18, 4])]

    def work(rank: int, fetch: RowGather) -> torch.Tensor:
        home = torch.zeros(NODES, COLUMNS)
        for epoch, pool in enumerate(pools):
            rows = table[owned(rank)].requires_grad_()
            came = fetch(rows, pool, AggregationContext(2, epoch, training=True))
            needed = torch.tensor(NEEDS[rank], dtype=torch.int64)
            ids = torch.cat([owned(rank), needed, pool])
            at = torch.cat([fetch.places(owned(rank)), fetch.places(needed), came.shared])
            assert torch.equal(came.rows[at], table[ids])
            assert came.rows.shape[0] == torch.cat([ids, pool]).unique().numel()
            (came.rows[at] * weight[ids]).sum().backward()
            home[owned(rank)] += rows.grad
        return home

    # A row is used by its owner, by every worker that needs it, and three times as one of a pool.
    times = torch.zeros(NODES)
    for pool in pools:
        times += 1
        times[pool] += WORKERS
        for ids in NEEDS.values():
            times[ids] += 1
    torch.testing.assert_close(sum(all_ranks(work)), times[:, None] * weight)


def test_bytes_are_those_of_the_formula_and_evaluation_counts_nowhere():
    pool = torch.tensor([4, 17, 3, 8])

    def work(rank: int, fetch: RowGather) -> tuple[int, int, int]:
        rows = torch.ones(owned(rank).numel(), COLUMNS, requires_grad=True)
        fetch(rows, pool, AggregationContext(2, 0, training=False))
        assert fetch.channels == []
        fetch(rows, pool, AggregationContext(2, 0, training=True)).rows.sum().backward()
        channels = fetch.channels
        assert [channel.direction for channel in channels] == ["forward", "backward"]
        return tuple(channel.bytes_payload for channel in channels) + (sum(c.bytes_params for c in channels),)

    for rank, (forward, backward, parameters) in enumerate(all_ranks(work)):
        sent = received = 0
        for peer in {0, 1, 2} - {rank}:
            mine = {node for node in [*NEEDS[peer], *pool.tolist()] if OWNER[node] == rank}
            theirs = {node for node in [*NEEDS[rank], *pool.tolist()] if OWNER[node] == peer}
            sent, received = sent + len(mine), received + len(theirs)
        assert (forward, backward, parameters) == (4 * COLUMNS * sent, 4 * COLUMNS * received, 0)


def test_only_rows_fetched_in_every_epoch_are_quantized():
    table = torch.randn(NODES, COLUMNS, generator=torch.Generator().manual_seed(0))
    pool = torch.tensor([4, 17, 3, 8])

    def work(rank: int, fetch: RowGather) -> Any:
        rows = table[owned(rank)].requires_grad_()
        needed = torch.tensor(NEEDS[rank], dtype=torch.int64)
        others = torch.tensor([node for node in pool.tolist() if node not in NEEDS[rank]])
        exact = fetch(rows, pool, AggregationContext(2, 0, training=False))
        assert torch.equal(exact.rows[fetch.places(needed)], table[needed]) and fetch.channels == []
        means = torch.zeros(len(needed), COLUMNS)
        for epoch in range(200):
            came = fetch(rows, pool, AggregationContext(2, epoch, training=True))
            places = dict(zip(pool.tolist(), came.shared.tolist(), strict=True))
            assert torch.equal(came.rows[[places[node] for node in others.tolist()]], table[others])
            found = came.rows[fetch.places(needed)]
            if len(needed):
                assert not torch.equal(found, table[needed])
            means += found.detach() / 200
            came.rows.sum().backward()
        # Stochastic rounding to 4 levels errs by a step at most, and is unbiased: 200 draws, five deviations.
        spread = (table[needed].amax(1) - table[needed].amin(1)) / 3
        assert bool(((means - table[needed]).abs() <= 5 * 0.5 * spread[:, None] / 200**0.5).all())
        sent = {(each.direction, each.round): (each.bytes_payload, each.bytes_params) for each in fetch.channels}
        return sent, rows.grad

    for rank, (sent, gradient) in enumerate(all_ranks(work, bits=2)):
        to, of = 0, 0
        for peer in {0, 1, 2} - {rank}:
            to += sum(int(OWNER[node]) == rank for node in NEEDS[peer])
            of += sum(int(OWNER[node]) == peer for node in NEEDS[rank])
        row = -(-2 * COLUMNS // 8)
        assert sent["forward", 0] == (200 * row * to, 200 * 8 * to)
        assert sent["backward", 0] == (200 * row * of, 200 * 8 * of)
        assert sent["forward", 1][1] == sent["backward", 1][1] == 0
        # Constant rows are exact, and so are gradients of ones: 200 from each use.
        times = torch.ones(NODES)
        for peer in {0, 1, 2} - {rank}:
            times[list({*NEEDS[peer], *pool.tolist()})] += 1
        torch.testing.assert_close(gradient, 200 * times[owned(rank), None].expand(-1, COLUMNS))


def test_a_row_that_is_not_fetched_has_no_place():
    fetch = fetch_of(0, Mailbox(WORKERS))
    with pytest.raises(ValueError, match="rank 0: nodes must be its own or fetched in every pass, got node 5 of rank"):
        fetch.places(torch.tensor([0, 1, 5]))
