"""Relative squared error of a rotated row with Lloyd-Max levels, by bit-width and columns."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

from gnnqlab.kernels.reference.rotate import LEVELS

__all__ = ["relative_error"]


@functools.cache
def relative_error(bits: int, columns: int) -> float:
    """Return ``E|x - S R' q|^2 / |x|^2`` for a uniform random rotation, with ``S = |x|^2 / <R x, q>``.

    The error is ``A / B^2 - 1`` with ``A = |q|^2 / D``, ``B = <z, q> / D`` and ``z = sqrt(D) R x / |x|``. Elements of
    long rotated rows are standard normal, and each level is the mean of the values nearest to it, so ``A = B = E[q^2]``
    and the error is ``e = 1 / E[q^2] - 1`` (EDEN, ICML 2022; ``pi/2 - 1`` at one bit, DRIVE, NeurIPS 2021).

    A row of D elements lies on a sphere, so its tails are lighter and its error is smaller. To first order the error is
    ``e (1 - k/D)``; ``e / (1 + k/D)`` agrees to that order and is positive for every D. With the marginal distribution
    on the sphere, ``E f(z) = E f(g) - E[(g^4 - 6 g^2 + 3) f(g)] / 4D``, and the variances conditional on ``|z|``,
    ``(Var f - Cov(f, g^2)^2 / 2) / D``, k is 0.8, 2.4, 3.8 and 4.8 at 1 to 4 bits.

    Args:
        bits: 1, 2, 3 or 4.
        columns: D. Below 20 the rotation is far from uniform and the result is approximate: the error of rows with a
            few large elements is up to twice as large.

    Example:
        >>> [round(relative_error(bits, 10**9), 4) for bits in (1, 2, 3, 4)]
        [0.5708, 0.1331, 0.0358, 0.0096]
        >>> round(relative_error(2, 64) / relative_error(2, 10**9), 3)
        0.963
    """
    limit, slope = _expansion(LEVELS[bits])
    # Not e (1 - k/D), which is negative for few columns.
    return limit / (1 + slope / columns)


def _expansion(levels: Sequence[float]) -> tuple[float, float]:
    """Return e and k of a symmetric quantizer with these positive levels."""
    # A value is rounded to the nearest level, so decision bounds lie midway; symmetric, so half of them suffice.
    ends = [0.0, *((low + high) / 2 for low, high in itertools.pairwise(levels)), math.inf]
    moments = [_moments(*bounds) for bounds in itertools.pairwise(ends)]

    def mean(of_level: int, of_value: int) -> float:
        """Return ``E[q^i z^j]``; i + j is even, so both signs contribute equally."""
        return 2 * sum(level**of_level * moment[of_value] for level, moment in zip(levels, moments, strict=True))

    def hermite(of_level: int, of_value: int) -> float:
        """Return ``E[(z^4 - 6 z^2 + 3) q^i z^j]``."""
        return mean(of_level, of_value + 4) - 6 * mean(of_level, of_value + 2) + 3 * mean(of_level, of_value)

    energy = mean(2, 0)  # E[q^2] = E[z q] for Lloyd-Max levels
    square, product = mean(2, 2) - energy, mean(1, 3) - energy  # covariances with z^2 of q^2 and of z q
    of_product = mean(2, 2) - energy**2 - product**2 / 2  # conditional on |z|: variance of z q
    of_both = mean(3, 1) - energy**2 - square * product / 2  # conditional on |z|: covariance of q^2 and z q
    # Second-order Taylor expansion of A / B^2 around its limit; the result is D times the correction of the error.
    change = -(hermite(2, 0) - 2 * hermite(1, 1)) / (4 * energy**2) + (3 * of_product - 2 * of_both) / energy**3
    limit = 1 / energy - 1
    return limit, -change / limit  # e and k


def _moments(low: float, high: float) -> list[float]:
    """Return the partial moments ``E[z^j; low < z < high]`` of a standard normal, j from 0 to 5."""

    def edge(end: float, power: int) -> float:
        return 0.0 if math.isinf(end) else end**power * math.exp(-end * end / 2) / math.sqrt(2 * math.pi)

    moments = [(math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2, edge(low, 0) - edge(high, 0)]
    for power in range(2, 6):  # integration by parts: E[z^j] = [-z^(j-1) phi(z)] + (j - 1) E[z^(j-2)]
        moments.append(edge(low, power - 1) - edge(high, power - 1) + (power - 1) * moments[power - 2])
    return moments
