"""Rows fetched from their owners: what comes, what goes home, and what it costs, by formula."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from gnnqlab.bits.policy import Fixed
from gnnqlab.exchange.fetch import Fetch, Wanted
from gnnqlab.exchange.hop import Hop
from gnnqlab.measure.in_process import LoopBack, Mail
from gnnqlab.message.codec import Stochastic
from gnnqlab.message.wires import Wires

WORKERS, NODES, COLUMNS = 3, 20, 5
OWNER = torch.tensor([0, 1, 2, 0, 1, 1, 0, 2, 2, 1, 0, 2, 1, 0, 0, 2, 1, 2, 0, 1], dtype=torch.int32)
NEEDS = {0: [1, 2, 4], 1: [0, 17], 2: []}
"""Which rows of others each worker needs every time."""


def owned(rank: int) -> torch.Tensor:
    return (OWNER == rank).nonzero().flatten().flip(0)  # in no order that ids have


def fetch_of(rank: int, mail: Mail) -> Fetch:
    def part(needing: int, owning: int) -> torch.Tensor:
        return torch.tensor([node for node in NEEDS[needing] if OWNER[node] == owning], dtype=torch.int64)

    wanted = Wanted(
        send=[part(peer, rank) for peer in range(WORKERS)], receive=[part(rank, peer) for peer in range(WORKERS)]
    )
    wires = Wires(transport=LoopBack(mail, rank), codec=Stochastic(), bits=Fixed(bits=2))
    return Fetch(owned(rank), OWNER, wanted, wires, rank=rank, workers=WORKERS)


def all_ranks(work: Any) -> list[Any]:
    mail = Mail(WORKERS)
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda rank: work(rank, fetch_of(rank, mail)), range(WORKERS)))


def test_rows_come_as_they_are_and_gradients_go_home_whole():
    table = torch.randn(NODES, COLUMNS, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(NODES, COLUMNS, generator=torch.Generator().manual_seed(1))
    pools = [torch.tensor([4, 17, 3, 8]), torch.tensor([1, 0, 2]), torch.tensor([19, 18, 4])]

    def work(rank: int, fetch: Fetch) -> torch.Tensor:
        home = torch.zeros(NODES, COLUMNS)
        for epoch, pool in enumerate(pools):
            rows = table[owned(rank)].requires_grad_()
            came = fetch(rows, pool, Hop(2, epoch, training=True))
            needed = torch.tensor(NEEDS[rank], dtype=torch.int64)
            ids = torch.cat([owned(rank), needed, pool])
            at = torch.cat([fetch.places(owned(rank)), fetch.places(needed), came.shared])
            assert torch.equal(came.rows[at], table[ids])
            assert came.rows.shape[0] == torch.cat([ids, pool]).unique().numel()
            (came.rows[at] * weight[ids]).sum().backward()
            home[owned(rank)] += rows.grad
        return home

    # A row is used by its owner, by whoever needs it, and three times as one of a pool.
    times = torch.zeros(NODES)
    for pool in pools:
        times += 1
        times[pool] += WORKERS
        for ids in NEEDS.values():
            times[ids] += 1
    torch.testing.assert_close(sum(all_ranks(work)), times[:, None] * weight)


def test_bytes_are_those_of_the_formula_and_evaluation_counts_nowhere():
    pool = torch.tensor([4, 17, 3, 8])

    def work(rank: int, fetch: Fetch) -> tuple[int, int, int]:
        rows = torch.ones(owned(rank).numel(), COLUMNS, requires_grad=True)
        fetch(rows, pool, Hop(2, 0, training=False))
        assert fetch.channels == []
        fetch(rows, pool, Hop(2, 0, training=True)).rows.sum().backward()
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


def test_a_row_that_is_not_fetched_has_no_place():
    fetch = fetch_of(0, Mail(WORKERS))
    with pytest.raises(ValueError, match="rank 0: rows must be its own or fetched each time, got node 5 of rank 1"):
        fetch.places(torch.tensor([0, 1, 5]))
