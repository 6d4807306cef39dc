"""Weighted neighbour sums: native compared with float64, instruction sets, halo, row ranges, gradients, determinism."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.sparse.aggregate import Adjacency, QuantizedRows, aggregate, quantize_rows, spmm
from tests.cases import each
from tests.kernels.backends import AVAILABLE


def matrix(
    num_rows: int, num_columns: int, num_edges: int, *, seed: int, weighted: bool = True, hub: bool = False
) -> Adjacency:
    """Return a random matrix; its last row has no edges, and with ``hub`` row 0 has half of all."""
    generator = torch.Generator().manual_seed(seed)
    if num_rows < 2 or num_columns == 0:
        num_edges = 0
    rows = torch.randint(0, max(num_rows - 1, 1), (num_edges,), generator=generator)
    if hub:
        rows[: num_edges // 2] = 0
    indptr = torch.zeros(num_rows + 1, dtype=torch.int64)
    indptr[1:] = torch.bincount(rows, minlength=num_rows).cumsum(0)[:num_rows]
    indices = torch.randint(0, max(num_columns, 1), (num_edges,), generator=generator, dtype=torch.int32)
    weights = torch.randn(num_edges, generator=generator) if weighted else None
    return Adjacency(indptr, indices, weights, num_columns=num_columns)


def dense(adj: Adjacency) -> Tensor:
    """Return the same matrix in float64 (parallel edges add up)."""
    rows = torch.repeat_interleave(torch.arange(adj.num_rows), adj.indptr.diff())
    weights = torch.ones(adj.num_edges) if adj.weights is None else adj.weights
    full = torch.zeros(adj.num_rows, adj.num_columns, dtype=torch.float64)
    return full.index_put_((rows, adj.indices.long()), weights.double(), accumulate=True)


def assert_summed(
    got: Tensor, adj: Adjacency, columns: Tensor, *, transposed: bool = False, slack: float = 1.0
) -> None:
    """Assert that each element is within the error bound of a float32 sum of its terms: (terms + 2) eps sum|w x|."""
    full = dense(adj).T if transposed else dense(adj)
    terms = full.shape[1] if full.numel() == 0 else max(1, int((full != 0).sum(1).max()), adj.num_edges)
    bound = (terms + 2) * 2.0**-24 * slack * (full.abs() @ columns.double().abs()) + 1e-30
    assert ((got.double() - full @ columns.double()).abs() <= bound).all()


@each("columns", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 40, 64, 127, 129, 256, 300, 602])
@each("weighted", [True, False])
def test_every_width_and_row_type(backend: str, columns: int, weighted: bool) -> None:
    adj = matrix(23, 31, 200, seed=columns, weighted=weighted)
    x = torch.randn(31, columns, generator=torch.Generator().manual_seed(1))
    assert_summed(spmm(adj, x), adj, x)
    assert_summed(spmm(adj, x.bfloat16()), adj, x.bfloat16().double())
    rows = quantize_rows(x)
    # One rounding more: the weight times the scale.
    assert_summed(spmm(adj, rows), adj, rows.codes.double() * rows.scales.double().unsqueeze(1), slack=2.0)
    assert_summed(spmm(adj, x[:23], transposed=True), adj, x[:23], transposed=True)


@each("kind", ["float32", "bfloat16", "int8"])
@each("weighted", [True, False])
def test_halo_in_its_own_buffer(backend: str, kind: str, weighted: bool) -> None:
    adj = matrix(20, 40, 300, seed=3, weighted=weighted)
    x = torch.randn(40, 37, generator=torch.Generator().manual_seed(1))
    padded = torch.full((15, 48), torch.nan)
    padded[:, :37] = x[25:]
    if kind == "int8":
        rows = quantize_rows(x)
        wide = torch.zeros(15, 48, dtype=torch.int8)
        wide[:, :37] = rows.codes[25:]
        owned = QuantizedRows(rows.codes[:25], rows.scales[:25])
        halo = QuantizedRows(wide[:, :37], rows.scales[25:].contiguous())
        assert torch.equal(spmm(adj, owned, halo), spmm(adj, rows))
    else:
        dtype = getattr(torch, kind)
        assert torch.equal(spmm(adj, x[:25].to(dtype), padded.to(dtype)[:, :37]), spmm(adj, x.to(dtype)))


def test_row_ranges_out_and_accumulate(backend: str) -> None:
    adj = matrix(30, 30, 200, seed=4)
    x = torch.randn(30, 21, generator=torch.Generator().manual_seed(1))
    whole = spmm(adj, x)
    wide = torch.full((30, 32), 7.0)
    for start, stop in ((0, 0), (0, 11), (11, 29), (29, 30), (30, 30)):
        assert torch.equal(spmm(adj, x, rows=(start, stop)), whole[start:stop])
        spmm(adj, x, rows=(start, stop), out=wide[start:stop, :21])
    assert torch.equal(wide[:, :21], whole)
    assert (wide[:, 21:] == 7.0).all()
    added = spmm(adj, x, out=torch.ones(30, 21), accumulate=True)
    assert torch.equal(added, whole + 1.0)
    turned = torch.zeros(21, 30).T  # rows whose elements are not contiguous
    assert torch.equal(spmm(adj, x, out=turned), whole)


def test_rows_without_halo_columns_need_no_halo(backend: str) -> None:
    adj = Adjacency(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 2], dtype=torch.int32), num_columns=3)
    x, halo = torch.tensor([[1.0], [2.0]]), torch.tensor([[4.0]])
    assert spmm(adj, x, rows=(0, 1)).item() == 3.0
    assert spmm(adj, x, halo, rows=(1, 2)).item() == 4.0
    halo_grad = spmm(adj, torch.tensor([[8.0], [16.0]]), transposed=True, rows=(2, 3))
    assert halo_grad.item() == 16.0


@given(
    num_rows=st.integers(0, 40),
    num_columns=st.integers(0, 40),
    num_edges=st.integers(0, 300),
    columns=st.integers(0, 70),
    owned=st.integers(0, 40),
    seed=st.integers(0, 2**20),
    weighted=st.booleans(),
    hub=st.booleans(),
    threads=st.integers(1, 3),
)
@settings(max_examples=100)
def test_random_matrices(
    num_rows: int,
    num_columns: int,
    num_edges: int,
    columns: int,
    owned: int,
    seed: int,
    weighted: bool,
    hub: bool,
    threads: int,
) -> None:
    adj = matrix(num_rows, num_columns, num_edges, seed=seed, weighted=weighted, hub=hub)
    x = torch.randn(num_columns, columns, generator=torch.Generator().manual_seed(seed))
    y = torch.randn(num_rows, columns, generator=torch.Generator().manual_seed(seed + 1))
    owned = min(owned, num_columns)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert_summed(spmm(adj, x), adj, x)
        assert torch.equal(spmm(adj, x[:owned], x[owned:]), spmm(adj, x))
        assert_summed(spmm(adj, y, transposed=True), adj, y, transposed=True)
    finally:
        torch.set_num_threads(before)


def test_transpose_is_exact_and_stable(backend: str) -> None:
    adj = matrix(50, 30, 400, seed=5)
    turned = adj.transposed
    assert torch.equal(dense(turned), dense(adj).T)
    columns = torch.repeat_interleave(torch.arange(30), turned.indptr.diff())
    assert (turned.indices.diff()[columns.diff() == 0] >= 0).all()
    assert turned.weights is not None and adj.weights is not None
    assert torch.equal(turned.weights, adj.weights[adj.transposed_edges.long()])
    assert adj.transposed is turned


@pytest.mark.skipif(not AVAILABLE, reason="compiled kernels are not built")
def test_same_bits_for_any_threads_and_repeats() -> None:
    adj = matrix(3000, 3000, 120_000, seed=6, hub=True)
    x = torch.randn(3000, 70, generator=torch.Generator().manual_seed(1))
    rows = quantize_rows(x)
    before, seen = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 2):
            torch.set_num_threads(threads)
            fresh = Adjacency(*adj.csr, num_columns=3000)
            seen.append((spmm(fresh, x), spmm(fresh, rows), spmm(fresh, x, transposed=True), fresh.transposed_edges))
    finally:
        torch.set_num_threads(before)
    for other in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], other))


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("lines", [2, 1])
def test_rows_beyond_the_cache_give_the_same_bits(backend: str, kind: str, weighted: bool, lines: int) -> None:
    """Large products process a few cache lines at a time in a packed copy; columns and edges have the same order."""
    if backend == "reference":
        pytest.skip("the reference has one way only")
    # Two lines of each row fit the 13 MB that packing may take, or one line only; no width is a multiple of a line.
    num_columns = 9000 if lines == 2 else 110_000
    width = {"float32": 200, "bfloat16": 370, "int8": 2400}[kind] if lines == 2 else {"int8": 200}.get(kind, 75)
    adj = matrix(400, num_columns, 6 * num_columns, seed=11, weighted=weighted)
    x = torch.randn(num_columns, width, generator=torch.Generator().manual_seed(1))
    rows = quantize_rows(x)

    def stored(columns: slice = slice(None), part: slice = slice(None)) -> Tensor | QuantizedRows:
        if kind == "int8":
            return QuantizedRows(rows.codes[part, columns].contiguous(), rows.scales[part].contiguous())
        return x[part, columns].to(getattr(torch, kind))

    whole = spmm(adj, stored())
    for columns in (slice(0, 3), slice(width - 3, width)):
        assert torch.equal(spmm(adj, stored(columns)), whole[:, columns])
    assert torch.equal(spmm(adj, stored(part=slice(5000)), stored(part=slice(5000, None))), whole)
    assert torch.equal(spmm(adj, stored(), rows=(100, 399)), whole[100:399])
    assert torch.equal(spmm(adj, stored(), out=torch.ones_like(whole), accumulate=True), whole + 1.0)


@pytest.mark.skipif(len(native.status()["isas"]) < 3, reason="this processor lacks AVX2 or AVX-512")
@each("columns", [5, 37, 256])
def test_same_bits_from_avx2_and_avx512(columns: int) -> None:
    adj = matrix(50, 60, 500, seed=7)
    x = torch.randn(60, columns, generator=torch.Generator().manual_seed(1))
    for rows in (x, x.bfloat16(), quantize_rows(x)):
        sums = []
        for isa in ("avx2", "avx512"):
            with native.use("native", isa=isa):
                sums.append(spmm(adj, rows))
        assert torch.equal(*sums)


def test_gradient_of_aggregate(backend: str) -> None:
    adj = matrix(12, 17, 60, seed=8)
    x = torch.randn(17, 9, generator=torch.Generator().manual_seed(1), requires_grad=True)
    grad = torch.randn(12, 9, generator=torch.Generator().manual_seed(2))
    out = aggregate(adj, x)
    assert_summed(out.detach(), adj, x.detach())
    out.backward(grad)
    assert_summed(x.grad, adj, grad, transposed=True)


def test_gradient_checks_in_float64() -> None:
    adj = matrix(5, 6, 12, seed=9)
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: aggregate(adj, rows), x, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda rows: aggregate(adj, rows), x, fast_mode=True)


def test_gradient_keeps_the_type_of_x(backend: str) -> None:
    adj = matrix(5, 6, 12, seed=9)
    x = torch.randn(6, 3).bfloat16().requires_grad_()
    out = aggregate(adj, x)
    assert out.dtype == torch.float32
    out.sum().backward()
    assert x.grad.dtype == torch.bfloat16


@each("needs_grad", [True, False])
def test_operator_passes_opcheck(backend: str, needs_grad: bool) -> None:
    adj = matrix(5, 6, 12, seed=9)
    x = torch.randn(6, 3, requires_grad=needs_grad)
    turned = adj.transposed.csr if needs_grad else (None, None, None)
    torch.library.opcheck(torch.ops.gnnqlab.aggregate.default, (*adj.csr, *turned, x))


@pytest.mark.filterwarnings("ignore")  # warnings of the compiler
def test_compiled_layer_equals_eager() -> None:
    adj = matrix(6, 6, 12, seed=9)
    assert adj.transposed.num_rows == 6
    linear = torch.nn.Linear(3, 4)
    x = torch.randn(6, 3)

    def layer(rows: Tensor) -> Tensor:
        return torch.relu(aggregate(adj, linear(rows)))

    results = []
    for run in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager")):
        linear.zero_grad()
        out = run(x)
        out.sum().backward()
        results.append((out.detach(), linear.weight.grad.clone()))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_sparse_features_times_dense_weight(backend: str) -> None:
    features = matrix(40, 90, 150, seed=10)
    weight = torch.randn(90, 16, generator=torch.Generator().manual_seed(1), requires_grad=True)
    out = aggregate(features, weight)
    assert_summed(out.detach(), features, weight.detach())
    out.backward(torch.ones_like(out))
    assert_summed(weight.grad, features, torch.ones_like(out), transposed=True)


def test_quantized_rows_err_by_half_a_step() -> None:
    x = torch.randn(50, 33, generator=torch.Generator().manual_seed(1))
    x[3] = 0.0
    rows = quantize_rows(x)
    error = (rows.codes * rows.scales.unsqueeze(1) - x).abs()
    assert (error <= 0.5001 * rows.scales.unsqueeze(1)).all()
    assert rows.scales[3] == 0.0


def test_mistakes_are_explained() -> None:
    indptr, indices = torch.tensor([0, 1, 2]), torch.tensor([0, 1], dtype=torch.int32)
    with pytest.raises(ValueError, match=r"indices must be int32 .* use indices.int\(\)"):
        Adjacency(indptr, indices.long(), num_columns=2)
    with pytest.raises(ValueError, match="indptr must rise from 0 to the number of edges, 2, got 0 to 1"):
        Adjacency(torch.tensor([0, 1]), indices, num_columns=2)
    with pytest.raises(ValueError, match="indptr must rise"):
        Adjacency(torch.tensor([0, 3, 2]), indices, num_columns=2)
    with pytest.raises(ValueError, match=r"indices must be in \[0, 1\), got 0 to 1"):
        Adjacency(indptr, indices, num_columns=1)
    with pytest.raises(ValueError, match="weights must be float32, one for each of 2 edges"):
        Adjacency(indptr, indices, torch.ones(3), num_columns=2)
    with pytest.raises(ValueError, match="must be contiguous"):
        Adjacency(indptr, torch.zeros(4, dtype=torch.int32)[::2], num_columns=2)
    adj = Adjacency(indptr, indices, num_columns=2)
    with pytest.raises(ValueError, match="rows must satisfy"):
        spmm(adj, torch.ones(2, 1), rows=(1, 3))
    with pytest.raises(ValueError, match="together must have 2 rows, one per column, got 1 \\+ 2"):
        spmm(adj, torch.ones(1, 1), torch.ones(2, 1))
    with pytest.raises(ValueError, match="at most 2 rows"):
        spmm(adj, torch.ones(3, 1))
    with pytest.raises(ValueError, match="x must have 2 rows, one per column, got"):
        aggregate(adj, torch.ones(1, 1))  # the kernel would read beyond the row
    with pytest.raises(ValueError, match="halo must be like x"):
        spmm(adj, torch.ones(1, 1), torch.ones(1, 2))
    with pytest.raises(ValueError, match="int8 rows need their scales"):
        spmm(adj, torch.ones(2, 1, dtype=torch.int8))
    with pytest.raises(ValueError, match="out must be torch.float32"):
        spmm(adj, torch.ones(2, 1), out=torch.ones(2, 2))
    with pytest.raises(ValueError, match="accumulate adds to out"):
        spmm(adj, torch.ones(2, 1), accumulate=True)
    with native.use("reference"), pytest.raises(AssertionError, match="rows that were not given"):
        spmm(adj, torch.ones(1, 1))
