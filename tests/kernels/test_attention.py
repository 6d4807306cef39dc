"""Attention over edges: native compared with float64, instruction sets, halo, row and column ranges, determinism."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.attention import (
    attend,
    attend_columns,
    attend_rows,
    pack_rows,
    sddmm_add,
    sddmm_dot,
    segment_softmax,
    segment_sum,
    weighted_sum,
)
from tests.cases import each
from tests.kernels.backends import AVAILABLE

SHAPES = [(1, 1), (1, 5), (2, 8), (3, 17), (4, 64), (8, 8), (1, 150), (1, 602), (2, 300)]


class Case:
    """Random operands: 12 owned and 5 halo columns, 10 rows of which the last has no edges."""

    def __init__(
        self,
        heads: int,
        features: int,
        *,
        seed: int = 0,
        owned: int = 12,
        halo: int = 5,
        rows: int = 10,
        edges: int = 90,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        edges = 0 if rows < 2 or owned + halo == 0 else edges
        row_of = torch.randint(0, max(rows - 1, 1), (edges,), generator=generator)
        indptr = torch.zeros(rows + 1, dtype=torch.int64)
        indptr[1:] = torch.bincount(row_of, minlength=rows).cumsum(0)[:rows]
        indices = torch.randint(0, max(owned + halo, 1), (edges,), generator=generator, dtype=torch.int32)
        self.adj = Adjacency(indptr, indices, num_columns=owned + halo)
        draw = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
        self.values, self.halo_values = draw(owned, heads, features), draw(halo, heads, features)
        self.source, self.halo_source, self.target = draw(owned, heads), draw(halo, heads), draw(rows, heads)
        self.grad, self.weights = draw(rows, heads, features), draw(edges, heads)

    def operands(self, dtype: torch.dtype) -> list[Tensor]:
        given = (self.values, self.source, self.target, self.halo_values, self.halo_source)
        return [tensor.to(dtype, copy=True).requires_grad_() for tensor in given]

    def attended(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Return sums and the five gradients."""
        operands = self.operands(dtype)
        out = attend(self.adj, *operands)
        return [out.detach(), *torch.autograd.grad(out, operands, self.grad.to(dtype))]

    def by_parts(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Compute another attention from the parts, and all its gradients."""
        values, source, target, halo_values, halo_source = self.operands(dtype)
        weights, y = (tensor.to(dtype, copy=True).requires_grad_() for tensor in (self.weights, self.grad))
        logits = sddmm_add(self.adj, source, target, halo_source) + 0.1 * sddmm_dot(self.adj, values, y, halo_values)
        out = weighted_sum(self.adj, segment_softmax(self.adj, logits) * weights, values, halo_values)
        leaves = [values, source, target, halo_values, halo_source, weights, y]
        return [out.detach(), *torch.autograd.grad(out, leaves, self.grad.to(dtype))]


def assert_near(got: list[Tensor], exact: list[Tensor]) -> None:
    """Compare to 1e-5 of the operands' scale: sums of up to 90 edges and 602 features of magnitude 1, rounded at
    2^-24 each, err by about sqrt(602 * 90) * 6e-8 = 1.4e-5 of the largest element, which is itself above 1."""
    for ours, truth in zip(got, exact, strict=True):
        assert ours.dtype == torch.float32
        scale = max(1.0, float(truth.abs().max())) if truth.numel() else 1.0
        assert (ours.double() - truth).abs().le(2e-5 * scale).all()


@each(("heads", "features"), SHAPES)
def test_attention_and_its_gradients(backend: str, heads: int, features: int) -> None:
    case = Case(heads, features, seed=heads + features)
    exact = case.attended(torch.float64)
    got = case.attended()
    assert_near(got, exact)
    assert (got[0][-1] == 0).all()  # no edges: zeros
    assert (got[3][-1] == 0).all()


@each(("heads", "features"), SHAPES)
def test_parts_and_their_gradients(backend: str, heads: int, features: int) -> None:
    case = Case(heads, features, seed=heads + features)
    assert_near(case.by_parts(), case.by_parts(torch.float64))


def test_gradient_checks_in_float64() -> None:
    case = Case(2, 3, owned=4, halo=2, rows=4, edges=9)
    operands = case.operands(torch.float64)
    assert torch.autograd.gradcheck(lambda *tensors: attend(case.adj, *tensors), operands, fast_mode=True)


@given(
    heads=st.integers(1, 5),
    features=st.integers(1, 40),
    owned=st.integers(0, 12),
    halo=st.integers(0, 6),
    rows=st.integers(0, 12),
    edges=st.integers(0, 120),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=30)
def test_random_graphs(heads: int, features: int, owned: int, halo: int, rows: int, edges: int, seed: int) -> None:
    case = Case(heads, features, seed=seed, owned=owned, halo=halo, rows=rows, edges=edges)
    assert_near(case.attended(), case.attended(torch.float64))
    assert_near(case.by_parts(), case.by_parts(torch.float64))


def test_attention_sums_to_one_and_is_stable(backend: str) -> None:
    case = Case(2, 1)
    ones, halo_ones = torch.ones(12, 2, 1), torch.ones(5, 2, 1)
    for scale in (1.0, 50.0, 1e4, 1e30):
        out = attend(case.adj, ones, case.source * scale, case.target * scale, halo_ones, case.halo_source * scale)
        assert torch.allclose(out[:-1], torch.ones(9, 2, 1), atol=1e-6)


def test_non_finite_values_are_not_hidden(backend: str) -> None:
    case = Case(1, 4)
    broken = int(case.adj.indices[0])
    case.source = torch.cat((case.source, case.halo_source))
    case.source[broken] = torch.nan
    values = torch.cat((case.values, case.halo_values))
    assert attend(case.adj, values, case.source, case.target)[0].isnan().all()


def test_halo_equals_one_buffer(backend: str) -> None:
    case = Case(3, 20)
    values, source = torch.cat((case.values, case.halo_values)), torch.cat((case.source, case.halo_source))
    whole = attend(case.adj, values, source, case.target)
    wide = torch.full((5, 64), torch.nan)  # rows further apart than they are long
    wide[:, :60] = case.halo_values.flatten(1)
    halo = wide[:, :60].unflatten(1, (3, 20))
    assert torch.equal(attend(case.adj, case.values, case.source, case.target, halo, case.halo_source), whole)


def test_row_and_column_ranges_make_the_whole(backend: str) -> None:
    """As in distributed training: rows in two steps, separate owned and halo gradients, target gradients last."""
    case = Case(2, 7)
    sources = (case.values, case.source, case.target, case.halo_values, case.halo_source)
    parts = [attend_rows(case.adj, *sources, rows=rows) for rows in ((0, 4), (4, 4), (4, 10))]
    out, stats = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    packed = pack_rows(case.target, stats, case.grad, out)
    edge_grads = torch.full((case.adj.num_edges, 2), torch.nan)
    halo = attend_columns(case.adj, case.halo_values, case.halo_source, packed, case.grad, edge_grads, columns=(12, 17))
    owned = attend_columns(case.adj, case.values, case.source, packed, case.grad, edge_grads, columns=(0, 12))
    got = [out, *owned, segment_sum(case.adj, edge_grads), *halo]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(got, case.attended(), strict=True))


@pytest.mark.skipif(not AVAILABLE, reason="compiled kernels are not built")
def test_same_bits_for_any_threads_and_repeats() -> None:
    case = Case(4, 16, owned=2000, halo=100, rows=1500, edges=60_000)
    before, seen = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 2):
            torch.set_num_threads(threads)
            seen.append(case.attended() + case.by_parts())
    finally:
        torch.set_num_threads(before)
    for other in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], other, strict=True))


def test_mistakes_are_explained() -> None:
    case = Case(2, 3)
    arguments = (case.values, case.source, case.target, case.halo_values, case.halo_source)
    with pytest.raises(ValueError, match=r"slope must be in \(0, 1\], got 0"):
        attend(case.adj, *arguments, slope=0)
    with pytest.raises(ValueError, match="together must have 17 rows, one per column, got 12 \\+ 0"):
        attend(case.adj, *arguments[:3])
    with pytest.raises(ValueError, match="must be given together"):
        attend(case.adj, *arguments[:4])
    with pytest.raises(ValueError, match=r"source_logits must be torch.float32 of shape \(12, 2\)"):
        attend(case.adj, case.values, case.source[:3], *arguments[2:])
    with pytest.raises(ValueError, match="values must be float32 of shape"):
        attend(case.adj, case.values.bfloat16(), *arguments[1:])
    with pytest.raises(ValueError, match="rows must satisfy"):
        attend_rows(case.adj, *arguments, rows=(3, 11))


@each("halo", [True, False])
@each("needs_grad", [True, False])
def test_operator_passes_opcheck(backend: str, halo: bool, needs_grad: bool) -> None:
    case = Case(2, 3, halo=5 if halo else 0)
    operands = [tensor.detach().requires_grad_(needs_grad) for tensor in case.operands(torch.float32)]
    if not halo:
        operands[3:] = [None, None]
    turned = case.adj.transposed
    matrix = (case.adj.indptr, case.adj.indices, turned.indptr, turned.indices, case.adj.transposed_edges)
    torch.library.opcheck(torch.ops.gnnqlab.attend.default, (*matrix, *operands, 0.2))
    plain = [None if operand is None else operand.detach() for operand in operands]
    out, stats = torch.ops.gnnqlab.attend(*matrix, *plain, 0.2)
    backward = (*matrix, *plain, out, stats, torch.ones_like(out), 0.2)
    torch.library.opcheck(torch.ops.gnnqlab.attend_backward.default, backward)


@pytest.mark.filterwarnings("ignore")  # warnings of the compiler
@each("halo", [True, False])
def test_compiled_attention_equals_eager(halo: bool) -> None:
    case = Case(2, 3, halo=5 if halo else 0)
    assert case.adj.transposed_edges.numel() == case.adj.num_edges

    def layer(*operands: Tensor) -> Tensor:
        return torch.relu(attend(case.adj, *operands))

    results = []
    for run in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager")):
        operands = case.operands(torch.float32)[: 5 if halo else 3]
        out = run(*operands)
        results.append((out.detach(), *torch.autograd.grad(out, operands, case.grad)))
    for eager, compiled in zip(*results):
        assert torch.equal(eager, compiled)
