"""EXACT's codes: their bytes, random errors only, and a forward pass that does not use them."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.compute import ExactActivations
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.packed import Counter, PackedRows, kept_bytes, pack, projection
from gnnqlab.compute.products import PassRows
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.rowwise.signs import pack_positive, unpack_positive

DRAWS = 400
SIGMAS = 5.0
"""Means of this many draws are within that many of their standard deviations."""


def _random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _counter(epoch: int = 0) -> Counter:
    return Counter(3, epoch, stream("kept", 0))


def _open(products, rows: int, epoch: int = 0, **more) -> None:
    products.begin(PassRows(torch.arange(rows), 3, epoch, more.pop("training", True), **more))


@pytest.mark.parametrize(("columns", "bits", "ratio"), [(13, 1, 1.0), (13, 2, 0.4), (64, 4, 0.125), (5, 8, 1.0)])
def test_bytes_are_the_formula(columns: int, bits: int, ratio: float) -> None:
    packed = pack(_random(7, columns), torch.arange(7), bits=bits, counter=_counter(), ratio=ratio)
    kept = -(-columns * ratio // 1)
    assert packed.nbytes == kept_bytes(7, columns, bits=bits, ratio=ratio) == 7 * (-(-kept * bits // 8) + 4)
    assert packed.payload.untyped_storage().nbytes() + packed.params.untyped_storage().nbytes() == packed.nbytes


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_codes_err_by_chance_alone_and_less_than_a_step(bits: int) -> None:
    x, ids = _random(20, 9), torch.arange(20)
    draws = torch.stack([pack(x, ids, bits=bits, counter=_counter(epoch)).dense() for epoch in range(DRAWS)]).double()
    step = (x.amax(1) - x.amin(1)) / (2**bits - 1) * (1 + 2.0**-6)  # bfloat16, outwards
    assert ((draws - x).abs() <= step[:, None]).all()
    assert (draws.var(0) > 0).any()
    assert ((draws.mean(0) - x).abs() <= SIGMAS * step[:, None] / 2 / DRAWS**0.5).all()


def test_projected_rows_err_by_chance_alone() -> None:
    """Variance of an element of ``(x R) R^T``: below ``|x|^2 / k``, and of its rounding ``S^2 / 4`` times D / k."""
    x, ids, columns = _random(4, 32), torch.arange(4), 8
    draws = [pack(x, ids, bits=8, counter=_counter(epoch), ratio=0.25) for epoch in range(DRAWS)]
    assert all(each.columns == columns and each.projected for each in draws)
    dense = torch.stack([each.dense() for each in draws]).double()
    step = max(float(each.params[:, 1].max()) for each in draws)
    deviation = (x.square().sum(1) / columns + step**2).sqrt()
    assert ((dense.mean(0) - x).abs() <= SIGMAS * deviation[:, None] / DRAWS**0.5).all()
    spread = dense.sub(x).square().sum(-1).mean(0) / (31 / columns * x.square().sum(1))
    assert ((spread - 1).abs() < 0.2).all(), "E |x' - x|^2 = ((D - 1) / k) |x|^2"
    of_columns = projection(32, columns, _counter())
    assert torch.equal(of_columns.abs(), torch.full((32, columns), columns**-0.5))
    assert not torch.equal(of_columns, projection(32, columns, _counter(1)))


def test_noise_is_a_rows_own() -> None:
    x, ids = _random(6, 5), torch.tensor([4, 9, 2, 7, 1, 0])
    whole, part = (pack(x[rows], ids[rows], bits=2, counter=_counter()).dense() for rows in (slice(6), slice(2, 5)))
    assert torch.equal(whole[2:5], part)
    assert not torch.equal(whole, pack(x, ids + 1, bits=2, counter=_counter()).dense())


def test_constant_rows_come_back_and_rows_that_are_not_finite_are_named() -> None:
    x = torch.full((3, 4), 1.5)
    assert torch.equal(pack(x, torch.arange(3), bits=1, counter=_counter()).dense(), x)
    x[1, 2] = torch.nan
    with pytest.raises(NonFiniteRow, match="row 1"):
        pack(x, torch.arange(3), bits=1, counter=_counter())


@pytest.mark.parametrize("shape", [(3, 5), (8, 8), (1, 1), (0, 4)])
def test_signs_come_back(shape: tuple[int, int]) -> None:
    x = _random(*shape)
    packed = pack_positive(x)
    assert packed.dtype == torch.uint8 and packed.numel() == -(-x.numel() // 8)
    assert torch.equal(unpack_positive(packed, x.shape), x > 0)


@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_gradients_of_products_are_unbiased(ratio: float) -> None:
    """``dw = x'^T dy`` with the variance of x'; ``dx = dy w^T`` is exact, and so is the result."""
    products = ExactActivations(bits=2, ratio=ratio).build()
    x, weight, base = _random(30, 16), _random(16, 4, seed=1), _random(30, 4, seed=2)
    dy, found = _random(30, 4, seed=9), []
    for epoch in range(DRAWS):
        _open(products, 30, epoch)
        inputs = [each.clone().requires_grad_() for each in (base, x, weight)]
        y = products.affine(*inputs, beta=0.3, alpha=0.7)
        assert torch.equal(y, torch.addmm(base, x, weight, beta=0.3, alpha=0.7))
        y.backward(dy)
        torch.testing.assert_close(inputs[0].grad, 0.3 * dy)
        torch.testing.assert_close(inputs[1].grad, 0.7 * dy @ weight.t())
        found.append(inputs[2].grad.double())
    draws, exact = torch.stack(found), 0.7 * x.double().t() @ dy.double()
    assert (draws.std(0) > 0).all(), "nothing was saved in codes"
    assert ((draws.mean(0) - exact).abs() <= SIGMAS * draws.std(0) / DRAWS**0.5).all()


def test_eight_bits_are_within_a_step_of_float32() -> None:
    products = ExactActivations().build()
    x, weight, dy = _random(30, 16), _random(16, 4, seed=1).requires_grad_(), _random(30, 4, seed=9)
    _open(products, 30)
    products.linear(x, weight).backward(dy)
    step = (x.amax(1) - x.amin(1)) / 255 * (1 + 2.0**-6)
    bound = (step[:, None] * dy.abs()).sum(0)
    assert ((weight.grad - x.t() @ dy).abs() <= bound).all()


def test_a_rectifier_keeps_a_bit_and_its_gradient_is_exact() -> None:
    products = ExactActivations(bits=1).build()
    _open(products, 30)
    x, dy = _random(30, 16), _random(30, 16, seed=1)
    x[0, 0] = 0.0
    for rectify in (torch.relu, torch.nn.functional.relu, lambda each: torch.nn.functional.relu(each, inplace=True)):
        leaf = x.clone().requires_grad_()
        y = products.rowwise(rectify, leaf * 1.0)
        assert torch.equal(y, x.relu())
        assert [each.nbytes for each in y.grad_fn.saved_tensors] == [30 * 16 // 8]
        y.backward(dy)
        assert torch.equal(leaf.grad, dy * (x > 0))


def test_layer_norm_is_off_by_no_more_than_its_rounding() -> None:
    """``dx = r (g - mean g - n mean(g n))``; n' is off by a step s: ``r (s mean|g n| + (|n| + s) s mean|g|)``."""
    products, norm = ExactActivations(bits=8).build(), torch.nn.LayerNorm(16)
    norm.weight.data, norm.bias.data = _random(16, seed=3), _random(16, seed=4)
    _open(products, 30)
    x, dy = _random(30, 16).requires_grad_(), _random(30, 16, seed=1)
    y = products.rowwise(norm, x)
    assert torch.equal(y, norm(x))
    kept = sum(each.nbytes for each in y.grad_fn.saved_tensors if each is not norm.weight and each is not norm.bias)
    assert kept == kept_bytes(30, 16, bits=8) + 30 * 8
    y.backward(dy)
    found, of_weight, of_bias = x.grad.double(), norm.weight.grad.double(), norm.bias.grad.clone()
    rows, weight = x.detach().double().requires_grad_(), norm.weight.detach().double().requires_grad_()
    exact = torch.nn.functional.layer_norm(rows, (16,), weight, norm.bias.detach().double())
    exact.backward(dy.double())
    values = x.detach().double()
    reciprocal = (values.var(1, unbiased=False, keepdim=True) + norm.eps).rsqrt()
    normed = (values - values.mean(1, keepdim=True)) * reciprocal
    step = (values.amax(1, keepdim=True) - values.amin(1, keepdim=True)) / 255 * (1 + 2.0**-6) * reciprocal
    g = dy.double() * norm.weight.detach().double()
    size = g.abs().mean(1, keepdim=True)
    bound = reciprocal * (step * (g * normed).mean(1, keepdim=True).abs() + (normed.abs() + step) * step * size)
    assert ((found - rows.grad).abs() <= bound + 1e-6).all() and ((found - rows.grad).abs() > 1e-5).any()
    assert ((of_weight - weight.grad).abs() <= (dy.double().abs() * step).sum(0) + 1e-5).all()
    torch.testing.assert_close(of_bias, dy.sum(0))


