"""Variance from stochastic rounding, of a decoded row (AdaQP Theorem 1) and of a weight gradient (AdaQP Theorem 3).

Letters: K messages, D columns, V rows that receive messages, E pairs (message, receiving row).

The variance of a vector or matrix x is one number, ``E||x - E x||^2``: the sum over its elements, in squared units of
x. So all norms here are Euclidean (Frobenius for a gradient matrix), and ``D S^2 / 6`` belongs to a whole row.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "AVERAGE", "WORST",
    "DecodedMoments", "GradientBound",
    "decoded_moments", "exact_variance", "gradient_variance_bound", "received_variance", "rounding_fractions",
    "shared_variance", "step_widths",
]  # fmt: skip

AVERAGE = 1 / 6
"""``E[σ(1 - σ)]`` for fractions σ uniform in [0, 1): the constant in Theorem 1's variance."""
WORST = 1 / 4
"""``max σ(1 - σ)``, at σ = 1/2: the variance of a row is at most ``D S^2 / 4``."""


def step_widths(ranges: Tensor, bits: int | Tensor) -> Tensor:
    """Compute the step ``S = range / (2^b - 1)`` of each row, in the unit of the range (AdaQP Eq. 4).

    Args:
        ranges: ``max - min`` of each row, ``(K,)``.
        bits: one bit-width, or one per row ``(K,)``. 32 means float32 rows, whose step is 0.

    Returns:
        float64 ``(K,)``.

    Example:
        >>> step_widths(torch.tensor([3.0, 3.0]), torch.tensor([1, 2])).tolist()
        [3.0, 1.0]
    """
    widths = torch.as_tensor(bits, device=ranges.device).double()
    return torch.where(widths < 32, ranges.double() / (2.0**widths - 1), 0.0)  # rows of 32 bits: no step


def rounding_fractions(rows_KD: Tensor, bits: int | Tensor) -> Tensor:
    """Compute the fractions ``σ = (x - Z) / S - floor((x - Z) / S)``, the probabilities of rounding up.

    A constant row has step 0 and fraction 0.

    Returns:
        float64 ``(K, D)`` in [0, 1).
    """
    x_KD = rows_KD.double()
    zero_K1, top_K1 = x_KD.amin(dim=1, keepdim=True), x_KD.amax(dim=1, keepdim=True)
    scale_K1 = step_widths((top_K1 - zero_K1)[:, 0], bits)[:, None]  # (K,) -> (K, 1)
    steps_KD = torch.where(scale_K1 > 0, (x_KD - zero_K1) / scale_K1, 0.0)  # a constant row has S = 0
    return steps_KD - steps_KD.floor()


def exact_variance(rows_KD: Tensor, bits: int | Tensor) -> Tensor:
    """Compute the variance of each decoded row, given the row: ``S^2 Σ σ(1 - σ)`` (AdaQP Eqs. 15, 16).

    Args:
        rows_KD: the rows before encoding, any unit.
        bits: one bit-width, or one per row ``(K,)``.

    Returns:
        float64 ``(K,)``, squared units of the rows.

    Example:
        >>> exact_variance(torch.tensor([[0.0, 1.0, 4.0]]), 1).tolist()  # S = 4, σ = 0, 1/4, 0
        [3.0]
    """
    sigma_KD = rounding_fractions(rows_KD, bits)  # probability of rounding up
    ranges_K = (rows_KD.amax(dim=1) - rows_KD.amin(dim=1)).double()
    return step_widths(ranges_K, bits) ** 2 * (sigma_KD * (1 - sigma_KD)).sum(dim=1)  # (K, D) -> (K,)


@dataclass(frozen=True, eq=False)
class DecodedMoments:
    """Bias and variance of given rows by Theorem 1; every field is float64 ``(K,)``."""

    bias: Tensor
    """``||E[decoded] - row||``: zero. (With the codec's 16-bit noise per element, at most 2^-17 of a step.)"""
    exact: Tensor
    """``S^2 Σ σ(1 - σ)``: the variance of the given row."""
    average: Tensor
    """``D S^2 / 6``: the mean variance for uniform fractions, as stated in the paper."""
    worst: Tensor
    """``D S^2 / 4``: the upper bound."""


def decoded_moments(rows_KD: Tensor, bits: int | Tensor) -> DecodedMoments:
    """Compute bias and variance of each decoded row (AdaQP Theorem 1, Eqs. 13-17).

    Differs: the paper calls ``D S^2 / 6`` the variance. It is the average over uniform fractions; the variance of a
    given row is ``exact``, between 0 (every value on the grid) and ``worst``.

    Example:
        >>> moments = decoded_moments(torch.tensor([[0.0, 1.0, 4.0]]), 1)
        >>> moments.bias.tolist(), moments.exact.tolist(), moments.average.tolist(), moments.worst.tolist()
        ([0.0], [3.0], [8.0], [12.0])
    """
    columns = rows_KD.shape[1]
    ranges_K = (rows_KD.amax(dim=1) - rows_KD.amin(dim=1)).double()
    square_K = step_widths(ranges_K, bits) ** 2 * columns  # D S²
    return DecodedMoments(
        bias=torch.zeros_like(square_K),
        exact=exact_variance(rows_KD, bits),
        average=square_K * AVERAGE,
        worst=square_K * WORST,
    )


