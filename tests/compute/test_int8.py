"""Products of integer codes, compared with float64 to within their steps; single quantization, and refusals."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.compute import Int8Products, Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.int8 import QuantizedProducts
from gnnqlab.compute.products import PassRows
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.quantize import largest_magnitude
from gnnqlab.kernels.sparse.aggregate import Adjacency
from tests.compute.test_products import EDGES, NODES, _random, _with_gradients

COLUMNS, OUT = 24, 5
ORDER = 2.0**-16
"""Float32 sums of a few hundred terms in any order, and codes of sixteen fractional bits times 127."""
CASES = [(scale, bits) for scale in ("row", "tensor") for bits in (8, 4)]


def _products(**settings) -> Products:
    products = Int8Products(**settings).build()
    products.begin(PassRows(torch.arange(NODES) + 7, 3, 1))
    return products


def _step(x: torch.Tensor, bits: int, scale: str) -> torch.Tensor:
    """Largest error of each element."""
    largest = x.abs().amax(1, keepdim=True) if scale == "row" else x.abs().amax()
    return largest.expand_as(x).double() / (2 ** (bits - 1) - 1) * (1 + ORDER)


@pytest.fixture
def adjacency() -> Adjacency:
    """Half of the rows have no edges."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(NODES // 2, (EDGES,), generator=generator) * 2
    indptr = torch.zeros(NODES + 1, dtype=torch.int64)
    indptr[1:] = torch.bincount(rows, minlength=NODES).cumsum(0)
    indices = torch.randint(NODES, (EDGES,), generator=generator).int()
    return Adjacency(indptr, indices, torch.rand(EDGES, generator=generator), num_columns=NODES)


def _within(found: torch.Tensor, exact: torch.Tensor, bound: torch.Tensor, least: float = 0.005) -> None:
    excess = (found.double() - exact).abs() - bound
    assert (excess <= 0).all(), f"off by {float(excess.max()):.3g} more than the bound"
    assert ((found.double() - exact).abs() > least * bound).any(), "nothing was rounded"


@pytest.mark.parametrize(("scale", "bits"), CASES)
def test_dense_products_and_their_gradients_stay_within_their_steps_of_float64(scale: str, bits: int) -> None:
    products, x, weight = _products(scale=scale, bits=bits), _random(NODES, COLUMNS), _random(COLUMNS, OUT, seed=1)
    x[3], x[5, 0] = 0.0, 9.0
    y, dx, dw = _with_gradients(lambda *each: products.linear(*each), x, weight)
    dy = _random(NODES, OUT, seed=9)
    off_x, off_w, off_dy = _step(x, bits, scale), _step(weight, bits, "tensor"), _step(dy, bits, scale)
    x, weight, dy = x.double(), weight.double(), dy.double()

    def bound(a, off_a, b, off_b):
        return (1 + ORDER) * (off_a @ b.abs() + a.abs() @ off_b + off_a @ off_b) + ORDER * (a.abs() @ b.abs())

    _within(y, x @ weight, bound(x, off_x, weight, off_w))
    _within(dx, dy @ weight.t(), bound(dy, off_dy, weight.t(), off_w.t()))
    _within(dw, x.t() @ dy, bound(x.t(), off_x.t(), dy, off_dy))


@pytest.mark.parametrize("scale", ["row", "tensor"])
def test_gradients_are_those_of_the_codes(scale: str) -> None:
    """``dX = dy W^T``, ``dW = X^T dy`` of the multiplied operands: no scale is missing or used twice."""
    products, x, weight = _products(scale=scale), _random(NODES, COLUMNS), _random(COLUMNS, OUT, seed=1)
    x.requires_grad_()
    y = products.linear(x, weight.requires_grad_())
    a, b = products.dense(products.operand(x)), products.dense(products.weight(weight))
    dy = _random(NODES, OUT, seed=9)
    y.backward(dy)
    c = products.dense(products.operand(dy))
    torch.testing.assert_close(y.detach(), (a.double() @ b.double()).float())
    torch.testing.assert_close(x.grad, (c.double() @ b.double().t()).float())
    sized = ORDER * (a.double().t().abs() @ c.double().abs())
    assert ((weight.grad - a.double().t() @ c.double()).abs() <= sized).all()


def test_gradients_of_many_roundings_are_unbiased() -> None:
    """Means of 300 epochs are within five standard errors of float64."""
    x, weight, dy = _random(NODES, COLUMNS), _random(COLUMNS, OUT, seed=1), _random(NODES, OUT, seed=9)
    products = Int8Products(bits=4).build()
    found = []
    for epoch in range(300):
        products.begin(PassRows(torch.arange(NODES), 3, epoch))
        found.append(_with_gradients(lambda *each: products.linear(*each), x, weight))
    for place, exact in enumerate((x.double() @ weight.double(), dy.double() @ weight.double().t())):
        each = torch.stack([one[place].double() for one in found])
        error = each.std(0) / 300**0.5
        assert float(((each.mean(0) - exact).abs() / error).max()) < 5.0


