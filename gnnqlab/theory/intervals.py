"""Confidence interval of the mean of a few measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["interval"]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Compute the mean and the half-width of its 95 % confidence interval (Student's t); 0 for a single value.

    Example:
        >>> mean, half = interval([1.0, 2.0, 3.0])
        >>> mean, round(half, 3)  # 4.303 · 1 / sqrt(3)
        (2.0, 2.484)
    """
    if not values:
        raise ValueError("an interval needs at least one value, got none")
    count = len(values)
    mean = sum(values) / count
    if count == 1:
        return mean, 0.0
    from scipy.special import stdtrit  # the same quantile in scipy.stats takes twice as long to import

    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))  # n - 1: unbiased variance
    return mean, float(stdtrit(count - 1, 0.975)) * spread / math.sqrt(count)  # 2.5 % on each side
