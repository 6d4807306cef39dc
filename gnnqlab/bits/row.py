"""Bytes of a row on the wire: its payload, and the quantization parameters of its codec."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

__all__ = ["EXACT", "ParamBytes", "row_bytes", "two_parameters"]

EXACT = 32
"""Bit-width of unchanged float32: no rounding, no quantization parameters."""

ParamBytes = Callable[[int, int], int]
"""A codec's ``param_bytes``: (bit-width, columns D) -> bytes of quantization parameters per row."""


def two_parameters(each: int) -> ParamBytes:
    """Return the ``param_bytes`` of stochastic codecs: zero-point and scale of ``each`` bytes; 0 for float32 rows.

    Example:
        >>> of = two_parameters(2)
        >>> of(8, 5), of(32, 5)
        (4, 0)
    """
    return partial(_two, each)


def _two(parameter_bytes: int, width: int, columns: int) -> int:
    return 0 if width == EXACT else 2 * parameter_bytes


def row_bytes(width: int, columns: int, param_bytes: ParamBytes) -> int:
    """Return the bytes of one row: ``ceil(D · b / 8)`` of payload, and its quantization parameters.

    Example:
        >>> row_bytes(2, 5, two_parameters(4)), row_bytes(32, 5, two_parameters(4))
        (10, 20)
    """
    return -(-columns * width // 8) + param_bytes(width, columns)  # -(-a // b): division rounded up