@pytest.mark.parametrize(("scale", "bits"), CASES)
def test_sums_over_edges_stay_within_a_step_of_float64(adjacency: Adjacency, scale: str, bits: int) -> None:
    products, x = _products(scale=scale, bits=bits), _random(NODES, COLUMNS)
    y, dx = _with_gradients(lambda each: products.aggregate(adjacency, each), x)
    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    rows = torch.repeat_interleave(torch.arange(NODES), adjacency.indptr.diff())
    matrix.index_put_((rows, adjacency.indices.long()), adjacency.weights.double(), accumulate=True)
    dy = _random(NODES, COLUMNS, seed=9)
    assert not y[1].any(), "a node without edges"
    _within(y, matrix @ x.double(), (1 + ORDER) * (matrix @ (_step(x, bits, scale) + ORDER * x.abs())))
    _within(dx, matrix.t() @ dy.double(), (1 + ORDER) * (matrix.t() @ (_step(dy, bits, scale) + ORDER * dy.abs())))


def test_no_edges_at_all() -> None:
    empty = Adjacency(torch.zeros(NODES + 1, dtype=torch.int64), torch.empty(0, dtype=torch.int32), num_columns=NODES)
    products = _products()
    y, dx = _with_gradients(lambda each: products.aggregate(empty, each), _random(NODES, COLUMNS))
    assert not y.any() and not dx.any()


@pytest.mark.parametrize("scale", ["row", "tensor"])
def test_products_by_rows_and_with_a_base(adjacency: Adjacency, scale: str) -> None:
    products = _products(scale=scale)
    x, weight, bias = _random(NODES, COLUMNS), _random(COLUMNS, OUT, seed=1), _random(OUT, seed=2)
    a, b = products.operand(x), products.weight(weight)
    whole = products.addmm(bias, a, b)
    torch.testing.assert_close(whole, products.dense(a) @ products.dense(b) + bias)
    out = torch.full((NODES, OUT), torch.nan)
    for rows in ((20, NODES), (0, 20)):
        products.addmm(bias, products.part(a, rows), b, out=out[rows[0] : rows[1]])
    assert torch.equal(out, whole)
    added = whole.clone()
    products.addmm(added, a, b, out=added)
    torch.testing.assert_close(added, whole + products.mm(a, b))
    y = products.operand(_random(NODES, OUT, seed=3))
    base = _random(COLUMNS, OUT, seed=4)
    sums = products.dense(a).t() @ products.dense(y)
    torch.testing.assert_close(products.mm(a, y, transposed="a"), sums)
    torch.testing.assert_close(products.addmm(base, a, y, transposed="a"), base + sums)
    torch.testing.assert_close(products.mm(y, b, transposed="b"), products.dense(y) @ products.dense(b).t())


def test_rows_that_come_bit_by_bit_have_the_same_codes() -> None:
    x = _random(NODES, COLUMNS)
    whole, products = _products().operand(x.clone()), _products()
    for rows in ((20, NODES), (0, 20)):
        grown = products.operand(x, rows)
    assert torch.equal(grown.codes, whole.codes) and torch.equal(grown.scales, whole.scales)
    assert products.operand(x) is grown and products.operand(x, (0, 20)) is grown
    assert products.quantized.num_quantized == x.numel()


def test_a_halo_row_has_its_owners_codes() -> None:
    x, rows = _random(NODES, COLUMNS), torch.tensor([40, 3, 17])
    products = _products()
    products.operand(x + 1.0)
    own = products.operand(x)
    halo = products.halo(x[rows], own, rows + 7)
    assert torch.equal(halo.codes, own.codes[rows])
    assert not torch.equal(products.halo(x[rows], own, rows).codes, halo.codes)


def test_operands_are_quantized_once_and_saved_as_codes(adjacency: Adjacency) -> None:
    """Three products of x and y: six uses forward, backward once more; each tensor is quantized once."""
    products, x = _products(), _random(NODES, COLUMNS).requires_grad_()
    weight = _random(COLUMNS, COLUMNS, seed=1).requires_grad_()
    y = products.linear(x, weight)
    assert [each.dtype for each in y.grad_fn.saved_tensors] == [torch.int8, torch.float32, torch.int8, torch.float32]
    (y + products.aggregate(adjacency, x)).backward(_random(NODES, COLUMNS, seed=9))
    rows, square = x.numel(), weight.numel()
    assert (
        products.quantized.num_quantized == 2 * rows + square
    )  # x, w, the gradient of y and of the sum, which is the same
    assert products.quantized.num_used == 2 * rows + square + 3 * rows + rows + square
    assert products.quantized.avoided == 4 * rows + square


