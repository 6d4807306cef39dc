"""Normalise, activate and drop in one pass: masks, values and gradients of the separate steps; saved tensors."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from gnnqlab.kernels import native, noise
from gnnqlab.kernels.reference import nodewise as reference
from gnnqlab.kernels.rowwise.nodewise import (
    ACTIVATIONS,
    Mask,
    Norm,
    disable_fusion,
    nodewise,
    nodewise_both,
    step_by_step,
)
from tests.cases import each

from .backends import AVAILABLE, EVERY, on_native, use

PLACE = {"seed": 0x1234_5678_9ABC_DEF0, "epoch": 3, "stream": noise.stream("dropout", 2)}
SHAPES = [(1, 1), (1, 7), (3, 1), (37, 31), (300, 5), (257, 130), (600, 64)]
"""One row, one column, rows that fill no vector, more rows than one partial sum of gradients takes."""


def _random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _norm(columns: int, *, requires_grad: bool = True) -> Norm:
    weight, bias = 1 + 0.5 * _random(columns, seed=1), 0.5 * _random(columns, seed=2)
    return Norm(weight.requires_grad_(requires_grad), bias.requires_grad_(requires_grad))


def _mask(rows: int, p: float) -> Mask | None:
    ids = torch.randint(0, 2**32, (rows,), generator=torch.Generator().manual_seed(rows))
    return Mask(ids=ids, p=p, **PLACE) if p > 0 else None


def _in_float64(x, norm, activation, mask, weights):
    """Return the dropped and the whole rows, and gradients of x, weight and bias: PyTorch's own, in float64."""
    x = x.detach().double().requires_grad_()
    norm = None if norm is None else Norm(*(t.detach().double().requires_grad_() for t in (norm.weight, norm.bias)))
    dropped, whole = step_by_step(x, norm, activation=activation, mask=mask)
    inputs = [x] if norm is None else [x, norm.weight, norm.bias]
    loss = sum((out * weight.double()).sum() for out, weight in zip((dropped, whole), weights))
    return dropped, whole, torch.autograd.grad(loss, inputs)


def _close(found, expected, bound: float) -> None:
    """Compare in units of the largest element: sums over rows and columns cancel."""
    assert found.shape == expected.shape
    if found.numel():
        found, expected = found.detach().double(), expected.detach()
        assert float((found - expected).abs().max()) <= bound * max(1.0, float(expected.abs().max()))


@on_native
@each("activation", ACTIVATIONS)
@each("p", [0.0, 0.5])
@each("normed", [False, True])
def test_values_and_gradients_are_those_of_separate_steps_in_float64(backend, activation, p, normed):
    for rows, columns in SHAPES:
        x = (2 * _random(rows, columns, seed=columns) + 0.3).requires_grad_()
        norm, mask = _norm(columns) if normed and columns > 1 else None, _mask(rows, p)
        weights = [_random(rows, columns, seed=5), _random(rows, columns, seed=6)]
        inputs = [x] if norm is None else [x, norm.weight, norm.bias]
        with use(backend):
            one = nodewise(x, norm, activation=activation, mask=mask)
            of_one = torch.autograd.grad((one * weights[0]).sum(), inputs)
            whole, dropped = nodewise_both(x, norm, activation=activation, mask=mask)
            of_both = torch.autograd.grad((dropped * weights[0]).sum() + (whole * weights[1]).sum(), inputs)
        exact, exact_whole, expected = _in_float64(x, norm, activation, mask, weights[:1])
        expected_of_both = _in_float64(x, norm, activation, mask, weights)[2]
        # Float32, erf and e^x off by 1e-7; rows of few columns may vary little: 1 / σ times that.
        slack = 1.0 if norm is None else float(x.detach().var(1, unbiased=False).add(1e-5).rsqrt().max().clamp(min=1.0))
        for found, right in ((one, exact), (dropped, exact), (whole, exact_whole)):
            _close(found, right, 2e-6 * slack)
        for found, right in zip((*of_one, *of_both), (*expected, *expected_of_both)):
            _close(found, right, 4e-6 * slack**2)


@each("backend", EVERY)
@each("normed", [False, True])
def test_the_mask_is_that_of_dropout(backend, normed):
    x, mask = _random(40, 61, seed=0).abs() + 1, _mask(40, 0.3)
    norm = Norm(torch.zeros(61), torch.ones(61)) if normed else None
    with use(backend):
        kept = nodewise(x, norm, mask=mask) != 0
        assert torch.equal(kept, noise.dropout(torch.ones(40, 61), mask.ids, p=0.3, **PLACE) != 0)
        narrow = Mask(ids=torch.arange(40, dtype=torch.int32), p=0.3, **PLACE)
        wide = Mask(ids=torch.arange(40), p=0.3, **PLACE)
        assert torch.equal(nodewise(x, norm, mask=narrow), nodewise(x, norm, mask=wide))


