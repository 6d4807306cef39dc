"""What a row takes on the wire: its payload, and the parameters that its codec puts beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

__all__ = ["EXACT", "ParamBytes", "row_bytes", "two_parameters"]

EXACT = 32
"""This width is float32 as it stands: no rounding, no parameters."""

ParamBytes = Callable[[int, int], int]
"""A codec's ``param_bytes``: width of a row and its columns -> bytes of its parameters."""


def two_parameters(each: int) -> ParamBytes:
    """Return the parameters of stochastic codes: zero-point and scale of so many bytes each, none where rows are exact.

    Example:
        >>> of = two_parameters(2)
        >>> of(8, 5), of(32, 5)
        (4, 0)
    """
    return partial(_two, each)


def _two(each: int, width: int, columns: int) -> int:
    return 0 if width == EXACT else 2 * each


def row_bytes(width: int, columns: int, param_bytes: ParamBytes) -> int:
    """Return what one row takes: ``ceil(D · b / 8)`` of payload, and its parameters.

    Example:
        >>> row_bytes(2, 5, two_parameters(4)), row_bytes(32, 5, two_parameters(4))
        (10, 20)
    """
    return -(-columns * width // 8) + param_bytes(width, columns)
