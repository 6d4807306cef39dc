"""Convergence bound of gradient descent with quantized messages (AdaQP Theorem 2), and the curvature of a loss.

The theorem covers plain gradient descent with a fixed step on the whole graph: ``w <- w - α g``, g unbiased. Training
itself uses Adam (AdaQP Table 8), which the theorem does not cover.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from gnnqlab.attached import home_of
from gnnqlab.callable_module import make_callable

__all__ = ["ConvergenceBound", "Smoothness", "convergence_bound", "largest_step", "smoothness"]


@dataclass(frozen=True)
class ConvergenceBound:
    """The two terms of Theorem 2, in squared units of the gradient."""

    descent: float
    """``2 (L(w_1) - L*) / (T (2 α - α^2 L_2))``: falls as 1/T, identical without quantization."""
    noise: float
    """``α L_2 Q^2 / (2 - α L_2)``: quantization noise, independent of the number of epochs."""

    @property
    def total(self) -> float:
        """Bound on the mean of ``||∇L(w_t)||^2`` over t = 1 … T."""
        return self.descent + self.noise


def largest_step(curvature: float) -> float:
    """Compute ``2 / L_2``, the exclusive upper bound on the step in Theorem 2.

    Example:
        >>> largest_step(4.0)
        0.5
    """
    return math.inf if curvature == 0 else 2 / curvature  # a linear loss allows any step


def convergence_bound(
    *, loss_gap: float, epochs: int, step: float, curvature: float, variance: float
) -> ConvergenceBound:
    """Compute the bound on ``E||∇L(w_t)||^2``, t uniform in 1 … T (AdaQP Theorem 2, Eqs. 8, 18-22).

    Differs: Assumption 1 (A.4) bounds ``E||g - g̃||`` by Q; the proof (Eq. 19) uses ``E||g - g̃||^2 <= Q^2``, which
    is stronger. Here ``variance`` is that second moment, so ``Q^2 = Σ_l Q^l`` with Theorem 3's Q^l.

    Args:
        loss_gap: ``L(w_1) - L*``; L* = 0 is a valid floor of any cross-entropy.
        epochs: T, at least 1.
        step: α in ``(0, 2 / L_2)``.
        curvature: ``L_2``, the Lipschitz constant of the gradient.
        variance: ``Q^2``, a bound on ``E||g - g̃||^2`` over all parameters.

    Raises:
        ValueError: if the step is too large or a number is out of range.

    Example:
        >>> convergence_bound(loss_gap=1.0, epochs=10, step=0.5, curvature=2.0, variance=3.0)
        ConvergenceBound(descent=0.4, noise=3.0)
    """
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    if min(loss_gap, curvature, variance) < 0:
        raise ValueError(
            f"loss_gap, curvature and variance must not be negative, got {loss_gap}, {curvature} and {variance}"
        )
    if not 0 < step < largest_step(curvature):
        raise ValueError(
            f"the step must lie in (0, 2 / L_2) = (0, {largest_step(curvature):.4g}), got {step}; choose a smaller one"
        )
    slack = 2 - step * curvature  # positive, because step < 2 / L_2
    return ConvergenceBound(descent=2 * loss_gap / (epochs * step * slack), noise=step * curvature * variance / slack)


@dataclass(frozen=True)
class Smoothness:
    """The curvature of a loss at one point."""

    curvature: float
    """Largest absolute eigenvalue of the Hessian: L_2 at this point. (L_2 itself is the largest over all points.)"""
    products: int
    """Number of Hessian-vector products computed."""
    converged: bool
    """True if the last two estimates agreed within the tolerance."""


def smoothness(
    loss_fn: Callable[[], Tensor],
    parameters: Iterable[Tensor],
    *,
    max_products: int = 100,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> Smoothness:
    """Estimate L_2 of Assumption 1 by power iteration on Hessian-vector products.

    ``v <- H v / ||H v||`` converges to the eigenvector of the largest absolute eigenvalue; the estimate ``||H v||``
    never exceeds that eigenvalue. H v is the gradient of ``g · v``: one more backward pass, no Hessian is built.

    Args:
        loss_fn: returns the loss of the current parameters, twice differentiable almost everywhere.
        parameters: the parameters of the loss, each with ``requires_grad``.
        max_products: largest number of products.
        tolerance: relative change of the estimate at which to stop.
        seed: seed of the first direction.

    Raises:
        ValueError: if there is no parameter.

    Example:
        >>> w = torch.tensor([1.0, 1.0], requires_grad=True)
        >>> found = smoothness(lambda: (torch.tensor([3.0, -5.0]) * w * w).sum() / 2, [w])
        >>> round(found.curvature, 2), found.converged
        (5.0, True)
    """
    inputs = list(parameters)
    if not inputs:
        raise ValueError("smoothness needs at least one parameter, got none")
    # create_graph: H v is the gradient of <gradient, v>.
    gradient = _flat(torch.autograd.grad(loss_fn(), inputs, create_graph=True, materialize_grads=True))
    if not gradient.requires_grad:  # a linear loss
        return Smoothness(0.0, 0, True)
    generator = torch.Generator().manual_seed(seed)
    # A random start has a component along every eigenvector, almost surely.
    direction = torch.randn(gradient.numel(), generator=generator).to(gradient)
    direction /= direction.norm()
    estimate = 0.0
    for count in range(1, max_products + 1):
        # Hessian-vector product: the gradient of <gradient, direction> with the direction constant.
        product = _flat(
            torch.autograd.grad(gradient @ direction, inputs, retain_graph=True, materialize_grads=True)
        ).detach()
        earlier_estimate, estimate = estimate, float(product.norm())  # ||H v|| for ||v|| = 1: at most |λ_max|
        if estimate == 0.0:  # H v = 0 for a random v: H = 0, almost surely
            return Smoothness(0.0, count, True)
        direction = product / estimate
        if abs(estimate - earlier_estimate) <= tolerance * estimate:
            return Smoothness(estimate, count, True)
    return Smoothness(estimate, max_products, False)


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


make_callable(__name__, *home_of("theory.convergence"))