@on_native
def test_without_a_norm_values_are_those_of_separate_steps_bit_for_bit(backend):
    x, mask = _random(300, 77, seed=0).requires_grad_(), _mask(300, 0.4)
    weight = _random(300, 77, seed=1)
    with use(backend):
        found = nodewise(x, mask=mask)
        (gradient,) = torch.autograd.grad((found * weight).sum(), [x])
    with native.use("reference"):
        expected = noise.dropout(functional.relu(x), mask.ids, p=0.4, **PLACE)
        (right,) = torch.autograd.grad((expected * weight).sum(), [x])
    assert torch.equal(found, expected) and torch.equal(gradient, right)


@on_native
def test_rows_of_bfloat16_are_rounded_once(backend):
    x = _random(70, 50, seed=0).bfloat16().requires_grad_()
    norm, mask, weight = _norm(50), _mask(70, 0.5), _random(70, 50, seed=3).bfloat16()
    with use(backend):
        found = nodewise(x, norm, mask=mask)
        gradients = torch.autograd.grad((found * weight).float().sum(), [x, norm.weight, norm.bias])
    exact, _, expected = _in_float64(x, norm, "relu", mask, [weight])
    assert found.dtype == gradients[0].dtype == torch.bfloat16 and gradients[1].dtype == torch.float32
    for each_found, right in zip((found, *gradients), (exact, *expected)):
        _close(each_found, right, 2**-8)


def test_steps_of_bfloat16_rows_are_rounded_once():
    """The path without compiled kernels: computed in float32 from the unchanged rows, rounded at the end."""
    x = _random(70, 50, seed=0).bfloat16().requires_grad_()
    norm, mask, weight = _norm(50), _mask(70, 0.5), _random(70, 50, seed=3).bfloat16()
    with use("reference"):
        found = nodewise(x, norm, mask=mask)
        gradients = torch.autograd.grad((found * weight).float().sum(), [x, norm.weight, norm.bias])
        whole, same = nodewise_both(x, norm)
    exact, exact_whole, expected = _in_float64(x, norm, "relu", mask, [weight])
    assert found.dtype == gradients[0].dtype == torch.bfloat16 and whole is same
    for each_found, right in zip((found, whole, *gradients), (exact, exact_whole, *expected)):
        _close(each_found, right, 2**-8)


@each("backend", EVERY)
def test_constant_rows_and_no_rows(backend):
    norm = _norm(9)
    x = torch.full((4, 9), 2.5, requires_grad=True)
    with use(backend):
        y = nodewise(x, norm, activation="none")
        y.sum().backward()
        empty = nodewise(torch.ones(0, 9, requires_grad=True), norm, mask=_mask(0, 0.5))
        empty.sum().backward()
        assert nodewise(torch.ones(3, 0), mask=_mask(3, 0.5)).shape == (3, 0)
    assert torch.equal(y.detach(), norm.bias.detach().expand(4, 9))
    # g w - m(g w) over sqrt(eps): nothing of a constant row's gradient is divided by its range.
    gw = norm.weight.detach()
    expected = ((gw - gw.mean()) / 1e-5**0.5).expand(4, 9)
    assert torch.allclose(x.grad, expected, rtol=1e-5, atol=1e-3)
    assert empty.shape == (0, 9) and torch.equal(norm.bias.grad, torch.full((9,), 4.0))


@on_native
def test_not_a_number_stays_one(backend):
    x = torch.ones(3, 20)
    x[1, 17] = torch.nan
    with use(backend):
        assert nodewise(x.clone()).isnan().nonzero().tolist() == [[1, 17]]
        assert nodewise(x, _norm(20)).isnan().all(1).tolist() == [False, True, False]


@on_native
def test_strided_rows_and_gradients_are_read_where_they_lie(backend):
    wide, norm, mask = _random(50, 40, seed=0), _norm(33), _mask(50, 0.5)
    for x in (wide[:, 3:36], wide.t().contiguous().t()[:, :33]):
        x = x.detach().requires_grad_()
        with use(backend):
            strided = nodewise(x, norm, mask=mask)
            (found,) = torch.autograd.grad(strided.sum(), [x])
            plain = nodewise(x.contiguous(), norm, mask=mask)
            (expected,) = torch.autograd.grad((plain * torch.ones(50, 33)).sum(), [x])
        assert torch.equal(strided, plain) and torch.equal(found, expected)


