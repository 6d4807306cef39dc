"""Products in every precision, compared with float64; operands that are made once, and tensors saved by autograd."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.compute import BFloat16Rows, Float32Products, Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.kernels.sparse import aggregate as sparse
from gnnqlab.kernels.sparse.aggregate import Adjacency
from tests.compute.int8_rows import Int8Rows

U = 2.0**-8
"""Largest relative change by rounding to bfloat16: eight significant bits, to nearest."""
ORDER = 2.0**-18
"""Float32 sums of a few hundred terms in any order, and a float32 softmax."""
NODES, EDGES, COLUMNS, HEADS, FEATURES = 50, 300, 24, 3, 8


@pytest.fixture
def adjacency() -> Adjacency:
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(NODES, (EDGES,), generator=generator)
    indptr = torch.zeros(NODES + 1, dtype=torch.int64)
    indptr[1:] = torch.bincount(rows, minlength=NODES).cumsum(0)
    indices = torch.randint(NODES, (EDGES,), generator=generator).int()
    return Adjacency(indptr, indices, torch.rand(EDGES, generator=generator), num_columns=NODES)


def _random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _with_gradients(function, *inputs: torch.Tensor, seed: int = 9) -> tuple[torch.Tensor, ...]:
    """Return the result of a function of tensors, and their gradients for a fixed random gradient of the result."""
    inputs = tuple(each.detach().requires_grad_() for each in inputs)
    out = function(*inputs)
    out.backward(_random(*out.shape, seed=seed).to(out.dtype))
    return out.detach(), *(each.grad for each in inputs)


def _within(found: torch.Tensor, exact: torch.Tensor, bound: torch.Tensor) -> None:
    assert found.dtype == torch.float32
    excess = (found.double() - exact).abs() - bound
    assert (excess <= 0).all(), f"off by {float(excess.max()):.3g} more than the bound"
    assert ((found.double() - exact).abs() > ORDER * bound).any(), "nothing was rounded"


def test_dense_products_stay_within_two_roundings_of_float64() -> None:
    products, x, weight = BFloat16Rows().build(), _random(NODES, COLUMNS), _random(COLUMNS, 5, seed=1)
    y, dx, dw = _with_gradients(lambda *each: products.linear(*each), x, weight)
    x, weight, dy = x.double(), weight.double(), _random(NODES, 5, seed=9).double()
    two = 2 * U + U * U + ORDER
    _within(y, x @ weight, two * (x.abs() @ weight.abs()))
    _within(dx, dy @ weight.t(), two * (dy.abs() @ weight.t().abs()))
    _within(dw, x.t() @ dy, two * (x.t().abs() @ dy.abs()))


def test_affine_is_the_linear_product_and_a_float32_base() -> None:
    products, x, weight, base = BFloat16Rows().build(), _random(9, 4), _random(4, 4, seed=1), _random(9, 4, seed=2)
    y, dbase, dx, dw = _with_gradients(lambda *each: products.affine(*each, beta=0.3, alpha=0.7), base, x, weight)
    plain = _with_gradients(lambda *each: products.linear(*each), x, weight, seed=9)
    torch.testing.assert_close(y, 0.3 * base + 0.7 * plain[0])
    torch.testing.assert_close(dbase, 0.3 * _random(9, 4, seed=9))
    scale = _random(9, 4, seed=9).abs().mean()
    torch.testing.assert_close(dx, 0.7 * plain[1], rtol=0, atol=float(4 * U * scale * weight.abs().sum(0).max()))
    assert dw.shape == weight.shape


def test_sums_over_edges_stay_within_one_rounding_of_float64(adjacency: Adjacency) -> None:
    products, x = BFloat16Rows().build(), _random(NODES, COLUMNS)
    y, dx = _with_gradients(lambda each: products.aggregate(adjacency, each), x)
    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    rows = torch.repeat_interleave(torch.arange(NODES), adjacency.indptr.diff())
    matrix.index_put_((rows, adjacency.indices.long()), adjacency.weights.double(), accumulate=True)
    x, dy = x.double(), _random(NODES, COLUMNS, seed=9).double()
    _within(y, matrix @ x, (U + ORDER) * (matrix @ x.abs()))
    _within(dx, matrix.t() @ dy, (U + ORDER) * (matrix.t() @ dy.abs()))


def test_attention_stays_within_two_roundings_of_float64(adjacency: Adjacency) -> None:
    """Attention w comes from float32 logits, so values are rounded in ``w z``, and z and dy in the gradients.

    ``dlogit = w (<dy, z> - <dy, out>)``: two roundings in each half. They enter dz and the gradients of both vectors.
    """
    products = BFloat16Rows().build()
    z, a_source, a_target = (
        _random(NODES, HEADS, FEATURES),
        _random(HEADS, FEATURES, seed=1) / 3,
        _random(HEADS, FEATURES, seed=2) / 3,
    )
    found = _with_gradients(lambda *each: products.attend(adjacency, *each), z, a_source, a_target)
    z, a_source, a_target, dy = z.double(), a_source.double(), a_target.double(), _random(*z.shape, seed=9).double()
    exact = _with_gradients(lambda *each: PLAIN.attend(adjacency, *each), z, a_source, a_target)
    rows = torch.repeat_interleave(torch.arange(NODES), adjacency.indptr.diff())
    columns = adjacency.indices.long()
    source, target = (z * a_source).sum(-1), (z * a_target).sum(-1)
    weight = torch.exp(torch.nn.functional.leaky_relu(source[columns] + target[rows], 0.2))
    weight = weight / torch.zeros(NODES, HEADS, dtype=torch.float64).index_add_(0, rows, weight)[rows]
    zero, size, dy = torch.zeros_like(z), z.abs(), dy.abs()
    sums = zero.index_add(0, rows, weight.unsqueeze(-1) * size[columns])
    _within(found[0], exact[0], (U + ORDER) * sums)
    edges = (2 * U + U * U + ORDER) * weight * ((dy[rows] * size[columns]).sum(-1) + (dy[rows] * sums[rows]).sum(-1))
    off_source, off_target = (
        torch.zeros_like(source).index_add(0, ends, edges).unsqueeze(-1) for ends in (columns, rows)
    )
    bound = (U + ORDER) * zero.index_add(0, columns, weight.unsqueeze(-1) * dy[rows])
    _within(found[1], exact[1], bound + (1 + ORDER) * (off_source * a_source.abs() + off_target * a_target.abs()))
    for place, off in ((2, off_source), (3, off_target)):  # d_a = sum of dlogit z, both off, dlogit <= off / 2u
        _within(found[place], exact[place], ((off + off / 2) * (1 + U) * size).sum(0))


@pytest.mark.parametrize("rows", [NODES, 1500])
def test_rows_mixed_with_their_own_product_are_those_of_float64(rows: int) -> None:
    products, x, weight = Float32Products().build(), _random(rows, COLUMNS), _random(COLUMNS, COLUMNS, seed=1)

    def plain(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return 0.4 * x + 0.6 * x @ weight

    found = _with_gradients(lambda *each: products.mixed(*each, beta=0.4, alpha=0.6), x, weight)
    expected = _with_gradients(plain, x.double(), weight.double())
    for ours, exact in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - exact).abs().max() <= 1e-6 * exact.abs().max()


def test_float32_is_pytorch_and_the_kernels_bit_for_bit(adjacency: Adjacency) -> None:
    products = Float32Products().build()
    x, weight, bias = _random(NODES, COLUMNS), _random(COLUMNS, COLUMNS, seed=1), _random(COLUMNS, seed=2)
    pairs = [
        (lambda x, w, b: products.linear(x, w, b), lambda x, w, b: x @ w + b, (x, weight, bias)),
        (
            lambda x, w: products.mixed(x, w, beta=0.4, alpha=0.6),  # few rows
            lambda x, w: torch.addmm(x, x, w, beta=0.4, alpha=0.6),
            (x, weight),
        ),
        (lambda x: products.aggregate(adjacency, x), lambda x: sparse.aggregate(adjacency, x), (x,)),
    ]
    for ours, theirs, inputs in pairs:
        for found, expected in zip(_with_gradients(ours, *inputs), _with_gradients(theirs, *inputs), strict=True):
            assert torch.equal(found, expected)
    assert products.operand(x) is x and products.operand(x, rows=(0, 3)) is x and products.exact is products
    out = torch.empty(7, COLUMNS)
    assert torch.equal(
        products.addmm(bias, products.part(x, (3, 10)), weight, out=out), torch.addmm(bias, x[3:10], weight)
    )


@pytest.mark.parametrize("part", [Float32Products(), BFloat16Rows(), Int8Rows()])
def test_products_by_rows_into_a_given_matrix(part, adjacency: Adjacency) -> None:
    products: Products = part.build()
    x, weight, bias = _random(NODES, COLUMNS), _random(COLUMNS, 5, seed=1), _random(5, seed=2)
    a, b = products.operand(x), products.operand(weight)
    whole = products.addmm(bias, a, b)
    out = torch.full((NODES, 5), torch.nan)
    for rows in ((20, NODES), (0, 20)):
        products.addmm(bias, products.part(a, rows), b, out=out[rows[0] : rows[1]])
    torch.testing.assert_close(out, whole)
    torch.testing.assert_close(products.mm(a, b) + bias, whole)
    torch.testing.assert_close(products.addmm(whole.clone(), a, b), whole + products.mm(a, b))
    added = whole.clone()
    products.addmm(added, a, b, out=added)
    torch.testing.assert_close(added, whole + products.mm(a, b))
    y = products.operand(_random(NODES, 5, seed=3))
    torch.testing.assert_close(products.mm(a, y, transposed="a"), products.dense(a).t() @ products.dense(y))
    torch.testing.assert_close(products.mm(y, b, transposed="b"), products.dense(y) @ products.dense(b).t())
    halo = _random(10, COLUMNS, seed=4)
    split = products.spmm(adjacency, products.operand(x[:-10].clone()), products.operand(halo), rows=(5, 30))
    joined = products.spmm(adjacency, torch.cat([x[:-10], halo]))[5:30]
    torch.testing.assert_close(split, joined)


@pytest.mark.parametrize("part", [BFloat16Rows(), Int8Rows()])
def test_an_operand_is_made_once_a_pass(part) -> None:
    products = part.build()
    x = _random(6, 4)
    first = products.operand(x)
    assert products.operand(x) is first and products.operand(first) is first
    x.mul_(2)
    again = products.operand(x)
    assert again is not first, "the tensor has changed since"
    products.begin()
    assert products.operand(x) is not again
    assert len(products._known) == 1
    del x
    assert len(products._known) == 0, "an operand outlives its tensor"


@pytest.mark.parametrize("part", [BFloat16Rows(), Int8Rows()])
def test_an_operand_grows_by_rows(part) -> None:
    products = part.build()
    x = _random(6, 4)
    whole = products.dense(products.operand(x.clone()))
    rest = x[:4].clone()
    x[:4] = torch.nan
    part_of = products.operand(x, rows=(4, 6))
    assert torch.equal(products.dense(part_of)[4:], whole[4:])
    x[:4] = rest
    assert products.operand(x, rows=(0, 4)) is part_of
    assert products.operand(x) is part_of
    assert torch.equal(products.dense(part_of), whole)


def test_an_unfinished_operand_is_not_taken_for_the_whole() -> None:
    products = BFloat16Rows().build()
    x = _random(6, 4)
    products.operand(x, rows=(4, 6))
    assert torch.equal(products.operand(x), x.bfloat16())


def test_autograd_keeps_the_operand_and_not_the_rows(adjacency: Adjacency) -> None:
    products = BFloat16Rows().build()
    x, weight = _random(NODES, COLUMNS).requires_grad_(), _random(COLUMNS, 4, seed=1).requires_grad_()
    y = products.linear(x, weight)
    assert [(each.dtype, each.shape) for each in y.grad_fn.saved_tensors] == [
        (torch.bfloat16, x.shape),
        (torch.bfloat16, weight.shape),
    ]
    assert y.grad_fn.saved_tensors[0].data_ptr() == products.operand(x).data_ptr()
    y.sum().backward()
    with pytest.raises(RuntimeError, match="freed"):
        y.sum().backward()


def test_operands_of_several_tensors_are_prepared_once_and_reused(adjacency: Adjacency) -> None:
    products = Int8Rows().build()
    x, weight = _random(NODES, COLUMNS), _random(COLUMNS, 4, seed=1)
    y, dx, dw = _with_gradients(lambda *each: products.linear(*each), x, weight)
    assert products.prepared == [x.shape, weight.shape, y.shape]
    dy = _random(NODES, 4, seed=9)
    torch.testing.assert_close(dx, products.dense(products.operand(dy)) @ products.dense(products.operand(weight)).t())
    torch.testing.assert_close(dw, products.dense(products.operand(x)).t() @ products.dense(products.operand(dy)))
    summed, _ = _with_gradients(lambda each: products.aggregate(adjacency, each), x)
    scale = x.abs().amax(1, keepdim=True) / 127 / 2
    bound = sparse.spmm(adjacency, scale.expand_as(x).contiguous())
    assert ((summed - sparse.spmm(adjacency, x)).abs() <= bound * 1.001 + 1e-6).all()


def test_exact_products_equal_float32_products() -> None:
    products, x, weight = BFloat16Rows().build(), _random(9, 4), _random(4, 2, seed=1)
    assert torch.equal(products.exact.linear(x, weight), x @ weight)
    assert not torch.equal(products.linear(x, weight), x @ weight)
