"""Numbers with their units as text."""

from __future__ import annotations

import math

__all__ = ["format_power", "human_bytes", "human_seconds"]


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
    """Format seconds with three digits, from two minutes on as minutes, from two hours on as hours.

    Example:
        >>> human_seconds(12.34), human_seconds(0.01234), human_seconds(0), human_seconds(150), human_seconds(9000)
        ('12.3 s', '12.3 ms', '0 s', '2.5 min', '2.5 h')
    """
    units = ((7200, 3600, "h"), (120, 60, "min"), (1, 1, "s"), (1e-3, 1e-3, "ms"), (0, 1e-6, "µs"))
    length, unit = next(((length, unit) for least, length, unit in units if seconds >= least), (1, "s"))
    return "0 s" if seconds == 0 else f"{seconds / length:.3g} {unit}"


def format_power(number: float) -> str:
    """Return a number with two digits, with a power of ten instead of ``e-``, at which a line could break.

    Example:
        >>> format_power(2.5e-05), format_power(0.034), format_power(120.0)
        ('2.5·10⁻⁵', '0.034', '120')
    """
    if number == 0 or 1e-3 <= abs(number) < 1e4:
        return f"{number:.2g}" if abs(number) < 100 else f"{number:.0f}"
    digits, _, exponent = f"{number:.1e}".partition("e")  # 2.5e-05 -> "2.5", "-05"
    return f"{digits}·10{str(int(exponent)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