@pytest.mark.skipif(not AVAILABLE, reason="no compiled kernels")
def test_values_and_gradients_do_not_depend_on_the_number_of_threads():
    x, norm, mask = _random(3000, 100, seed=0).requires_grad_(), _norm(100), _mask(3000, 0.5)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            y = nodewise(x, norm, mask=mask)
            found.append((y, *torch.autograd.grad((y * y).sum(), [x, norm.weight, norm.bias])))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(*pair) for pair in zip(*found))


def test_formulas_of_the_reference_are_the_gradients():
    x, norm, mask = _random(6, 5, seed=0).double(), _norm(5, requires_grad=False), _mask(6, 0.4)
    weight, bias = norm.weight.double(), norm.bias.double()
    place, g, of_whole = {"threshold": 26214, **PLACE}, _random(6, 5, seed=7).double(), _random(6, 5, seed=8).double()
    for kind, activation in enumerate(ACTIVATIONS):
        dropped, whole, stats = reference.nodewise(x, mask.ids, weight, bias, 1e-5, kind, **place)
        exact, exact_whole, expected = _in_float64(x, Norm(weight, bias), activation, mask, [g, of_whole])
        found = reference.nodewise_backward(x, g, of_whole, mask.ids, weight, bias, stats, kind, 1.0, **place)
        for one, right in ((dropped, exact), (whole, exact_whole), (found[0], expected[0])):
            _close(one, right, 1e-12)
        _close(found[1], torch.stack(expected[1:]), 1e-12)


@each("p", [0.0, 0.4])
def test_elu_gradient_computed_from_the_output_is_correct(p):
    x, mask, nothing = _random(6, 5, seed=0).double(), _mask(6, 0.4), (None, None, torch.empty(0, 2))
    g, of_whole = _random(6, 5, seed=7).double(), _random(6, 5, seed=8).double()
    place = {"threshold": 26214 if p else 0, **PLACE}
    dropped, whole, _ = reference.nodewise(x, mask.ids, None, None, 0.0, ACTIVATIONS.index("elu"), **place)
    factor = 65536 / (65536 - place["threshold"])
    for kept, more in ((dropped, None), (whole, of_whole)):
        _, _, expected = _in_float64(x, None, "elu", mask if p else None, [g] if more is None else [g, more])
        settings = (mask.ids, *nothing, reference.ELU_OUTPUT, factor)
        found, _ = reference.nodewise_backward(kept, g, more, *settings, **place)
        _close(found, expected[0], 1e-7 if p else 1e-12)  # a mask's factor is rounded to float32


@on_native
def test_backward_saves_one_matrix_and_two_numbers_per_row(backend):
    x, norm, mask = _random(50, 32, seed=0), _norm(32), _mask(50, 0.5)
    with use(backend):
        y = x.clone().requires_grad_() * 1.0
        result = nodewise(y, norm, mask=mask)
        kept = [t for t in result.grad_fn.saved_tensors if t is not None and t.shape != norm.weight.shape]
        assert sorted(t.numel() for t in kept if t.dtype != torch.int64) == [2 * 50, 32 * 50]
        assert any(t.data_ptr() == y.data_ptr() for t in kept), "the input rows are alive anyway"
        y = x.clone().requires_grad_() * 1.0
        result = nodewise(y, mask=mask, inplace=True)
        kept = [t for t in result.grad_fn.saved_tensors if t is not None and t.numel()]
    assert [t.data_ptr() for t in kept] == [result.data_ptr()] == [y.data_ptr()], "without a norm the result is saved"


@on_native
def test_elu_saves_its_output_and_gelu_saves_its_input(backend):
    """ELU's slope is 1 + ELU(z); GELU falls and rises below 0, so its value does not determine its slope."""
    x, mask = _random(50, 32, seed=0), _mask(50, 0.5)
    for activation, of_output in (("elu", True), ("gelu", False), ("gelu-tanh", False)):
        with use(backend):
            y = x.clone().requires_grad_() * 1.0
            result = nodewise(y, activation=activation, mask=mask, inplace=True)
            kept = [t.data_ptr() for t in result.grad_fn.saved_tensors if t is not None and t.numel() == y.numel()]
            assert kept == [y.data_ptr()] and (result.data_ptr() == y.data_ptr()) == of_output, activation
            z = x.clone().requires_grad_() * 1.0
            whole, dropped = nodewise_both(z, activation=activation, mask=mask)
            kept = [t.data_ptr() for t in dropped.grad_fn.saved_tensors if t is not None and t.numel() == z.numel()]
            assert kept == [whole.data_ptr() if of_output else z.data_ptr()], activation


