"""Codes and their products: one body for CPU and CUDA, compared with the reference or the exact integers.

`test_cuda_on_host.py` calls the same bodies with the CUDA kernels' code run on the host.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize
from gnnqlab.kernels.codec.rows import raise_refused
from gnnqlab.kernels.dense.code_rows import PairedRows, pack_pairs
from gnnqlab.kernels.dense.int8_mm import int8_mm, int8_mm_scaled, int8_mm_transposed
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
from tests.cases import each
from tests.kernels.test_gpu import EPS, dense, graph, random

SETTINGS = {"seed": 2**40 + 3, "epoch": 2, "stream": 5}
PRODUCTS = ((1, 1, 1), (7, 5, 3), (70, 66, 17), (13, 4, 64), (130, 257, 67), (65, 64, 130))
"""M, K, N: less than a tile of anything, odd, more than a tile."""


def rows_of(number: int, columns: int, seed: int) -> Tensor:
    """Return rows of sizes from 1e-3 to 1e3, with a row of zeros and a zero in each."""
    x = random(number, columns, seed=seed) * torch.logspace(-3, 3, number).unsqueeze(1)
    x[number // 2] = 0.0
    x[:, columns // 2] *= torch.arange(number) % 2
    return x


def on(rows: QuantizedRows, device: str) -> QuantizedRows:
    return QuantizedRows(rows.codes.to(device), rows.scales.to(device))


def codes_of(rows: int, columns: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-127, 128, (rows, columns), generator=generator, dtype=torch.int8)


def wide(rows: QuantizedRows, heads: int = 1) -> Tensor:
    return (rows.codes.double() * rows.scales.double().unsqueeze(1)).view(rows.shape[0], heads, -1).cpu()


@each("columns", [1, 9, 64, 257, 1030])
@each("scale", ["row", "tensor"])
def test_codes_are_those_of_the_reference(device: str, columns: int, scale: str) -> None:
    x, ids = rows_of(30, columns, columns), torch.arange(2**32 - 30, 2**32)
    for bits, noised, packed in ((8, True, False), (8, False, False), (3, True, True), (5, True, False)):
        found: list[QuantizedRows | PairedRows] = []
        for backend, place in (("reference", "cpu"), ("native", device)):
            noise = NoiseCounter(ids.to(place), **SETTINGS) if noised else None
            with native.use(backend):
                found.append(quantize(x.to(place), bits=bits, scale=scale, noise=noise, packed=packed))
                if packed:
                    unpacked = quantize(x.to(place), bits=bits, scale=scale, noise=noise)
                    assert torch.equal(pack_pairs(unpacked).codes, found[-1].codes)
        assert torch.equal(found[0].codes, found[1].codes.cpu())
        assert torch.equal(found[0].scales, found[1].scales.cpu())
    halves = NoiseCounter(ids[::2].int().to(device), **SETTINGS)
    part = quantize(x.to(device)[::2], scale="tensor", noise=halves, largest=float(x.abs().max()))
    whole = quantize(x.to(device), scale="tensor", noise=NoiseCounter(ids.int().to(device), **SETTINGS))
    assert torch.equal(part.codes, whole.codes[::2]) and torch.equal(part.scales, whole.scales[::2])


def summed(x: Tensor, scale: str) -> Tensor:
    return quantized_sum(incidence(graph(edges=60, weighted=False).to(x.device)), x, scale=scale)


@each("scale", ["row", "tensor"])
@each("quantized", [quantize, summed])
def test_a_row_that_is_not_finite_is_named(device: str, scale: str, quantized: Callable) -> None:
    x = random(60, 20)
    x[11, 3], x[40, 0] = torch.inf, torch.nan
    with pytest.raises(NonFiniteRow) as refused:
        quantized(x.to(device), scale=scale)
        raise_refused(torch.device(device))
    assert refused.value.position == 11


@each(("heads", "features"), [(1, 1), (1, 64), (2, 7), (3, 16), (4, 100), (1, 300)])
def test_products_along_edges_are_those_of_the_widened_rows(device: str, heads: int, features: int) -> None:
    adj, columns = graph(weighted=False), heads * features
    there, sources = adj.to(device), adj.indices.long()
    rows = torch.repeat_interleave(torch.arange(adj.num_rows), adj.indptr.diff())
    x, y = quantize(rows_of(280, columns, 1)), quantize(rows_of(300, columns, 2))
    weights = random(adj.num_edges, heads, seed=3)
    theirs, own = wide(x, heads)[sources], wide(y, heads)[rows]
    x, y = on(x, device), on(y, device)
    # Integers are exact; each is multiplied by two scales, rounded each time.
    exact = (theirs * own).sum(-1)
    dots = int8_sddmm_dot(there, x, y, heads=heads).cpu()
    assert ((dots - exact).abs() <= 4 * EPS * exact.abs()).all()
    added = int8_sddmm_add(there, x, y).cpu()
    assert ((added - (theirs + own).flatten(1)).abs() <= 4 * EPS * (theirs.abs() + own.abs()).flatten(1)).all()
    summed = int8_weighted_sum(there, weights.to(device), x, heads=heads)
    terms = weights.double().unsqueeze(-1) * theirs
    sums, sizes = (torch.zeros(300, heads, features).double().index_add(0, rows, t) for t in (terms, terms.abs()))
    assert ((summed.cpu() - sums).abs() <= (adj.num_edges + 4) * EPS * sizes).all()


@each(("heads", "features"), [(1, 1), (2, 40), (1, 130)])
def test_attention_of_codes_is_that_of_the_widened_rows(device: str, heads: int, features: int) -> None:
    adj, columns = graph(weighted=False), heads * features
    kept = [quantize(rows_of(rows, columns, rows)) for rows in (200, 80, 300)]
    logits = [random(rows, heads, seed=rows) for rows in (200, 80, 300)]
    x, halo, grad = (on(rows, device) for rows in kept)
    wide_x, wide_halo, wide_grad = (wide(rows, heads).float() for rows in kept)
    with native.use("reference"):
        out, stats = attend_rows(adj, wide_x, logits[0], logits[2], wide_halo, logits[1])
        packed = pack_rows(logits[2], stats, wide_grad, out)
        edges = torch.zeros(adj.num_edges, heads)
        truth = attend_columns(adj, wide_halo, logits[1], packed, wide_grad, edges, columns=(200, 280))
    there, (of_x, of_halo, of_rows) = adj.to(device), (each.to(device) for each in logits)
    found = int8_attend_rows(there, x, of_x, of_rows, halo, of_halo)
    for ours, true in zip(found, (out, stats), strict=True):
        assert (ours.cpu() - true).abs().max() <= 1e-4 * true.abs().max()
    of_edges = torch.zeros_like(edges).to(device)
    found = int8_attend_columns(there, halo, of_halo, packed.to(device), grad, of_edges, columns=(200, 280))
    for ours, true in zip((*found, of_edges), (*truth, edges), strict=True):
        assert (ours.cpu() - true).abs().max() <= 1e-4 * true.abs().max()


@each("columns", [1, 33, 300])
@each(("scale", "bits"), [("row", 8), ("tensor", 3)])
def test_a_sum_that_quantizes_on_its_way_is_that_of_the_codes(device: str, columns: int, scale: str, bits: int) -> None:
    adj = graph(weighted=False).to(device)
    x = rows_of(adj.num_edges, columns, 1).to(device)
    ids = torch.arange(adj.num_edges).flip(0).to(device) * 7
    for ends, noise in ((incidence(adj), NoiseCounter(ids, **SETTINGS)), (incidence(adj, by_column=True), None)):
        codes = quantize(x, bits=bits, scale=scale, noise=noise)
        assert torch.equal(quantized_sum(ends, x, bits=bits, scale=scale, noise=noise), spmm(ends, codes))
        truth = dense(ends) @ wide(codes)[:, 0]
        sizes = dense(ends) @ wide(codes)[:, 0].abs()
        assert ((spmm(ends, codes).cpu() - truth).abs() <= (adj.num_edges + 4) * EPS * sizes).all()


@each("sizes", PRODUCTS)
def test_products_of_integers_are_exact(device: str, sizes: tuple[int, int, int]) -> None:
    """Up to the sum, its scale, the bias and the base: four roundings of the rounded value."""
    m, k, n = sizes
    a, b, scales = codes_of(m, k, 1), codes_of(k, n, 2), random(m, seed=3).abs()
    bias, base = random(n, seed=4), random(m, n, seed=5)
    exact = a.double() @ b.double() * scales.double().unsqueeze(1) * 0.25
    slack = 4 * EPS * (exact.abs() + bias.abs() + base.abs())
    there = [each.to(device) for each in (a, scales, b, bias, base)]
    largest = torch.full((), 1e30, device=device)
    found = int8_mm(there[0], there[1], there[2], 0.25, largest=largest)
    assert ((found.cpu() - exact).abs() <= slack).all()
    assert largest == (found.abs().amax() if found.numel() else 0.0)
    whole = torch.full((m + 2, n + 3), 7.0, device=device)
    out = whole[1:-1, 1 : n + 1]
    out.copy_(there[4])
    turned = there[2].t().contiguous()
    int8_mm(there[0], there[1], turned, 0.25, transposed=True, bias=there[3], out=out, accumulate=True)
    assert ((out.cpu() - (exact + bias + base.double())).abs() <= 2 * slack).all()
    assert (whole[0] == 7.0).all() and (whole[-1] == 7.0).all() and (whole[:, n + 1 :] == 7.0).all()
    padded = torch.full((m, -(-k // 16) * 16 + 16), 99, dtype=torch.int8, device=device)
    padded[:, :k] = there[0]  # elements after the end of a row are no terms of it
    assert torch.equal(int8_mm(padded[:, :k], there[1], there[2], 0.25), int8_mm(*there[:3], 0.25))
    over = int8_mm_transposed(there[0].t().contiguous(), there[2], 0.25).cpu()
    exact = a.double() @ b.double() * 0.25
    assert ((over - exact).abs() <= 2 * EPS * exact.abs()).all()


@each("sizes", PRODUCTS)
def test_sums_over_rows_of_different_scales(device: str, sizes: tuple[int, int, int]) -> None:
    """Each term is rounded once to float32; then K float32 additions of three parts, which tensor cores may cut off."""
    m, k, n = sizes
    a, b = codes_of(k, m, 1), codes_of(k, n, 2)
    scales, base = random(k, seed=3).abs() * torch.logspace(-6, 6, k), random(m, n, seed=4)
    wide_a, wide_b = a.double(), b.double() * scales.double().unsqueeze(1)
    exact, sizes_of = wide_a.t() @ wide_b, wide_a.abs().t() @ wide_b.abs()
    there = [each.to(device) for each in (a, b, scales)]
    found = int8_mm_scaled(*there)
    assert ((found.cpu() - exact).abs() <= (6 * k + 40) * EPS * sizes_of).all()
    assert torch.equal(int8_mm_scaled(*there), found)  # no addition depends on the order of threads
    whole = torch.full((m + 2, n + 3), 7.0, device=device)
    out = whole[1:-1, 1 : n + 1]
    out.copy_(base)
    int8_mm_scaled(*there, out=out, accumulate=True)
    assert torch.equal(out, base.to(device) + found)
    assert (whole[0] == 7.0).all() and (whole[-1] == 7.0).all() and (whole[:, n + 1 :] == 7.0).all()
    assert (int8_mm_scaled(there[0][:0], there[1][:0], there[2][:0]) == 0).all()


@each("columns", [1, 2, 9, 33, 64, 66, 256, 520])
@each("weighted", [True, False])
def test_sums_of_packed_rows_have_the_bits_of_unpacked_ones(device: str, columns: int, weighted: bool) -> None:
    adj = graph(weighted=weighted).to(device)
    x, halo = (quantize(rows_of(rows, columns, rows).to(device), bits=4) for rows in (200, 80))
    packed = [pack_pairs(rows) for rows in (x, halo)]
    expected = spmm(adj, x, halo)
    assert torch.equal(spmm(adj, *packed), expected)
    apart = torch.full((200, -(-columns // 2) + 3), 255, dtype=torch.uint8, device=device)
    apart[:, 1:-2] = packed[0].codes  # rows with gaps, at any offset
    read = PairedRows(apart[:, 1:-2], packed[0].scales, columns)
    out = torch.full((20, columns), 2.0, device=device)
    spmm(adj, read, packed[1], rows=(5, 25), out=out, accumulate=True)
    assert torch.equal(out, 2.0 + expected[5:25])


@pytest.mark.gpu
def test_the_longest_sums_do_not_overflow_and_are_shared_out() -> None:
    many = torch.full((400_001, 70), 127, dtype=torch.int8, device="cuda")
    expected = torch.tensor(127.0 * 127.0 * 400_001).item()
    assert (int8_mm_transposed(many, -many, 1.0) == -expected).all()
    most = torch.full((2, 2**16 - 1), 127, dtype=torch.int8, device="cuda")
    product = int8_mm(most, torch.ones(2, device="cuda"), most, 1.0, transposed=True)
    assert (product == torch.tensor(127.0 * 127.0 * (2**16 - 1)).item()).all()
