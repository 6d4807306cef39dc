"""Every operator compared with the reference or float64: one body for CPU and CUDA, and errors only CUDA can have.

Tolerances: a float32 sum of n terms errs by at most (n + 2) eps times the sum of their sizes; the softmax adds the few
roundings of its exponential, so attention gets 32 eps on top.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native, noise
from gnnqlab.kernels.codec import rows as codec
from gnnqlab.kernels.codec.rotate import encode_rotated
from gnnqlab.kernels.codec.row_errors import NOTED, row_errors
from gnnqlab.kernels.rowwise import nodewise
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.aggregate import QuantizedRows, aggregate, quantize_rows, spmm
from gnnqlab.kernels.sparse.attention import attend, sddmm_add, sddmm_dot, segment_softmax, weighted_sum
from tests.cases import each
from tests.kernels import test_rotate

EPS = 2.0**-24
SETTINGS = {"seed": 2**40 + 3, "epoch": 2, "stream": 5}
WIDTHS = [1, 3, 31, 64, 100, 128, 130, 256, 602, 1030, 2500]


def graph(rows: int = 300, columns: int = 280, edges: int = 9000, *, weighted: bool = True) -> Adjacency:
    """Random, with a row of a third of all edges (more than a block's long row) and a last row without any."""
    generator = torch.Generator().manual_seed(rows + edges)
    row_of = torch.randint(0, rows - 1, (edges,), generator=generator)
    row_of[: edges // 3] = 7
    indptr = torch.zeros(rows + 1, dtype=torch.int64)
    indptr[1:] = torch.bincount(row_of, minlength=rows).cumsum(0)
    indices = torch.randint(0, columns, (edges,), generator=generator, dtype=torch.int32)
    weights = torch.randn(edges, generator=generator) if weighted else None
    return Adjacency(indptr, indices, weights, num_columns=columns)


def dense(adj: Adjacency) -> Tensor:
    rows = torch.repeat_interleave(torch.arange(adj.num_rows), adj.indptr.diff().cpu())
    weights = torch.ones(adj.num_edges) if adj.weights is None else adj.weights.cpu()
    full = torch.zeros(adj.num_rows, adj.num_columns, dtype=torch.float64)
    return full.index_put_((rows, adj.indices.cpu().long()), weights.double(), accumulate=True)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def assert_sums(got: Tensor, full: Tensor, columns: Tensor, terms: int, slack: float = 1.0) -> None:
    columns = columns.cpu().double()
    bound = (terms + 2) * EPS * slack * (full.abs() @ columns.abs()) + 1e-30
    assert ((got.cpu().double() - full @ columns).abs() <= bound).all()


@each("columns", WIDTHS)
@each("weighted", [True, False])
def test_sums_of_every_row_type(device: str, columns: int, weighted: bool) -> None:
    adj = graph(weighted=weighted)
    there, full, x, grad = adj.to(device), dense(adj), random(280, columns), random(300, columns, seed=1)
    on = x.to(device)
    assert_sums(spmm(there, on), full, x, adj.num_edges)
    assert_sums(spmm(there, on.bfloat16()), full, x.bfloat16(), adj.num_edges)
    rows = quantize_rows(on)
    assert_sums(spmm(there, rows), full, rows.codes * rows.scales.unsqueeze(1), adj.num_edges, slack=2.0)
    assert_sums(spmm(there, grad.to(device), transposed=True), full.T, grad, adj.num_edges)
    assert torch.equal(there.transposed.indices.cpu(), adj.transposed.indices)
    assert torch.equal(there.transposed_edges.cpu(), adj.transposed_edges)


@each("kind", ["float32", "bfloat16", "int8"])
def test_halo_row_ranges_and_strides(device: str, kind: str) -> None:
    adj = graph()
    there, x = adj.to(device), random(280, 136).to(device)
    wide = torch.full((80, 144), torch.nan, device=device)
    wide[:, :136] = x[200:]

    def stored(rows: Tensor) -> Tensor | QuantizedRows:
        return quantize_rows(rows) if kind == "int8" else rows.to(getattr(torch, kind))

    owned, halo = stored(x[:200]), stored(wide[:, :136])
    whole = spmm(there, owned, halo)
    if kind == "float32":
        assert_sums(whole, dense(adj), x, adj.num_edges)
    parts = [spmm(there, owned, halo, rows=limits) for limits in ((0, 7), (7, 8), (8, 300))]
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(spmm(there, owned, halo, out=torch.ones_like(whole), accumulate=True), whole + 1.0)
    assert spmm(there, owned, halo, rows=(5, 5)).shape == (0, 136)


def test_gradient_of_sums(device: str) -> None:
    adj = graph()
    x, grad = random(280, 70).to(device).requires_grad_(), random(300, 70, seed=1)
    aggregate(adj.to(device), x).backward(grad.to(device))
    assert_sums(x.grad, dense(adj).T, grad, adj.num_edges)


def attended(adj: Adjacency, operands: list[Tensor], grad: Tensor) -> list[Tensor]:
    operands = [operand.detach().requires_grad_() for operand in operands]
    out = attend(adj, *operands)
    return [out.detach(), *torch.autograd.grad(out, operands, grad)]


def by_parts(adj: Adjacency, operands: list[Tensor], grad: Tensor) -> list[Tensor]:
    """Compute another attention from the parts: dot-product logits, softmax, weighted sum, and its gradients."""
    operands = [operand.detach().requires_grad_() for operand in operands]
    values, source, target, halo_values, halo_source = operands
    logits = sddmm_add(adj, source, target, halo_source) + 0.1 * sddmm_dot(adj, values, grad, halo_values)
    out = weighted_sum(adj, segment_softmax(adj, logits), values, halo_values)
    return [out.detach(), *torch.autograd.grad(out, operands, grad)]


@each("way", [attended, by_parts])
@each(("heads", "features"), [(1, 1), (1, 7), (2, 40), (4, 64), (8, 8), (1, 602), (3, 130), (1, 1100)])
def test_attention_and_its_gradients(device: str, way: Callable[..., list[Tensor]], heads: int, features: int) -> None:
    adj = graph()
    shapes = [(200, heads, features), (200, heads), (300, heads), (80, heads, features), (80, heads)]
    operands = [random(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    grad = random(300, heads, features, seed=9) / features**0.5
    exact = way(adj, [operand.double() for operand in operands], grad.double())
    sizes = way(adj, [operand.double() for operand in operands], grad.double().abs())
    got = way(adj.to(device), [operand.to(device) for operand in operands], grad.to(device))
    # Gradients cancel, some to nothing: the error is relative to the largest element of all.
    bound = (adj.num_edges + features + 32) * EPS * max(float(size.abs().max()) for size in [*sizes, *exact])
    for ours, true in zip(got, exact, strict=True):
        assert ((ours.cpu().double() - true).abs() <= bound).all()


def test_same_bits_again_and_again(device: str) -> None:
    adj = graph().to(device)
    x = random(280, 130).to(device)
    values, logits, target = random(280, 2, 33).to(device), random(280, 2).to(device), random(300, 2).to(device)
    first = spmm(adj, x), attend(adj, values, logits, target), segment_softmax(adj, random(9000, 2).to(device))
    for _ in range(3):
        again = spmm(adj, x), attend(adj, values, logits, target), segment_softmax(adj, random(9000, 2).to(device))
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@each("columns", WIDTHS)
@each("normed", [False, True])
def test_one_pass_between_convolutions(device: str, columns: int, normed: bool) -> None:
    ids, outcomes = torch.arange(700), []
    operands = [random(700, columns), 1 + random(columns, seed=1), random(columns, seed=2)]
    weight = random(700, columns, seed=3)
    for backend, place in (("native", device), ("reference", "cpu")):
        with native.use(backend):
            x, scale, shift = (one.to(place).requires_grad_() for one in operands)
            norm = nodewise.Norm(scale, shift) if normed and columns > 1 else None
            mask = nodewise.Mask(ids=ids.to(place), p=0.4, **SETTINGS)
            out = nodewise.nodewise(x, norm, mask=mask)
            inputs = [x] if norm is None else [x, scale, shift]
            outcomes.append([out.detach(), *torch.autograd.grad((out * weight.to(place)).sum(), inputs)])
    for found, expected in zip(*outcomes):
        assert float((found.cpu() - expected).abs().max()) <= 2e-4 * max(1.0, float(expected.abs().max()))


def test_operators_accept_empty_inputs(device: str) -> None:
    empty = Adjacency(torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int32), num_columns=0).to(device)
    assert spmm(empty, torch.zeros(0, 5, device=device)).shape == (0, 5)
    assert attend(empty, *(torch.zeros(*shape, device=device) for shape in ((0, 2, 3), (0, 2), (0, 2)))).numel() == 0
    edgeless = Adjacency(torch.zeros(4, dtype=torch.int64), torch.zeros(0, dtype=torch.int32), num_columns=2)
    edgeless = edgeless.to(device)
    assert (spmm(edgeless, torch.ones(2, 5, device=device)) == 0).all()
    assert segment_softmax(edgeless, torch.zeros(0, 2, device=device)).shape == (0, 2)
    assert spmm(edgeless, torch.ones(2, 0, device=device)).shape == (3, 0)


@each("bits", codec.WIDTHS)
@each("columns", [1, 9, 256, 1024, 1025, 3001])
def test_codec_gives_the_bytes_of_the_reference(device: str, bits: int, columns: int) -> None:
    x, rows, ids = random(60, columns), torch.arange(59, -1, -2), torch.arange(2**32 - 30, 2**32)
    results = []
    for backend, where in (("reference", "cpu"), ("native", device)):
        with native.use(backend):
            payload = torch.zeros(30 * int(codec.row_bytes(columns, bits)), dtype=torch.uint8, device=where)
            params, out = torch.zeros(30, 2, device=where), torch.zeros(30, columns, device=where)
            given = (x.to(where), rows.to(where), ids.to(where), bits, None, payload, params)
            codec.encode_rows(*given, **SETTINGS)
            codec.decode_rows(payload, params, bits, None, out, None)
            codec.decode_rows(payload, params, bits, None, out, None, accumulate=True)
            words = noise.uniform16(ids.to(where), columns, **SETTINGS)
        results.append([part.cpu() for part in (payload, params, out, words)])
    assert all(torch.equal(ours, true) for ours, true in zip(results[1], results[0], strict=True))


@each("columns", [1, 3, 9, 64, 300, 602, 4099])
@each("rotations", [1, 2])
def test_rotated_rows_are_the_bytes_of_the_reference(device: str, columns: int, rotations: int) -> None:
    x = test_rotate.rows_of(columns)
    with native.use("reference"):
        expected = test_rotate.there_and_back(x, rotations)
    for gaps in (False, True):
        found = test_rotate.there_and_back(x, rotations, gaps, device)
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


@each("columns", [1, 15, 16, 300, 1025])
def test_errors_of_rows_are_those_of_the_reference(device: str, columns: int) -> None:
    x, rows = test_rotate.rows_of(columns), torch.arange(23, -1, -1)
    expected, found = torch.zeros(24, NOTED), torch.zeros(24, NOTED, device=device)
    with native.use("reference"):
        row_errors(x, rows, expected)
    row_errors(x.to(device), rows.to(device), found)
    assert torch.equal(found.cpu(), expected)


@each("what", ["rotated", "errors"])
def test_rows_that_no_rotation_and_no_error_is_of_are_named(device: str, what: str) -> None:
    x, rows = test_rotate.rows_of(48).to(device), torch.arange(24, device=device)
    x[8, 47], x[11, 3] = torch.nan, -torch.inf

    def called() -> None:
        if what == "errors":
            row_errors(x, rows, torch.zeros(24, NOTED, device=device))
        else:
            payload, scales = torch.zeros(24 * 18, dtype=torch.uint8, device=device), torch.zeros(24, device=device)
            encode_rotated(
                x, rows, rows, 3, None, payload, scales, torch.zeros(24, 2, device=device), rotations=2, **SETTINGS
            )
        codec.raise_refused(x.device)

    with pytest.raises(NonFiniteRow) as refused:
        called()
    assert refused.value.position == 8
    x[8:12], rows[5] = 1.0, 24
    with pytest.raises(ValueError, match="rows must be in"):
        called()


@pytest.mark.gpu
def test_current_stream_and_no_waiting() -> None:
    """Work goes to the current stream, in its order, and no operator makes the host wait."""
    adj, x = graph().to("cuda"), random(280, 64).to("cuda")
    values, logits, target = (random(*shape).to("cuda") for shape in ((280, 2, 32), (280, 2), (300, 2)))
    payload, params = torch.zeros(280 * 16, dtype=torch.uint8, device="cuda"), torch.zeros(280, 2, device="cuda")
    ids, late = torch.arange(280, device="cuda"), torch.zeros_like(x)
    expected = spmm(adj, x)
    assert adj.transposed_edges.numel() == adj.num_edges
    native.refused(x.device)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            late.copy_(x)  # a kernel on another stream would read zeros
            summed = spmm(adj, late)
            attended = attend(adj, values, logits, target)
            codec.encode_rows(late, ids, ids, 2, None, payload, params, **SETTINGS)
            codec.decode_rows(payload, params, 2, None, late, None)
        assert not side.query()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    side.synchronize()
    assert torch.equal(summed, expected) and attended.isfinite().all()
    codec.raise_refused(x.device)