@on_native
@each("activation", ACTIVATIONS)
def test_slopes_at_zero_far_out_and_of_nan(backend, activation):
    x = torch.tensor([[0.0, -0.0, 1e-30, -1e-30, 30.0, -30.0, 1e5, -1e5, 3e12, -3e12]] * 3)
    far = torch.tensor([[torch.nan, 1.0, torch.nan]])
    place = {"seed": 1, "epoch": 2, "stream": 3}
    for p in (0.0, 0.5):
        mask = Mask(ids=torch.arange(3), p=p, **place) if p else None
        found = []
        for which, wide in ((backend, x), ("reference", x.double())):
            wide = wide.clone().requires_grad_()
            with use(which):
                y = nodewise(wide, activation=activation, mask=mask)
                found.append((y.double(), *(g.double() for g in torch.autograd.grad(y.sum(), [wide]))))
        for ours, right in zip(*found, strict=True):
            right = right.detach()
            assert bool(((ours - right).abs() <= 2e-6 * (1 + right.abs())).all()), (p, ours, right)
    with use(backend):
        assert nodewise(far, activation=activation).isnan().tolist() == [[True, False, True]]


@pytest.mark.parametrize(
    "backend",
    ["reference", pytest.param("native", marks=pytest.mark.skipif(not AVAILABLE, reason="no compiled kernels"))],
)
def test_operators_pass_opcheck(backend):
    x, ids, norm = torch.randn(4, 9, requires_grad=True), torch.arange(4), _norm(9)
    affine, place = (norm.weight, norm.bias), (30000, 1, 2, 3)
    with native.use(backend):
        for both in (False, True):
            torch.library.opcheck(torch.ops.gnnqlab.nodewise.default, (x, ids, *affine, 1e-5, 1, both, *place))
            torch.library.opcheck(torch.ops.gnnqlab.nodewise.default, (x, ids, None, None, 0.0, 1, both, *place))
        arguments = (x.detach(), torch.randn(4, 9), None, ids, *(t.detach() for t in affine), torch.rand(4, 2), 1)
        torch.library.opcheck(torch.ops.gnnqlab.nodewise_backward.default, (*arguments, 30000, 1.0, 1, 2, 3))


@pytest.mark.skipif(not AVAILABLE, reason="no compiled kernels")
def test_it_compiles():
    norm, mask = _norm(7), Mask(ids=torch.arange(6), p=0.5, **PLACE)

    def layer(x, weight):
        whole, dropped = nodewise_both(x @ weight, norm, mask=mask)
        return nodewise(dropped, mask=mask) + whole

    x, weight = torch.randn(6, 5), torch.randn(5, 7, requires_grad=True)
    expected = layer(x, weight)
    right = torch.autograd.grad((expected * x.sum()).sum(), [weight, norm.weight])
    got = torch.compile(layer, backend="aot_eager", fullgraph=True)(x, weight)
    found = torch.autograd.grad((got * x.sum()).sum(), [weight, norm.weight])
    assert torch.equal(got, expected) and all(torch.equal(*pair) for pair in zip(found, right))


@each("backend", EVERY)
def test_refusals(backend):
    x, norm = torch.ones(2, 3), _norm(3)
    with use(backend):
        with pytest.raises(ValueError, match="activation must be one of"):
            nodewise(x, activation="tanh")
        with pytest.raises(ValueError, match=r"nodewise needs rows \(N, D\), got shape \(3,\)"):
            nodewise(x[0])
        with pytest.raises(ValueError, match=r"one bias per column, got \(3,\) and \(3,\) for 2 columns"):
            nodewise(x[:, :2], norm)
        with pytest.raises(ValueError, match="one id per row"):
            nodewise(x, mask=Mask(ids=torch.arange(3), p=0.5, **PLACE))
        for both in (nodewise, nodewise_both):
            with pytest.raises(ValueError, match=r"p must be in \[0, 1\), got 1.0"):
                both(x, mask=Mask(ids=torch.arange(2), p=1.0, **PLACE))
            with pytest.raises(ValueError, match=r"node ids must be in \[0, 2\*\*32\)"):
                both(x, mask=Mask(ids=torch.tensor([0, -1]), p=0.5, **PLACE))


def test_apart_is_the_plain_way_and_ends_with_its_block():
    x, norm = _random(9, 5, seed=0).requires_grad_(), _norm(5)
    with disable_fusion():
        assert "ReluBackward" in nodewise(x, norm).grad_fn.name()
    assert ("Nodewise" in nodewise(x, norm).grad_fn.name()) == bool(AVAILABLE)
