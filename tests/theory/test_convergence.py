"""Theorem 2 as a formula, on quadratics with known constants, and L_2 compared with the full Hessian."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.theory.convergence import convergence_bound, largest_step, smoothness
from tests.cases import each


def test_terms_of_the_bound():
    bound = convergence_bound(loss_gap=3.0, epochs=6, step=0.1, curvature=5.0, variance=0.6)
    assert bound.descent == pytest.approx(2 * 3.0 / (6 * (2 * 0.1 - 0.1**2 * 5.0)))
    assert bound.noise == pytest.approx(0.1 * 5.0 * 0.6 / (2 - 0.1 * 5.0))
    assert bound.total == bound.descent + bound.noise


def test_first_term_falls_as_one_over_epochs():
    terms = [convergence_bound(loss_gap=1.0, epochs=t, step=0.1, curvature=1.0, variance=1.0) for t in (10, 100, 1000)]
    assert terms[0].descent == pytest.approx(10 * terms[1].descent)
    assert terms[1].descent == pytest.approx(10 * terms[2].descent)
    assert terms[0].noise == terms[2].noise


@each("step", [0.0, 2.0, 2.5])
def test_step_must_be_short(step):
    with pytest.raises(ValueError, match=r"step must lie in \(0, 2 / L_2\) = \(0, 2\), got"):
        convergence_bound(loss_gap=1.0, epochs=1, step=step, curvature=1.0, variance=0.0)


def test_other_arguments_are_checked():
    with pytest.raises(ValueError, match="epochs must be at least 1, got 0"):
        convergence_bound(loss_gap=1.0, epochs=0, step=0.1, curvature=1.0, variance=0.0)
    with pytest.raises(ValueError, match="must not be negative"):
        convergence_bound(loss_gap=-1.0, epochs=1, step=0.1, curvature=1.0, variance=0.0)
    assert largest_step(0.0) == float("inf")


def test_noisy_descent_of_a_quadratic_obeys():
    eigenvalues = torch.tensor([4.0, 1.0, 0.1], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for step in (0.05, 0.2, 0.45):
        w, squares = torch.ones(3, dtype=torch.float64), []
        first = float((eigenvalues * w * w).sum() / 2)
        for _ in range(400):
            gradient = eigenvalues * w
            squares.append(float(gradient.square().sum()))
            noise = torch.randn(3, generator=generator, dtype=torch.float64) / 3**0.5  # E||noise||^2 = 1
            w = w - step * (gradient + noise)
        bound = convergence_bound(loss_gap=first, epochs=400, step=step, curvature=4.0, variance=1.0)
        assert sum(squares) / 400 <= bound.total


def test_curvature_equals_the_largest_eigenvalue():
    torch.manual_seed(0)
    matrix = torch.randn(30, 6, dtype=torch.float64)
    target = torch.randint(3, (30,))
    parts = [torch.randn(6, 5, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)]

    def loss_of(first, second):
        return torch.nn.functional.cross_entropy(torch.tanh(matrix @ first) @ second, target)

    flat = torch.cat([part.reshape(-1) for part in parts])
    hessian = torch.autograd.functional.hessian(lambda w: loss_of(w[:30].view(6, 5), w[30:].view(5, 3)), flat)
    truth = float(torch.linalg.eigvalsh(hessian).abs().max())
    leaves = [part.requires_grad_() for part in parts]
    found = smoothness(lambda: loss_of(*leaves), leaves, max_products=500, tolerance=1e-7)
    assert found.converged
    assert found.curvature == pytest.approx(truth, rel=1e-3)
    assert found.curvature <= truth * (1 + 1e-9)


def test_linear_losses_are_flat():
    w = torch.ones(3, requires_grad=True)
    assert smoothness(lambda: w.sum(), [w]).curvature == 0.0
    with pytest.raises(ValueError, match="at least one parameter"):
        smoothness(lambda: w.sum(), [])
