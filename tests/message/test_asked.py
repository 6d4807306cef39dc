"""Rows fetched from their owners: exact in float32, unbiased as codes; the refusal names rank and node of bad rows."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.errors import NonFiniteMessage
from gnnqlab.message.channels.remote_rows import RemoteRows
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.message.transport.transport import make_transport
from tests.ranks import run_ranks

WORKERS, NODES, COLUMNS = 3, 40, 13
OWNER = torch.arange(NODES) * 7 % WORKERS
TABLE = torch.randn(NODES, COLUMNS, generator=torch.Generator().manual_seed(1))


def asked_rows(rank, workers=WORKERS, *, table=TABLE, codec=None, bits=32):
    owner = OWNER if workers > 1 else torch.zeros_like(OWNER)
    return RemoteRows(
        table[owner == rank], owner, rank=rank, workers=workers, codec=codec or Float32(), bits=bits,
        transport=make_transport("direct", rank, workers), seed=2,
    )  # fmt: skip


def fetches(rank, workers):
    """Return rows in float32, means and deviations of many fetches of codes, bytes, and the error for a bad row."""
    wanted = [torch.randperm(NODES)[:17], torch.arange(0), torch.tensor([0, 3, 1])][rank]
    exact = asked_rows(rank)
    rows = exact.fetch(wanted, 0)
    coded = asked_rows(rank, codec=Stochastic(), bits=4)
    draws = torch.stack([coded.fetch(wanted, step) for step in range(400)])
    again = coded.fetch(wanted, 0)
    table = TABLE.clone()
    table[6] = float("nan")
    said = ""
    if rank == int(OWNER[6]):
        bad = asked_rows(rank, table=table)
        try:
            nothing = {1: torch.arange(0)}
            plan = bad._plan({1: torch.tensor([3, 6])}, nothing, nothing)
            bad._channel.post(table[OWNER == rank], torch.empty(0, COLUMNS), epoch=0, plan=plan)
        except NonFiniteMessage as error:
            said = str(error)
    return wanted, rows, draws, again, exact.sent, said


@pytest.fixture(scope="module")
def fetched():
    return run_ranks(fetches, WORKERS)


def test_float32_rows_are_the_rows(fetched):
    for wanted, rows, *_ in fetched:
        assert torch.equal(rows, TABLE[wanted])


def test_codes_are_unbiased_and_own_rows_stay(fetched):
    for rank, (wanted, _, draws, again, *_) in enumerate(fetched):
        travelled = OWNER[wanted] != rank
        assert torch.equal(draws[0], again)  # noise of step 0
        assert torch.equal(draws[:, ~travelled], TABLE[wanted][~travelled].expand(len(draws), -1, -1))
        off = draws[:, travelled] - TABLE[wanted][travelled]
        if not len(off[0]):
            continue  # this rank requested no rows
        assert off.abs().max() > 0.05
        # 5.5 standard errors: beyond them by chance in one of 10^5 runs of some 200 means; noise has 16 bits
        assert (off.mean(0).abs() <= 5.5 * off.std(0) / len(off) ** 0.5 + 1e-4).all()


def test_bytes_are_counted_where_they_are_sent(fetched):
    wanted = [found[0] for found in fetched]
    for rank, (own, *_, sent, _) in enumerate(fetched):
        given = sum(int((OWNER[ids] == rank).sum()) for peer, ids in enumerate(wanted) if peer != rank)
        assert sent.row_bytes == 4 * COLUMNS * given
        assert sent.request_bytes == 8 * (WORKERS - 1) + 4 * int((OWNER[own] != rank).sum())


def test_a_row_that_is_not_finite_is_named(fetched):
    assert "rank 0, layer 0, forward: the row of global node 6 holds NaN" in fetched[int(OWNER[6])][-1]


def test_fetch_with_one_worker_returns_exact_local_rows():
    assert torch.equal(asked_rows(0, 1, codec=Stochastic(), bits=2).fetch(torch.tensor([5, 0]), 0), TABLE[[5, 0]])


def test_remote_rows_reject_wrong_table_shapes_and_bit_widths():
    with pytest.raises(
        ValueError, match=r"rows must be float32, one for each of the 40 nodes of rank 0, got .*\(3, 13"
    ):
        RemoteRows(
            TABLE[:3], torch.zeros(NODES), rank=0, workers=1, codec=Float32(), bits=32,
            transport=make_transport("direct", 0, 1),
        )  # fmt: skip
    with pytest.raises(ValueError, match=r"bits must be one of \(32,\), which the codec writes, got 8"):
        asked_rows(0, 1, bits=8)
