"""Dot charts as SVG text: the same bytes from the same numbers, without a drawing library or a browser."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

__all__ = ["Dot", "dot_chart", "ticks"]

_SERIES = (("#0072b2", "circle"), ("#d55e00", "square"), ("#009e73", "diamond"))
"""Colour (Okabe and Ito) and shape of each series in turn; each of them alone distinguishes the series."""
_INK, _GRID = "#1a1a1a", "#d9d9d9"
_WIDTH, _NAMES, _RIGHT, _TOP, _BOTTOM, _ROW = 780, 270, 24, 62, 58, 30
"""Pixels: width of the chart, of the names, of the margins, and height of a row."""
_RADIUS = 5.5


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One measured value of a chart."""

    name: str
    """Row of the chart; dots with the same name share it."""
    series: str
    value: float
    half: float = 0.0
    """Half the width of the 95 % interval, drawn as a line; 0 draws none."""


def dot_chart(title: str, axis: str, dots: Sequence[Dot], *, reference: float) -> str:
    """Draw values as dots, one row for each name.

    Args:
        title: heading of the chart, and its text for screen readers.
        axis: quantity and unit of the horizontal axis.
        dots: at most three series.
        reference: value of the dashed vertical line, for instance that of the baseline.

    Raises:
        ValueError: if there is no dot, or there are more than three series.
    """
    names = list(dict.fromkeys(dot.name for dot in dots))
    series = list(dict.fromkeys(dot.series for dot in dots))
    if not names or len(series) > len(_SERIES):
        raise ValueError(f"a chart has at least one dot and at most {len(_SERIES)} series, got {len(dots)} of {series}")
    marks = ticks(
        min(0.0, reference, *(dot.value - dot.half for dot in dots)),
        max(reference, *(dot.value + dot.half for dot in dots)),
    )
    height = _TOP + _ROW * len(names) + _BOTTOM
    foot = height - _BOTTOM

    def x(value: float) -> float:
        share = (value - marks[0]) / (marks[-1] - marks[0])
        return round(_NAMES + share * (_WIDTH - _NAMES - _RIGHT), 1)

    def y(dot: Dot) -> float:
        # Dots of one name lie a little above and below each other, so that equal values stay visible.
        row = [each for each in dots if each.name == dot.name]
        offset = (row.index(dot) - (len(row) - 1) / 2) * (_ROW - 10) / len(row)
        return round(_TOP + _ROW * (names.index(dot.name) + 0.5) + offset, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="Helvetica, Arial, sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(12, 22, title, size=15, weight="bold"),
        *(_legend(series) if len(series) > 1 else ()),
    ]
    for mark in marks:
        parts += [_line(x(mark), _TOP, x(mark), foot, _GRID), _text(x(mark), foot + 18, _number(mark), anchor="middle")]
    parts.append(_line(x(reference), _TOP, x(reference), foot, _INK, dash="5 4"))
    parts.append(_text((_NAMES + _WIDTH - _RIGHT) / 2, foot + 42, axis, anchor="middle"))
    parts += [_text(_NAMES - 12, _TOP + _ROW * (row + 0.5) + 4, name, anchor="end") for row, name in enumerate(names)]
    for dot in dots:
        color, shape = _SERIES[series.index(dot.series)]
        center_y = y(dot)
        if dot.half:
            parts.append(_line(x(dot.value - dot.half), center_y, x(dot.value + dot.half), center_y, color, width=2))
        parts.append(_shape(shape, x(dot.value), center_y, color))
    return "\n".join([*parts, "</svg>", ""])


def ticks(low: float, high: float, *, most: int = 8) -> list[float]:
    """Return round numbers from ``low`` or below it to ``high`` or above it, in equal steps.

    Example:
        >>> ticks(0.0, 1.9)
        [0.0, 0.5, 1.0, 1.5, 2.0]
    """
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= most - 1)
    first_step, last_step = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * count, 10) for count in range(first_step, max(last_step, first_step + 1) + 1)]


def _legend(series: Sequence[str]) -> Iterator[str]:
    center_x = 12.0 + _RADIUS
    for (color, shape), name in zip(_SERIES, series, strict=False):
        yield _shape(shape, center_x, 42, color)
        yield _text(center_x + 12, 46, name)
        center_x += 36 + 7.2 * len(name)  # 7.2 pixels are a wide letter at this size


def _shape(shape: str, x: float, y: float, color: str) -> str:
    r = _RADIUS
    if shape == "circle":
        return f'<circle cx="{x}" cy="{y}" r="{r}" fill="{color}"/>'
    if shape == "square":
        return f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}" fill="{color}"/>'
    corners = f"{x},{y - r - 1:.1f} {x + r + 1:.1f},{y} {x},{y + r + 1:.1f} {x - r - 1:.1f},{y}"
    return f'<polygon points="{corners}" fill="{color}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, color: str, *, width: int = 1, dash: str = "") -> str:
    dash_attribute = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}" stroke-width="{width}"{dash_attribute}/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, weight: str = "normal") -> str:
    style = f'text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style} fill="{_INK}">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")