def test_shared_rows_are_saved_once_and_raw_features_are_not_copied() -> None:
    products, x, raw = ExactActivations().build(), _random(6, 4), _random(6, 4, seed=1)
    _open(products, 6, raw_features=raw)
    first = products.saved(x)
    assert products.saved(x) is first and isinstance(first, PackedRows)
    assert products.saved(raw) is raw
    x.mul_(2.0)
    assert products.saved(x) is not first, "the rows have changed since"
    halo = products.saved(x[:2].clone(), torch.tensor([0, 1]), like=products.saved(x))
    assert torch.equal(halo.dense(), products.saved(x).dense()[:2]), "the same row has another error in a halo"
    _open(products, 6)
    assert products.saved(x).counter == first.counter, "positions of a pass are counted from its beginning"


def test_every_saved_tensor_and_epoch_has_independent_noise() -> None:
    products, x = ExactActivations(bits=1).build(), _random(6, 40)
    _open(products, 6)
    first, second = products.saved(x).dense(), products.saved(x.clone()).dense()
    _open(products, 6, epoch=1)
    assert not torch.equal(first, second) and not torch.equal(first, products.saved(x).dense())


def test_outside_training_no_rows_are_saved_as_codes() -> None:
    products, x, weight = ExactActivations().build(), _random(6, 4), _random(4, 2, seed=1).requires_grad_()
    for begin in (products.begin, lambda: _open(products, 6, training=False)):
        begin()
        assert products.saved(x) is x
        products.linear(x, weight).sum().backward()
        assert torch.equal(weight.grad, x.t() @ torch.ones(6, 2))
        weight.grad = None
    _open(products, 6)
    with torch.no_grad():
        assert torch.equal(products.linear(x, weight), PLAIN.linear(x, weight))
    assert products._saves == 0


def test_float64_rows_and_invalid_settings_raise_value_error() -> None:
    products = ExactActivations().build()
    _open(products, 6)
    with pytest.raises(ValueError, match=r"float32 rows as codes, got torch.float64; choose compute float32"):
        products.linear(_random(6, 4).double(), _random(4, 2).double().requires_grad_())
    for settings, text in (({"bits": 3}, "bits must be one of"), ({"ratio": 0.0}, r"ratio must lie in \(0, 1\]")):
        with pytest.raises(ValueError, match=text):
            ExactActivations(**settings)
