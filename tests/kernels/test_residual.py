"""Residual joins: values and gradients of one ``lerp`` per layer, on every backend, and the number of allocations."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.kernels import native
from gnnqlab.kernels.reference.residual import residual_backward
from gnnqlab.kernels.rowwise.residual import residual
from gnnqlab.train.records.memory_tracker import MemoryTracker
from tests.cases import each

from .backends import AVAILABLE, EVERY, on_native, use

SHAPES = [(1, 1), (3, 7), (0, 5), (37, 31), (300, 129), (1100, 512)]
"""The last one does not fit into the caches, and takes several parts."""


def _layers(rows: int, columns: int, share: float, join) -> list[torch.Tensor]:
    """Return the result of four layers, and the gradients of each layer's rows and of the first rows."""
    generator = torch.Generator().manual_seed(columns)
    first, *xs = (torch.randn(rows, columns, generator=generator).requires_grad_() for _ in range(5))
    h, again = torch.zeros(rows, columns), first
    for x in xs:
        h, again = join(h + x, again, share)
    h.mul(torch.randn(rows, columns, generator=generator)).sum().backward()
    return [h.detach(), *(x.grad for x in xs), first.grad]


@each("backend", EVERY)
@each("share", [0.0, 0.1, 0.7, 1.0])
def test_values_and_gradients_are_those_of_one_lerp_a_layer_to_the_bit(backend, share):
    for rows, columns in SHAPES:
        with use(backend):
            found = _layers(rows, columns, share, residual)
        expected = _layers(rows, columns, share, lambda x, first, share: (torch.lerp(x, first, share), first))
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_formulas_of_the_reference_are_the_gradients():
    generator = torch.Generator().manual_seed(0)
    x, first, g, later = (torch.randn(6, 5, generator=generator, dtype=torch.float64) for _ in range(4))
    x.requires_grad_(), first.requires_grad_()
    expected = torch.autograd.grad((((1 - 0.3) * x + 0.3 * first) * g).sum() + (first * later).sum(), [x, first])
    for found, right in zip(residual_backward(g, later, 0.3), expected, strict=True):
        assert float((found - right).abs().max()) < 1e-15
    assert torch.equal(residual_backward(g, None, 0.3)[1], 0.3 * g)


def test_gradients_in_float64_are_numerical_ones():
    generator = torch.Generator().manual_seed(1)
    x, first = (torch.randn(3, 4, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(lambda x, first: residual(*residual(x, first, 0.2), 0.4)[0], (x, first))


@on_native
def test_a_layer_back_makes_two_matrices(backend):
    """It allocates as many as it returns: none for a part of a gradient that is added at once."""
    x, first = torch.randn(50, 40, requires_grad=True), torch.randn(50, 40, requires_grad=True)
    with use(backend):
        twice = residual(*residual(x, first, 0.1), 0.1)[0]
        assert not any(node.saved_tensors for node in (twice.grad_fn, twice.grad_fn.next_functions[0][0]))
        made, (ledger, gradient) = [], (MemoryTracker(), torch.ones(50, 40))
        enter = ledger.enter
        ledger.enter = lambda tensor, *more, **how: (made.append(tensor.data_ptr()), enter(tensor, *more, **how))[1]
        with ledger:
            torch.autograd.grad(twice, [x, first], gradient)
        ledger.close()
    assert len(made) == 4


@pytest.mark.skipif(not AVAILABLE, reason="no compiled kernels")
def test_residual_joins_do_not_depend_on_the_number_of_threads():
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            with native.use("native"):
                found.append(_layers(1100, 512, 0.1, residual))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_mismatched_shapes_and_invalid_weight_raise_value_error():
    with pytest.raises(ValueError, match=r"one shape and type, got \(2, 3\) torch.float32 and \(2, 4\)"):
        residual(torch.ones(2, 3), torch.ones(2, 4), 0.1)
    with pytest.raises(ValueError, match=r"must be in \[0, 1\], got 1.5"):
        residual(torch.ones(2, 3), torch.ones(2, 3), 1.5)
