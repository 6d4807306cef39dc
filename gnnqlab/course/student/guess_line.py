"""Drawing of one guess and its measurement on a line, as a small SVG in the colours of its page."""

from __future__ import annotations

import html
import math
from collections.abc import Callable

__all__ = ["digits", "guess_line"]

_WIDTH, _MARGIN = 560, 70
_LOG_FROM = 4.0
"""Ratio from which the axis is logarithmic."""


def guess_line(measured: float, guess: float | None, *, label: str) -> str:
    """Return the SVG of a line with a dot for the measurement and a diamond for the guess.

    Args:
        measured: the measurement, any unit.
        guess: the guess in the same unit, or ``None``.
        label: name of the quantity, for screen readers.

    Example:
        >>> picture = guess_line(12.5, 4, label="bytes")
        >>> picture.count("<circle"), picture.count("<path"), "your guess 4" in picture
        (1, 1, True)
    """
    values = [measured] if guess is None else [measured, guess]
    place, is_log = _axis(values)
    name = html.escape(
        f"{label}: measured {digits(measured)}" + ("" if guess is None else f", guessed {digits(guess)}")
    )
    # currentColor follows light and dark pages; shape and text differ, so colour carries nothing alone.
    parts = [
        f'<svg role="img" aria-label="{name}" viewBox="0 0 {_WIDTH} 48" width="{_WIDTH}" height="48" '
        'style="max-width:100%" font-size="12" font-family="sans-serif" fill="currentColor">',
        f'<line x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="24" y2="24" stroke="currentColor" opacity="0.4"/>',
        f'<circle cx="{place(measured):.0f}" cy="24" r="6" fill="#0072B2"/>',
        f'<text x="{place(measured):.0f}" y="13" text-anchor="middle">measured {digits(measured)}</text>',
    ]
    if not is_log and 0.0 not in values:  # the left end, so that a length means something
        parts.append(f'<text x="{place(0.0):.0f}" y="40" text-anchor="middle" opacity="0.7">0</text>')
    if guess is not None:
        x = place(guess)
        parts += [
            f'<path d="M{x:.0f} 16l8 8-8 8-8-8z" fill="none" stroke="#D55E00" stroke-width="2.5"/>',
            f'<text x="{x:.0f}" y="44" text-anchor="middle">your guess {digits(guess)}</text>',
        ]
    return "".join([*parts, "</svg>"])


def digits(value: float) -> str:
    """Return a number with as many digits as a guess has use for.

    Example:
        >>> digits(12.5), digits(3.14), digits(1234.5), digits(2.4e-7)
        ('12.5', '3.1', '1234', '2.4e-07')
    """
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}" if abs(value) >= 10 else f"{value:.2g}"


def _axis(values: list[float]) -> tuple[Callable[[float], float], bool]:
    """Return the function from a value to its position, and True if the axis is logarithmic."""
    is_log = min(values) > 0 and max(values) / min(values) >= _LOG_FROM
    low, high = (min(values), max(values)) if is_log else (min([0.0, *values]), max([0.0, *values]))
    span = _WIDTH - 2 * _MARGIN

    def place(value: float) -> float:
        if high == low:
            return _WIDTH / 2
        share = math.log(value / low) / math.log(high / low) if is_log else (value - low) / (high - low)
        return _MARGIN + share * span

    return place, is_log