def received_variance(
    message_E: Tensor, row_E: Tensor, alpha_E: Tensor, variance_K: Tensor, *, num_rows: int
) -> Tensor:
    """Compute ``Σ_k α(k, v)^2 Var[k]`` for each row v: the rounding noise of messages in its aggregation.

    Args:
        message_E: index of the message, int64.
        row_E: index of the receiving row, int64 in ``[0, num_rows)``.
        alpha_E: aggregation coefficient.
        variance_K: variance of each message, for instance ``D S^2 / 6``.
        num_rows: V.

    Returns:
        float64 ``(V,)``.

    Example:
        >>> k, v = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1])
        >>> received_variance(k, v, torch.tensor([1.0, 0.5, 2.0]), torch.tensor([4.0, 3.0]), num_rows=2).tolist()
        [4.0, 13.0]
    """
    noise_E = alpha_E.double() ** 2 * variance_K.double()[message_E]  # (K,) -> (E,)
    return noise_E.new_zeros(num_rows).index_add_(0, row_E, noise_E)  # (E,) -> (V,)


def shared_variance(noise_E: Tensor, alpha_E: Tensor, variance_E: Tensor) -> float:
    """Compute ``Σ_k (Σ_v α(k, v) sd[k])^2``: the variance for unit gradients if rows share messages.

    Theorem 3 adds variances over rows v as if their noise were independent (Eq. 25). But all rows of a worker use the
    *same* decoded message k, so its error e enters the gradient as ``(Σ_v α(k, v) δ_v) e^T``, and only
    ``||Σ_v α(k, v) δ_v|| <= Σ_v α(k, v) N`` holds for any δ. Multiplied by N^2, this sum replaces
    ``N^2 Σ_v Σ_k α^2 Var[k]``.

    Args:
        noise_E: index of the rounding noise, int64 from 0; equal indices mean shared noise.
        alpha_E: aggregation coefficient.
        variance_E: variance of the message.

    Example:
        >>> shared_variance(torch.tensor([0, 0]), torch.tensor([0.5, 0.5]), torch.tensor([4.0, 4.0]))
        4.0
    """
    if noise_E.numel() == 0:
        return 0.0
    pulls_E = alpha_E.double().abs() * variance_E.double().sqrt()  # α sd
    sums = pulls_E.new_zeros(int(noise_E.max()) + 1).index_add_(0, noise_E, pulls_E)  # (E,) -> (noises,)
    return float((sums**2).sum())  # standard deviations add within shared noise, variances across


@dataclass(frozen=True)
class GradientBound:
    """The three terms of ``Q^l``, in squared units of the weight gradient."""

    product: float
    """Noise of both factors: ``Σ_v A_v B_v``."""
    from_gradients: float
    """``M^2 Σ_v B_v``: noise of gradient messages alone."""
    from_rows: float
    """``N^2 Σ_v A_v``: noise of embedding messages alone."""

    @property
    def total(self) -> float:
        """``Q^l``, a bound on ``E||dW - E dW||^2``."""
        return self.product + self.from_gradients + self.from_rows


def gradient_variance_bound(
    rows_V: Tensor, gradients_V: Tensor, *, largest_row: float, largest_gradient: float, as_printed: bool = False
) -> GradientBound:
    """Compute the bound on the variance of one layer's weight gradient (AdaQP Theorem 3, Eqs. 9, 23-28).

    The gradient is ``dW = Σ_v b_v a_v^T`` with ``a_v`` the aggregated row that W multiplies and ``b_v`` the gradient
    that reaches W's output. If the noise of the two is independent with variances A_v and B_v, then::

        Var[b_v a_v^T] = E||b_v||^2 E||a_v||^2 - ||E b_v||^2 ||E a_v||^2
                       = A_v B_v + ||E a_v||^2 B_v + ||E b_v||^2 A_v  <=  A_v B_v + M^2 B_v + N^2 A_v

    and ``Q^l`` sums this over v. With ``A_v = Σ_k α^2 D S^2 / 6``, and B_v likewise, the product has the factor 1/36.

    Not covered: noise from other layers, propagated through activations, and the correlation of rows that share a
    message (`shared_variance`).

    Differs: Eqs. 9 and 28 print 1/6 on the product; ``(1/6) (1/6) = 1/36`` follows from Eq. 27.

    Args:
        rows_V: ``A_v``, noise of the aggregated rows, from `received_variance`.
        gradients_V: ``B_v``, noise of the aggregated gradients.
        largest_row: ``M = max_v ||E a_v||`` (Assumption 2).
        largest_gradient: ``N = max_v ||E b_v||``.
        as_printed: True for 1/6 instead of 1/36; valid only if A and B use `AVERAGE`.

    Raises:
        ValueError: if A and B do not have one number per row.

    Example:
        >>> a, b = torch.tensor([6.0]), torch.tensor([6.0])
        >>> gradient_variance_bound(a, b, largest_row=1.0, largest_gradient=2.0)
        GradientBound(product=36.0, from_gradients=6.0, from_rows=24.0)
        >>> gradient_variance_bound(a, b, largest_row=1.0, largest_gradient=2.0, as_printed=True).product
        216.0
    """
    if rows_V.shape != gradients_V.shape or rows_V.dim() != 1:
        raise ValueError(
            f"rows_V and gradients_V need one number per row, got shapes {tuple(rows_V.shape)} and "
            f"{tuple(gradients_V.shape)}; sum them with received_variance"
        )
    product = float((rows_V.double() * gradients_V.double()).sum())  # Σ_v A_v B_v
    return GradientBound(
        product=product * (6 if as_printed else 1),  # A and B have the factor 1/6 each
        from_gradients=largest_row**2 * float(gradients_V.double().sum()),
        from_rows=largest_gradient**2 * float(rows_V.double().sum()),
    )
