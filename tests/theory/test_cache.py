"""Lemmas and theorem of CDFGNN, checked on matrices and descents for which they hold, or do not."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.theory.cache import (
    backward_error,
    cache_bound,
    forward_error,
    forward_errors,
    product_bound,
    weight_error,
)


def matrix(rows, columns, seed, size=1.0):
    return size * (2 * torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed)) - 1)


def test_lemma_1_holds_and_is_met():
    for seed in range(20):
        a, b = matrix(5, 7, seed), matrix(7, 4, seed + 100)
        assert float((a @ b).abs().max()) <= product_bound(a, b)
    ones = torch.ones(3, 6)
    assert product_bound(ones, ones.T) == float((ones @ ones.T).max())
    with pytest.raises(ValueError, match="must be matrices"):
        product_bound(a, a)


def test_lemma_2_holds_where_rows_are_held_by_the_rule():
    """Z = Σ over p workers of A_i relu(Z_before) W, each term off by ε of its size at most."""
    nodes, width, workers, epsilon = 6, 4, 2, 0.3
    for seed in range(20):
        exact = cached = matrix(nodes, width, seed)
        before, size = 0.0, 0.0
        for layer in range(3):
            weight = matrix(width, width, 31 * seed + layer)
            parts = [matrix(nodes, nodes, 77 * seed + 5 * layer + worker, 0.5) for worker in range(workers)]
            exact = sum(parts) @ torch.relu(exact) @ weight
            terms = [part @ torch.relu(cached) @ weight for part in parts]
            size = max([size, 1.0, *(float(term.abs().max()) for term in terms)])
            off = [epsilon * matrix(nodes, width, 1000 + seed + layer).sign() * term.abs() for term in terms]
            cached = sum(terms) + sum(off)
            before = forward_error(before, epsilon=epsilon, size=size, columns=nodes, workers=workers)
            assert float((cached - exact).abs().max()) <= before
    assert forward_errors(2, epsilon=0.1, size=1.0, columns=2)[1] == forward_error(
        0.1, epsilon=0.1, size=1.0, columns=2
    )


def test_lemma_3_holds_for_one_layer_of_errors():
    width, nodes, rho = 4, 6, 1.0
    for seed in range(20):
        delta, a, w = matrix(width, nodes, seed), matrix(nodes, nodes, seed + 1), matrix(width, width, seed + 2)
        z, h = matrix(width, nodes, seed + 3), matrix(width, nodes, seed + 4)
        forward, above = 0.2, 0.1
        off_z, off_delta = forward * matrix(width, nodes, seed + 5), above * matrix(width, nodes, seed + 6)
        slope, slope_off = torch.tanh(z), torch.tanh(z + off_z)  # ρ = 1
        size = float(max(each.abs().max() for each in (delta, delta + off_delta, a, w, z, h, h + off_z)))
        size = max(size, 1.0)
        exact, cached = w @ (delta @ a) * slope, w @ ((delta + off_delta) @ a) * slope_off
        bound = backward_error(above, forward, size=size, columns=nodes, lipschitz=rho)
        assert float((cached - exact).abs().max()) <= bound
        gradient = delta @ a @ h.T
        cached_gradient = (delta + off_delta) @ a @ (h + off_z).T
        bound = weight_error(above, forward, size=size, columns=nodes, lipschitz=rho)
        assert float((cached_gradient - gradient).abs().max()) <= bound


def descent(step, steps, error):
    """Walk down ``w²/2`` (ρ = 1) with an error that always opposes the gradient; return w_1 and the squares."""
    w, squares, errors = 1.0, [], []
    for _ in range(steps):
        delta = -min(error, abs(w)) if w > 0 else 0.0
        squares.append(w * w)
        errors.append(delta * delta)
        w -= step * (w + delta)
    return squares, errors


@pytest.mark.parametrize("steps", [1, 10, 1000])
@pytest.mark.parametrize("error", [0.0, 0.1, 0.5])
def test_theorem_1_holds_with_its_cross_term(steps, error):
    squares, errors = descent(0.3, steps, error)
    bound = cache_bound(loss_gap=0.5, step=0.3, curvature=1.0, errors=errors)
    assert sum(squares) / steps <= bound.total * (1 + 1e-9)


def test_as_printed_it_is_exceeded_because_the_error_does_not_vanish():
    squares, errors = descent(0.01, 10000, 0.5)
    printed = cache_bound(loss_gap=0.5, step=0.01, curvature=1.0, errors=errors, reading="printed")
    kept = cache_bound(loss_gap=0.5, step=0.01, curvature=1.0, errors=errors)
    mean = sum(squares) / len(squares)
    assert printed.total < mean <= kept.total
    assert kept.error == pytest.approx(0.25, rel=0.01), "a neighbourhood, for any step size"


def test_without_error_both_readings_have_the_descent_alone():
    kept, printed = (
        cache_bound(loss_gap=2.0, step=0.5, curvature=1.0, errors=[0.0] * 4, reading=reading)
        for reading in ("kept", "printed")
    )
    assert kept.error == printed.error == 0.0 and kept.descent == 2.0
    assert printed.descent == pytest.approx(2.0 / (0.375 * 4))


@pytest.mark.parametrize(("wrong", "text"), [
    ({"step": 1.5}, "step must lie in"), ({"errors": []}, "one number per step"), ({"loss_gap": -1.0}, "loss_gap must"),
    ({"reading": "both"}, "reading must be"),
])  # fmt: skip
def test_wrong_numbers_are_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        cache_bound(**{"loss_gap": 1.0, "step": 0.5, "curvature": 1.0, "errors": [0.0], **wrong})
