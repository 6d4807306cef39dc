"""Sums that read codes of the halo: same bits as decoding and summing, on every backend, in exact buffers."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.codec.rows import WIDTHS, encode_rows, row_bytes
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.aggregate import quantize_rows, spmm
from gnnqlab.kernels.sparse.codec_sum import CodedRows, MessageCodes, reads_codes_faster
from tests.cases import each
from tests.kernels.backends import AVAILABLE, EVERY, use
from tests.kernels.test_aggregate import assert_summed, matrix


def message(rows: Tensor, columns: int, bits: int | None, *, seed: int, params: torch.dtype) -> MessageCodes:
    """Return encoded random rows for these halo rows; ``bits`` of ``None`` draws one for each, 32 is float32."""
    generator, count = torch.Generator().manual_seed(seed), rows.numel()
    x = torch.randn(count, columns, generator=generator)
    if bits == 32:
        return MessageCodes(x.flatten().view(torch.uint8), None, 32, None, rows)
    own = torch.tensor(WIDTHS, dtype=torch.uint8)[torch.randint(len(WIDTHS), (count,), generator=generator)]
    sizes = torch.as_tensor(row_bytes(columns, own if bits is None else torch.full_like(own, bits)))
    offsets = sizes.cumsum(0) - sizes
    widths: int | Tensor = own if bits is None else bits
    payload, stored = torch.zeros(int(sizes.sum()), dtype=torch.uint8), torch.empty(count, 2, dtype=params)
    places, options = torch.arange(count), {"seed": seed, "epoch": 0, "stream": 0}
    encode_rows(x, places, places, widths, offsets if bits is None else None, payload, stored, **options)
    return MessageCodes(payload, stored, widths, offsets if bits is None else None, rows)


def coded(num_rows: int, columns: int, bits: tuple[int | None, ...], *, seed: int) -> CodedRows:
    """Return halo rows that came in one message for each entry of ``bits``, in any order."""
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))
    parts = zip(order.tensor_split(len(bits)), bits, strict=True)
    choose = random.Random(seed).choice
    kinds = (torch.float32, torch.bfloat16)
    made = (message(rows.clone(), columns, b, seed=seed + k, params=choose(kinds)) for k, (rows, b) in enumerate(parts))
    return CodedRows(num_rows, columns, tuple(made))


@each("columns", [1, 3, 7, 8, 9, 16, 17, 31, 64, 130, 256, 272, 300, 602])
@each("bits", [1, 2, 4, 8, 32, None])
def test_sums_equal_those_of_decoded_rows(backend: str, columns: int, bits: int | None) -> None:
    adj = matrix(23, 31, 200, seed=columns, weighted=columns % 2 == 0)
    x = torch.randn(12, columns, generator=torch.Generator().manual_seed(1))
    halo = coded(19, columns, (bits, bits), seed=columns)
    expected = spmm(adj, x, halo.decoded())
    assert torch.equal(spmm(adj, x, halo), expected)
    assert_summed(expected, adj, torch.cat([x, halo.decoded()]))


@given(seed=st.integers(0, 2**20), owned=st.integers(0, 30), num_halo=st.integers(0, 40), columns=st.integers(0, 300))
@settings(max_examples=60)
def test_random_calls_are_equal_on_every_backend(seed: int, owned: int, num_halo: int, columns: int) -> None:
    choose = random.Random(seed)
    adj = matrix(
        choose.randint(2, 30), owned + num_halo, choose.randint(0, 200), seed=seed, weighted=choose.random() < 0.7
    )
    wide = torch.randn(owned, columns + 5, generator=torch.Generator().manual_seed(seed))
    x, start, stop = wide[:, :columns], *sorted(choose.choices(range(adj.num_rows + 1), k=2))
    halo = coded(num_halo, columns, tuple(choose.choices((*WIDTHS, 32, None), k=3)), seed=seed)
    base = torch.full((stop - start, columns + 2), 3.0)
    for name in EVERY:
        fresh = CodedRows(num_halo, columns, halo.messages)
        with use(name):
            expected = spmm(adj, x, fresh.decoded(), rows=(start, stop))
            assert torch.equal(spmm(adj, x, fresh, rows=(start, stop)), expected), name
            out = base.clone()
            spmm(adj, x, fresh, rows=(start, stop), out=out[:, :columns], accumulate=True)
        assert torch.equal(out[:, :columns], expected + 3.0) and (out[:, columns:] == 3.0).all(), name


@pytest.mark.skipif(not AVAILABLE, reason="compiled kernels are not built")
def test_sums_are_equal_for_any_threads() -> None:
    adj = matrix(3000, 4000, 120_000, seed=6, hub=True)
    x, halo = torch.randn(1000, 70), coded(3000, 70, (None, 4, 1), seed=3)
    before, sums = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            sums.append(spmm(adj, x, halo))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(sums[0], sums[1]) and torch.equal(sums[0], sums[2])
    assert torch.equal(sums[0], spmm(adj, x, halo.decoded()))


@pytest.mark.skipif(not AVAILABLE, reason="compiled kernels are not built")
def test_codes_are_read_where_they_were_received(monkeypatch: pytest.MonkeyPatch) -> None:
    adj, halo = matrix(9, 12, 60, seed=2), coded(8, 40, (2, 8), seed=2)
    monkeypatch.setattr(CodedRows, "decoded", lambda self: pytest.fail("rows were decoded"))
    spmm(adj, torch.zeros(4, 40), halo)
    assert halo.table.nbytes == 16 * 8


def test_rows_of_no_message_are_zeros(backend: str) -> None:
    adj = Adjacency(torch.tensor([0, 3]), torch.tensor([0, 1, 2], dtype=torch.int32), num_columns=3)
    halo = CodedRows(2, 5, (message(torch.tensor([1]), 5, 4, seed=0, params=torch.float32),))
    assert torch.equal(spmm(adj, torch.ones(1, 5), halo), 1.0 + halo.decoded()[1:])


def test_other_rows_than_float32_decode_the_halo(backend: str) -> None:
    adj, halo = matrix(9, 12, 60, seed=2), coded(8, 16, (2,), seed=2)
    x = torch.randn(4, 16).double()
    assert torch.equal(spmm(adj, x, CodedRows(8, 16, halo.messages)), spmm(adj, x, halo.decoded().double()))


def test_mistakes_are_explained() -> None:
    adj, halo = matrix(9, 12, 60, seed=2), coded(8, 16, (2,), seed=2)
    (codes,) = halo.messages
    with pytest.raises(ValueError, match="x must have 16 columns like the halo"):
        spmm(adj, torch.zeros(4, 15), halo)
    with pytest.raises(ValueError, match=r"must have 12 rows, one per column, got 5 \+ 8"):
        spmm(adj, torch.zeros(5, 16), halo)
    with pytest.raises(ValueError, match="need x as a tensor, got QuantizedRows"):
        spmm(adj, quantize_rows(torch.zeros(4, 16)), halo)
    with pytest.raises(ValueError, match="out must be torch.float32"):
        spmm(adj, torch.zeros(4, 16), halo, out=torch.zeros(9, 15))
    if AVAILABLE:
        for wrong in (
            MessageCodes(codes.payload, codes.params, 2, None, codes.rows + 1),
            MessageCodes(codes.payload[:-1].clone(), codes.params, 2, None, codes.rows),
            MessageCodes(codes.payload, codes.params, 3, None, codes.rows),
        ):
            with native.use("native"), pytest.raises(ValueError, match="got an invalid one at position [0-7]"):
                spmm(adj, torch.zeros(4, 16), CodedRows(8, 16, (wrong,)))


@pytest.mark.skipif(not AVAILABLE, reason="compiled kernels are not built")
def test_rule_by_uses_and_columns() -> None:
    def rule(edges: int, columns: int = 64, dtype: torch.dtype = torch.float32) -> bool:
        adj = matrix(20, 100, edges, seed=1)
        return reads_codes_faster(adj, (0, adj.num_rows), torch.zeros(10, columns, dtype=dtype))

    assert [rule(edges) for edges in (0, 100, 599, 600, 4000)] == [True, True, True, False, False]
    assert not rule(100, columns=63) and not rule(100, dtype=torch.bfloat16)
    with native.use("reference"):
        assert not rule(100)