@pytest.mark.parametrize("exact_logits", [True, False])
def test_attention_is_that_of_the_codes(adjacency: Adjacency, exact_logits: bool) -> None:
    products, z = _products(exact_logits=exact_logits), _random(NODES, 3, 8)
    vectors = _random(3, 8, seed=1) / 3, _random(3, 8, seed=2) / 3
    found = _with_gradients(lambda *each: products.attend(adjacency, *each), z, *vectors)
    exact = _with_gradients(lambda *each: PLAIN.attend(adjacency, *each), z.double(), *[v.double() for v in vectors])
    for ours, truth in zip(found, exact, strict=True):
        assert 1e-4 < float((ours - truth).norm() / truth.norm()) < 0.05


def test_halves_of_logits_are_rounded_only_where_they_may_be(adjacency: Adjacency) -> None:
    z, vectors = _random(NODES, 3, 8), (_random(3, 8, seed=1), _random(3, 8, seed=2))
    assert _products().of_logits is PLAIN and _products(exact_logits=False).exact.of_logits is PLAIN
    for exact_logits in (True, False):
        products, other = _products(exact_logits=exact_logits), _products()
        found = products.attend(adjacency, z, *vectors)
        halves = [(z * vector).sum(-1) for vector in vectors]
        if not exact_logits:
            halves = [other.dense(other.operand(half)) for half in halves]
        assert torch.equal(found, other.attend_rows(adjacency, other.operand(z), *halves)[0])
        assert products.quantized.num_quantized == z.numel() + (0 if exact_logits else 2 * NODES * 3)


def test_the_layer_before_the_loss_is_a_setting() -> None:
    assert Int8Products().build().exact is PLAIN
    products = Int8Products(exact_classifier=False).build()
    assert products.exact is products


def test_zero_rows_and_wide_sums() -> None:
    products = QuantizedProducts()
    assert not products.linear(torch.zeros(3, 4), torch.ones(4, 2)).any()
    assert not products.linear(torch.ones(3, 4), torch.zeros(4, 2)).any()
    wide = torch.ones(2, 70_000)
    assert torch.equal(products.linear(wide, torch.ones(70_000, 1)), torch.full((2, 1), 70_000.0))


def test_invalid_settings_and_non_finite_rows_raise_errors() -> None:
    for settings, text in (
        ({"bits": 1}, "bits must be one of"),
        ({"scale": "column"}, "scale must be one of"),
        ({"rounding": "up"}, "rounding must be one of"),
    ):
        with pytest.raises(ValueError, match=text):
            Int8Products(**settings)
    with pytest.raises(NonFiniteRow, match="row 1"):
        QuantizedProducts().linear(torch.tensor([[1.0], [torch.inf]]), torch.ones(1, 1))


def test_product_stores_the_scale_of_its_result_for_quantization(monkeypatch) -> None:
    x, weight = _random(NODES, COLUMNS), _random(COLUMNS, 12, seed=1)
    looks = []

    def look(rows: torch.Tensor) -> torch.Tensor:
        looks.append(tuple(rows.shape))
        return largest_magnitude(rows)

    monkeypatch.setattr("gnnqlab.kernels.codec.quantize.largest_magnitude", look)
    products = _products(scale="tensor")
    z = products.linear(x.requires_grad_(), weight.requires_grad_())
    codes = products.operand(z.view(NODES, 3, 4))  # as attention takes it, rows by head
    assert (NODES, 12) not in looks and looks
    alone = _products(scale="tensor").operand(z.detach().clone().view(NODES, 3, 4))
    assert looks[-1] == (NODES, 12) and torch.equal(codes.scales, alone.scales)
    with torch.no_grad():
        z += 1
    products.operand(z)
    assert looks.count((NODES, 12)) == 2, "a tensor written since has a scale of its own"
    by_row = _products()
    looks.clear()
    by_row.operand(by_row.linear(x, weight))
    assert (NODES, 12) not in looks


def test_non_finite_row_is_detected_when_the_product_stored_its_scale() -> None:
    products, x = _products(scale="tensor"), _random(NODES, COLUMNS)
    product = products.linear(x, _random(COLUMNS, 12, seed=1))
    products._largest.store(product, torch.tensor(torch.nan))
    product.data[5, 3] = torch.nan
    with pytest.raises(NonFiniteRow, match="row 5"):
        products.operand(product)


def test_a_weight_with_one_row_for_each_node_has_the_same_codes_on_every_worker() -> None:
    weight = _random(NODES, OUT, seed=1)
    codes = []
    for nodes in (torch.arange(NODES) + 7, torch.arange(NODES + 1)):  # two workers, the first with NODES nodes
        products = Int8Products(bits=4).build()
        products.begin(PassRows(nodes, 3, 1))
        codes.append(products.weight(weight).codes)
    assert torch.equal(*codes)
