"""A mean of a few measurements, and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["interval"]

_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""97.5 % points of Student's t for 1, 2, … 15 degrees of freedom."""


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and half the width of its 95 % interval (Student's t); 0 wide for a single value.

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
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return mean, _quantile(count - 1) * spread / math.sqrt(count)


def _quantile(freedom: int) -> float:
    """97.5 % point of Student's t; beyond the table its expansion about the normal one, off by less than 0.001."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
