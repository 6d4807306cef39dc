"""Error bounds of cached rows (CDFGNN section 4.2, Lemmas 1 to 3, Theorem 1).

Norms are largest absolute elements: ``|A| = max |A_ij|``. Letters as in the paper: B bounds elements, C the number of
columns, ρ is the Lipschitz constant, p the number of workers, ν1 the largest ε. ``gq.theory.cache_error(...)`` compares
the error of a training with these bounds (:mod:`gnnqlab.simulation.cache_check`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

__all__ = [
    "CacheBound", "backward_error", "cache_bound", "forward_error", "forward_errors", "product_bound", "weight_error",
]  # fmt: skip


def product_bound(a: Tensor, b: Tensor) -> float:
    """Compute ``col(A) |A| |B|``, an upper bound on ``|A B|`` (CDFGNN Lemma 1, Eq. 10).

    Args:
        a: ``(m, k)``.
        b: ``(k, n)``.

    Raises:
        ValueError: if the shapes do not match.

    Example:
        >>> import torch
        >>> a, b = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0], [0.5]])
        >>> product_bound(a, b), float((a @ b).abs().max())
        (12.0, 2.0)
    """
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a and b must be matrices (m, k) and (k, n), got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.numel() == 0 or b.numel() == 0:  # max of an empty tensor is an error
        return 0.0
    return a.shape[1] * float(a.abs().max()) * float(b.abs().max())


def forward_error(
    before: float, *, epsilon: float, size: float, columns: int, lipschitz: float = 1.0, workers: int = 1
) -> float:
    """Compute ``p ν1 B + C² B² ρ ε_Z``, a bound on ``|Z̃ - Z|`` of one layer (CDFGNN Lemma 2, Eq. 13).

    Args:
        before: ``ε_Z``, the bound of the previous layer; 0 for the first.
        epsilon: ν1, the largest ε.
        size: B, a bound on the elements of Z, A and W.
        columns: C, a bound on the columns of A and W.
        lipschitz: ρ of the activation; 1 for ReLU.
        workers: p, the number of partial sums of an element.

    Raises:
        ValueError: if a number is out of range.

    Example:
        >>> forward_error(0.0, epsilon=0.1, size=2.0, columns=3), forward_error(0.2, epsilon=0.1, size=2.0, columns=3)
        (0.2, 7.4)
    """
    _check(before=before, epsilon=epsilon, size=size, columns=columns, lipschitz=lipschitz, workers=workers)
    # p partial sums, each at most ν1 B off; the input's error passes ρ and the products with A and W (Lemma 1 twice).
    return workers * epsilon * size + columns**2 * size**2 * lipschitz * before


def forward_errors(
    layers: int, *, epsilon: float, size: float, columns: int, lipschitz: float = 1.0, workers: int = 1
) -> list[float]:
    """Compute the bounds of Lemma 2 for all layers: each is the next one's ``ε_Z``.

    They grow as ``(C² B² ρ)^l``: for layers of ordinary width the bound is valid but too loose to be useful.

    Example:
        >>> forward_errors(3, epsilon=0.1, size=1.0, columns=2)
        [0.1, 0.5, 2.1]
    """
    errors: list[float] = []
    for _ in range(layers):
        error = errors[-1] if errors else 0.0
        errors.append(
            forward_error(error, epsilon=epsilon, size=size, columns=columns, lipschitz=lipschitz, workers=workers)
        )
    return errors


def backward_error(above: float, forward: float, *, size: float, columns: int, lipschitz: float = 1.0) -> float:
    """Compute ``C² B³ (ρ ε_Z + K)``, a bound on ``|δ̃ - δ|`` of a layer (CDFGNN Lemma 3, Eq. 15).

    The last layer has ``ρ ε_Z`` (Eq. 14). The paper's Eq. 15 does not cover skipped δ; if the cache skips gradients
    too, ``p ν1 B`` must be added to ``above``.

    Args:
        above: K of the next layer.
        forward: ``ε_Z`` of this layer.
        size, columns, lipschitz: B, C and ρ.

    Example:
        >>> backward_error(0.5, 0.25, size=1.0, columns=2)
        3.0
    """
    _check(above=above, forward=forward, size=size, columns=columns, lipschitz=lipschitz)
    return columns**2 * size**3 * (lipschitz * forward + above)  # Eq. 15


def weight_error(above: float, forward: float, *, size: float, columns: int, lipschitz: float = 1.0) -> float:
    """Compute ``C² B² (ρ ε_Z + K)``, a bound on the error of a weight's gradient (CDFGNN Lemma 3, Eq. 16).

    Example:
        >>> weight_error(0.5, 0.25, size=2.0, columns=2)
        12.0
    """
    _check(above=above, forward=forward, size=size, columns=columns, lipschitz=lipschitz)
    return columns**2 * size**2 * (lipschitz * forward + above)  # Eq. 16


@dataclass(frozen=True)
class CacheBound:
    """The terms of a bound on the mean of ``||∇L(W_t)||²`` over N steps, in squared units of the gradient."""

    descent: float
    """Term of the descent, which falls with N."""
    error: float
    """Term of the cache's gradient error, which falls with N only if the error does."""

    @property
    def total(self) -> float:
        """Sum of both terms."""
        return self.descent + self.error


