"""What Lloyd-Max levels leave of a rotated row: its squared error over its squared norm, by bits and columns."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

from gnnqlab.kernels.reference.rotate import LEVELS

__all__ = ["relative_error"]


@functools.cache
def relative_error(bits: int, columns: int) -> float:
    """Return ``E|x - S R' q|^2 / |x|^2`` of a row whose rotation is uniform, with ``S = |x|^2 / <R x, q>``.

    The error is ``A / B^2 - 1`` with ``A = |q|^2 / D``, ``B = <z, q> / D`` and ``z = sqrt(D) R x / |x|``. Elements of
    long rows are standard normal and levels are the means of what is nearest to them, so ``A = B = E[q^2]`` and the
    error is ``e = 1 / E[q^2] - 1`` (EDEN, ICML 2022; ``pi/2 - 1`` at one bit, DRIVE, NeurIPS 2021).

    A row of D elements lies on a sphere, so its tails are lighter and levels serve it better. To first order the error
    is ``e (1 - k/D)``; ``e / (1 + k/D)`` is the same to that order and positive for every D. From the marginal of the
    sphere, ``E f(z) = E f(g) - E[(g^4 - 6 g^2 + 3) f(g)] / 4D``, and the variances that are left where ``|z|`` is
    given, ``(Var f - Cov(f, g^2)^2 / 2) / D``, follows k: 0.8, 2.4, 3.8 and 4.8 at 1 to 4 bits.

    Args:
        bits: 1, 2, 3 or 4.
        columns: D. Below 20 the rotation is far from uniform, and this is a guide only: spiky rows leave up to twice
            as much.

    Example:
        >>> [round(relative_error(bits, 10**9), 4) for bits in (1, 2, 3, 4)]
        [0.5708, 0.1331, 0.0358, 0.0096]
        >>> round(relative_error(2, 64) / relative_error(2, 10**9), 3)
        0.963
    """
    limit, slope = _expansion(LEVELS[bits])
    return limit / (1 + slope / columns)


def _expansion(levels: Sequence[float]) -> tuple[float, float]:
    """Return e and k of positive levels."""
    ends = [0.0, *((low + high) / 2 for low, high in itertools.pairwise(levels)), math.inf]
    moments = [_moments(*between) for between in itertools.pairwise(ends)]

    def mean(of_level: int, of_value: int) -> float:
        """``E[q^i z^j]``; i + j is even, so both signs count the same."""
        return 2 * sum(level**of_level * known[of_value] for level, known in zip(levels, moments, strict=True))

    def hermite(of_level: int, of_value: int) -> float:
        return mean(of_level, of_value + 4) - 6 * mean(of_level, of_value + 2) + 3 * mean(of_level, of_value)

    kept = mean(2, 0)  # E[q^2], and E[z q] too
    square, product = mean(2, 2) - kept, mean(1, 3) - kept  # covariances with z^2 of q^2 and of z q
    of_product = mean(2, 2) - kept**2 - product**2 / 2
    of_both = mean(3, 1) - kept**2 - square * product / 2
    more = -(hermite(2, 0) - 2 * hermite(1, 1)) / (4 * kept**2) + (3 * of_product - 2 * of_both) / kept**3
    limit = 1 / kept - 1
    return limit, -more / limit


def _moments(low: float, high: float) -> list[float]:
    """Return ``E[z^j; low < z < high]`` of a standard normal, j from 0 to 5."""

    def edge(end: float, power: int) -> float:
        return 0.0 if math.isinf(end) else end**power * math.exp(-end * end / 2) / math.sqrt(2 * math.pi)

    found = [(math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2, edge(low, 0) - edge(high, 0)]
    for power in range(2, 6):
        found.append(edge(low, power - 1) - edge(high, power - 1) + (power - 1) * found[power - 2])
    return found
