"""A mean of a few measurements, and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["interval"]

_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""97.5 % points of Student's t for 1, 2, … 9 degrees of freedom."""


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
    factor = _T[count - 2] if count - 2 < len(_T) else 1.96
    return mean, factor * spread / math.sqrt(count)
