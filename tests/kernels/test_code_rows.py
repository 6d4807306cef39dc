"""Two codes a byte: packed and unpacked, quantized directly into pairs, and sums with the bits of unpacked codes."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.kernels import native
from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize
from gnnqlab.kernels.dense.code_rows import PAIRED_WIDTHS, PairedRows, QuantizedRows, pack_pairs, unpack_pairs
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.aggregate import spmm
from tests.cases import each
from tests.kernels.backends import EVERY, on_native, use
from tests.kernels.test_aggregate import matrix

WIDTHS = (1, 2, 3, 7, 8, 15, 31, 33, 64, 65, 127, 129, 255, 256, 257, 602)


def _codes(rows: int, columns: int, seed: int = 0, least: int = -8) -> QuantizedRows:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(least, 8, (rows, columns), generator=generator, dtype=torch.int8)
    return QuantizedRows(codes, torch.rand(rows, generator=generator))


@each("backend", EVERY)
@each("columns", WIDTHS)
def test_packing_is_undone_and_takes_half_a_byte_a_code(backend: str, columns: int) -> None:
    rows = _codes(9, columns)
    with use(backend):
        packed = pack_pairs(rows)
        strided = pack_pairs(QuantizedRows(_codes(9, columns + 3).codes[:, 1 : columns + 1], rows.scales))
    assert packed.codes.shape == (9, (columns + 1) // 2) and packed.shape == (9, columns)
    assert (packed.codes[:, 0] & 15).tolist() == [code % 16 for code in rows.codes[:, 0].tolist()]
    assert torch.equal(unpack_pairs(packed).codes, rows.codes) and packed.scales is rows.scales
    assert torch.equal(unpack_pairs(strided).codes, _codes(9, columns + 3).codes[:, 1 : columns + 1])


@each("backend", EVERY)
@each("bits", PAIRED_WIDTHS)
def test_rows_are_quantized_into_the_pairs_of_their_codes(backend: str, bits: int) -> None:
    for rows, columns in ((1, 1), (7, 5), (50, 66), (30, 257)):
        x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))
        x[rows // 2] = 0.0
        for scale in ("row", "tensor"):
            for noise in (None, NoiseCounter(torch.arange(rows), 5, 2, stream("operand", 3))):
                settings = {"bits": bits, "scale": scale, "noise": noise}
                with use(backend):
                    packed = quantize(x, packed=True, **settings)
                wide = quantize(x, **settings)
                assert torch.equal(unpack_pairs(packed).codes, wide.codes) and torch.equal(packed.scales, wide.scales)
    part = quantize(x, bits=bits, scale="tensor", largest=9.0, packed=True)
    assert torch.equal(unpack_pairs(part).codes, quantize(x, bits=bits, scale="tensor", largest=9.0).codes)


@each("backend", EVERY)
def test_empty_rows_are_packed_to_empty_codes(backend: str) -> None:
    with use(backend):
        for shape in ((0, 5), (4, 0)):
            packed = quantize(torch.zeros(shape), bits=4, packed=True)
            assert packed.shape == shape and packed.codes.shape == (shape[0], (shape[1] + 1) // 2)
            assert spmm(matrix(3, shape[0], 0, seed=0), packed).shape == (3, shape[1])


@each("backend", EVERY)
@each("columns", WIDTHS)
def test_sums_have_the_bits_of_unpacked_codes(backend: str, columns: int) -> None:
    """The last row has no edges; also ranges, a separate halo buffer, the transpose and accumulation."""
    for weighted in (True, False):
        adj = matrix(40, 50, 300, seed=2, weighted=weighted, hub=True)
        wide = _codes(50, columns)
        own, others = (QuantizedRows(wide.codes[part], wide.scales[part]) for part in (slice(33), slice(33, None)))
        over = _codes(40, columns, seed=1)
        with use(backend):
            for settings in ({}, {"rows": (5, 31)}):
                found = spmm(adj, pack_pairs(wide), **settings)
                assert torch.equal(found, spmm(adj, wide, **settings))
                assert torch.equal(spmm(adj, pack_pairs(own), pack_pairs(others), **settings), found)
            assert not spmm(adj, pack_pairs(wide))[-1].any()
            assert torch.equal(spmm(adj, pack_pairs(over), transposed=True), spmm(adj, over, transposed=True))
            room = torch.full((40, columns + 3), 2.0)
            spmm(adj, pack_pairs(wide), out=room[:, :columns], accumulate=True)
            begun = torch.full((40, columns), 2.0)
            assert torch.equal(room[:, :columns], spmm(adj, wide, out=begun, accumulate=True))
            assert (room[:, columns:] == 2.0).all(), "written beyond a row"


@on_native
@each("shape", [(27_000, 520), (45_000, 300), (45_000, 301)])
def test_rows_beyond_the_cache_give_the_same_bits(backend: str, shape: tuple[int, int]) -> None:
    """Two cache lines of a row at a time, one line, and an odd width, which takes the other path."""
    wide = _codes(*shape)
    adj = matrix(100, shape[0], 6 * shape[0], seed=3)
    with use(backend):
        assert torch.equal(spmm(adj, pack_pairs(wide)), spmm(adj, wide))


def test_sums_of_packed_codes_do_not_depend_on_the_number_of_threads() -> None:
    adj, wide = matrix(3000, 3000, 120_000, seed=6, hub=True), _codes(3000, 71)
    whole, before = spmm(adj, pack_pairs(wide)), native.threads()
    torch.set_num_threads(1)
    try:
        assert torch.equal(spmm(adj, pack_pairs(wide)), whole)
    finally:
        torch.set_num_threads(before)


def test_invalid_packed_codes_and_operands_raise_value_error() -> None:
    x = torch.ones(2, 3)
    for bits in (5, 8):
        with pytest.raises(ValueError, match=rf"packed codes must have bits among \(2, 3, 4\).*got {bits}"):
            quantize(x, bits=bits, packed=True)
    with pytest.raises(ValueError, match="packed rows cannot be written to out"):
        quantize(x, bits=4, packed=True, out=quantize(x, bits=4))
    pairs = torch.zeros(2, 2, dtype=torch.uint8)
    for codes, columns in ((pairs, 5), (pairs.char(), 3), (pairs[0], 3)):
        with pytest.raises(ValueError, match="packed codes must be uint8 of shape"):
            PairedRows(codes, torch.ones(2), columns)
    with pytest.raises(ValueError, match="scales must be float32"):
        PairedRows(pairs, torch.ones(3), 4)
    adj = Adjacency(torch.tensor([0, 1]), torch.tensor([0], dtype=torch.int32), num_columns=4)
    packed = quantize(x, bits=4, packed=True)
    for halo in (quantize(x, bits=4), quantize(torch.ones(2, 4), bits=4, packed=True)):
        with pytest.raises(ValueError, match="halo must be like x"):
            spmm(adj, packed, halo)
    with pytest.raises(ValueError, match=r"out must be torch.float32 of shape \(1, 3\)"):
        spmm(adj, packed, out=torch.zeros(1, 2))
    with pytest.raises(ValueError, match="x must be float32, bfloat16, float64 or rows of codes"):
        spmm(adj, pairs)