def cache_bound(
    *, loss_gap: float, step: float, curvature: float, errors: Sequence[float], reading: str = "kept"
) -> CacheBound:
    """Compute the bound on the mean of ``||∇L(W_t)||²`` over ``t = 1 … N`` (CDFGNN Theorem 1, Eqs. 17 to 21).

    The step is ``W - η ∇L̃`` with ``∇L̃ = ∇L + Δ``. Smoothness gives, with every term,

        L(W_t+1) <= L(W_t) - (η - ρη²/2) ||∇L||² - (η - ρη²) <∇L, Δ> + (ρη²/2) ||Δ||²

    ``printed`` omits the term with ``<∇L, Δ>``, as in Eq. 18 (erratum CD-5): its error then falls as ``ρ η`` and
    vanishes with ``η = 1 / √N``. ``kept`` bounds the term by ``(η - ρη²)/2 (||∇L||² + ||Δ||²)``, which gives

        mean ||∇L||² <= 2 (L(W_1) - L*) / (η N) + mean ||Δ||²

    that is, convergence to a neighbourhood, not to a limit (erratum CD-6).

    Differs: the paper writes W + η∇L̃, which is gradient ascent.

    Args:
        loss_gap: ``L(W_1) - L*``.
        step: η in ``(0, 1 / ρ]``.
        curvature: ρ, the Lipschitz constant of the gradient.
        errors: ``||Δ_t||²`` of all N steps.
        reading: ``kept`` or ``printed``.

    Raises:
        ValueError: if a number is out of range.

    Example:
        >>> kept = cache_bound(loss_gap=1.0, step=0.5, curvature=1.0, errors=[0.5] * 8)
        >>> printed = cache_bound(loss_gap=1.0, step=0.5, curvature=1.0, errors=[0.5] * 8, reading="printed")
        >>> kept, printed.total < kept.total
        (CacheBound(descent=0.5, error=0.5), True)
    """
    if reading not in ("kept", "printed"):
        raise ValueError(f"reading must be 'kept' or 'printed', got {reading!r}")
    if not errors:
        raise ValueError("errors must hold one number per step, got none")
    # Beyond 1 / ρ the factor η - ρη² of <∇L, Δ> is negative, and its bound does not hold.
    if not 0 < step <= (1 / curvature if curvature > 0 else float("inf")):
        raise ValueError(f"step must lie in (0, 1 / curvature], got {step} with curvature {curvature}")
    _check(loss_gap=loss_gap, curvature=curvature, least=min(errors))
    steps, mean = len(errors), sum(errors) / len(errors)
    if reading == "printed":
        shrink = step - curvature * step**2 / 2  # η - ρη²/2, the factor of ||∇L||²
        return CacheBound(loss_gap / (shrink * steps), curvature * step**2 / 2 * mean / shrink)
    # η - ρη²/2 - (η - ρη²)/2 = η/2 and (η - ρη²)/2 + ρη²/2 = η/2
    return CacheBound(2 * loss_gap / (step * steps), mean)


def _check(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:  # also true for NaN
            raise ValueError(f"{name} must not be negative, got {value}")
