"""Products along edges of codes: those of the widened rows in float64, on every backend; odd sizes and empty rows."""

from __future__ import annotations

import itertools

import pytest
import torch

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.aggregate import QuantizedRows, spmm
from gnnqlab.kernels.sparse.attention import attend_columns, attend_rows, pack_rows
from gnnqlab.kernels.sparse.int8_edges import (
    incidence,
    int8_attend_columns,
    int8_attend_rows,
    int8_sddmm_add,
    int8_sddmm_dot,
    int8_weighted_sum,
    quantized_sum,
)
from tests.kernels.backends import EVERY, use

ROWS, OWNED, HALO, EDGES = 30, 40, 9, 400
HEADS = ((1, 1), (1, 64), (2, 7), (3, 16), (4, 33), (1, 257))


def _adjacency(columns: int, seed: int = 0) -> Adjacency:
    """Half of the rows have no edges."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(ROWS // 2, (EDGES,), generator=generator) * 2
    indptr = torch.zeros(ROWS + 1, dtype=torch.int64)
    indptr[1:] = torch.bincount(rows, minlength=ROWS).cumsum(0)
    return Adjacency(indptr, torch.randint(columns, (EDGES,), generator=generator).int(), num_columns=columns)


def _random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _rows(rows: int, columns: int, seed: int) -> QuantizedRows:
    x = _random(rows, columns, seed=seed) * torch.logspace(-1, 1, rows).unsqueeze(1)
    x[rows // 2] = 0.0
    return quantize(x)


def _wide(rows: QuantizedRows, heads: int = 1) -> torch.Tensor:
    return (rows.codes.double() * rows.scales.double().unsqueeze(1)).view(rows.shape[0], heads, -1)


def _row_of(adj: Adjacency) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(adj.num_rows), adj.indptr.diff())


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize(("heads", "features"), HEADS)
def test_products_are_those_of_the_widened_rows(backend: str, heads: int, features: int) -> None:
    """Float32 sums of up to 257 and of some 40 terms: 2^-17 of their size."""
    adj, columns = _adjacency(OWNED), heads * features
    x, y, weights = _rows(OWNED, columns, 1), _rows(ROWS, columns, 2), _random(EDGES, heads, seed=3)
    sources, rows = adj.indices.long(), _row_of(adj)
    theirs, own = _wide(x, heads)[sources], _wide(y, heads)[rows]
    with use(backend):
        dot = int8_sddmm_dot(adj, x, y, heads=heads)
        added = int8_sddmm_add(adj, x, y)
        summed = int8_weighted_sum(adj, weights, x, heads=heads)
        at_rows, at_columns = (spmm(incidence(adj, by_column=by), quantize(added)) for by in (False, True))
    slack = 2.0**-17
    assert ((dot - (theirs * own).sum(-1)).abs() <= slack * (theirs * own).abs().sum(-1) + 1e-12).all()
    assert ((added - (theirs + own).flatten(1)).abs() <= slack * (theirs.abs() + own.abs()).flatten(1)).all()
    terms = weights.double().unsqueeze(-1) * theirs
    sums, sizes = (torch.zeros(ROWS, heads, features).double().index_add(0, rows, t) for t in (terms, terms.abs()))
    assert ((summed - sums).abs() <= slack * sizes).all() and not summed[1].any()
    edges = _wide(quantize(added))[:, 0]
    for found, ends, count in ((at_rows, rows, ROWS), (at_columns, sources, OWNED)):
        sums, sizes = (torch.zeros(count, columns).double().index_add(0, ends, t) for t in (edges, edges.abs()))
        assert ((found - sums).abs() <= slack * sizes).all()


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize(("heads", "features"), HEADS)
def test_attention_of_codes_is_that_of_the_widened_rows(backend: str, heads: int, features: int) -> None:
    adj, columns = _adjacency(OWNED + HALO), heads * features
    x, halo, grad = _rows(OWNED, columns, 1), _rows(HALO, columns, 2), _rows(ROWS, columns, 3)
    source, target, halo_source = _random(OWNED, heads), _random(ROWS, heads, seed=1), _random(HALO, heads, seed=2)
    wide, wide_halo, wide_grad = (_wide(each, heads).float() for each in (x, halo, grad))
    out, stats = attend_rows(adj, wide, source, target, wide_halo, halo_source)
    with use(backend):
        parts = [int8_attend_rows(adj, x, source, target, halo, halo_source, rows=rows) for rows in ((0, 7), (7, ROWS))]
    found, found_stats = (torch.cat(each) for each in zip(*parts, strict=True))
    torch.testing.assert_close(found, out, rtol=1e-5, atol=1e-5 * float(out.abs().max()))
    torch.testing.assert_close(found_stats, stats)
    packed = pack_rows(target, stats, wide_grad, out)
    edge, edge_found = torch.full((2, EDGES, heads), torch.nan)
    for (codes, rows, logits), span in (
        ((x, wide, source), (0, OWNED)),
        ((halo, wide_halo, halo_source), (OWNED, OWNED + HALO)),
    ):
        truth = attend_columns(adj, rows, logits, packed, wide_grad, edge, columns=span)
        with use(backend):
            ours = int8_attend_columns(adj, codes, logits, packed, grad, edge_found, columns=span)
        for one, two in zip(ours, truth, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5 * float(two.abs().max()))
    torch.testing.assert_close(edge_found, edge, rtol=1e-4, atol=1e-5 * float(edge.abs().max()))


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("columns", [1, 16, 33, 257])
@pytest.mark.parametrize(("scale", "bits"), [("row", 8), ("tensor", 8), ("row", 3)])
def test_a_sum_that_quantizes_on_its_way_is_that_of_the_codes(
    backend: str, columns: int, scale: str, bits: int
) -> None:
    """The same bits, by noise of any ids and to nearest, at destinations and at sources."""
    adj = _adjacency(OWNED)
    x = _random(EDGES, columns) * torch.logspace(-3, 3, EDGES).unsqueeze(1)
    x[5] = 0.0
    ids = torch.arange(EDGES).flip(0) * 7
    with use(backend):
        for ends, noise in itertools.product(
            (incidence(adj), incidence(adj, by_column=True)),
            (None, NoiseCounter(ids, 1, 2, 3), NoiseCounter(ids.int(), 1, 2, 3)),
        ):
            codes = quantize(x, bits=bits, scale=scale, noise=noise)
            found = quantized_sum(ends, x, bits=bits, scale=scale, noise=noise)
            assert torch.equal(found, spmm(ends, codes))
            assert columns == 1 or not torch.equal(found, spmm(ends, x)), "a single element is its own scale"
        assert torch.equal(quantized_sum(ends, x[:, :1]), quantized_sum(ends, x[:, :1].contiguous()))


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("scale", ["row", "tensor"])
@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_a_sum_that_quantizes_on_its_way_names_the_row_that_is_not_finite(backend: str, scale: str, bad: float) -> None:
    adj, x = _adjacency(OWNED), _random(EDGES, 20)
    x[17, 3] = bad
    with use(backend), pytest.raises(NonFiniteRow, match="17"):
        quantized_sum(incidence(adj, by_column=True), x, scale=scale)


@pytest.mark.parametrize("backend", EVERY)
def test_no_edges(backend: str) -> None:
    adj = Adjacency(torch.zeros(ROWS + 1, dtype=torch.int64), torch.empty(0, dtype=torch.int32), num_columns=OWNED)
    x, y = _rows(OWNED, 6, 1), _rows(ROWS, 6, 2)
    with use(backend):
        assert int8_sddmm_dot(adj, x, y, heads=2).shape == (0, 2) and int8_sddmm_add(adj, x, y).shape == (0, 6)
        assert not int8_weighted_sum(adj, torch.empty(0, 2), x, heads=2).any()
        assert not spmm(incidence(adj), QuantizedRows(x.codes[:0], x.scales[:0])).any()
        assert not quantized_sum(incidence(adj), torch.empty(0, 6)).any()
        out, _ = int8_attend_rows(adj, x, _random(OWNED, 2), _random(ROWS, 2))
        assert not out.any()


def test_mismatched_operands_and_settings_raise_value_error() -> None:
    adj, x, y = _adjacency(OWNED), _rows(OWNED, 6, 1), _rows(ROWS, 6, 2)
    for call, text in (
        (lambda: int8_sddmm_dot(adj, y, y), "x must have 40 rows"),
        (lambda: int8_sddmm_dot(adj, x, y, heads=4), "equal heads"),
        (lambda: int8_sddmm_add(adj, x, x), "y must be of shape"),
        (lambda: int8_weighted_sum(adj, torch.ones(EDGES, 1), x, heads=2), "weights must be"),
        (lambda: quantized_sum(incidence(adj), x.scales[:, None]), "quantized_sum needs 400 rows"),
        (lambda: quantized_sum(incidence(adj), _random(EDGES, 2), bits=1), "bits must be"),
        (lambda: quantized_sum(incidence(adj), _random(EDGES, 2), scale="whole"), "scale must be"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
