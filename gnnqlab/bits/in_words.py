"""Bit-widths as readable text."""

from __future__ import annotations

__all__ = ["human_bits"]


def human_bits(bits: float) -> str:
    """Format a bit-width, or a mean of bit-widths, with its unit.

    Example:
        >>> human_bits(1), human_bits(2), human_bits(1.0), human_bits(10.5)
        ('1 bit', '2 bits', '1 bit', '10.5 bits')
    """
    number = f"{bits:.3g}"
    return f"{number} bit" if number == "1" else f"{number} bits"
