"""Numbers with their units as text."""

from __future__ import annotations

import math

__all__ = ["human_bytes", "human_seconds"]


def human_bytes(count: float) -> str:
    """Format a number of bytes in decimal units, as for networks.

    Example:
        >>> human_bytes(999), human_bytes(1234567)
        ('999 B', '1.23 MB')
    """
    if not math.isfinite(count):
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 999.5:  # 999.5 would be rounded to four digits
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def human_seconds(seconds: float) -> str:
    """Format seconds with three digits.

    Example:
        >>> human_seconds(12.34), human_seconds(0.01234), human_seconds(0)
        ('12.3 s', '12.3 ms', '0 s')
    """
    scale, unit = (1, "s") if seconds >= 1 or seconds == 0 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    return f"{scale * seconds:.3g} {unit}"
