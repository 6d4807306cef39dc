"""Numbers along a logarithmic axis: few, of one size, and legible.

Plotly writes the steps between powers of ten three quarters as large, as bare digits (9, 8, 7 ...) that lie on each
other in a small panel, and exponents smaller still.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["log_ticks", "name_powers", "power_texts", "value_ticks"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_FEW_DECADES, _MOST_LABELS = 2.4, 7
_EVEN = 7
"""Plotly spaces numbers evenly on less than a decade, its own room at both ends included."""


def power_texts(values: Sequence[float]) -> list[str]:
    """Return the numbers of one axis in one notation and in letters of one size; as powers where one has to be.

    Example:
        >>> power_texts([0.02, 0.05, 20]), power_texts([1e-4, 1e-2, 1, 2]), power_texts([1e3, 1e5])
        (['0.02', '0.05', '20'], ['10⁻⁴', '10⁻²', '1', '2'], ['10³', '10⁵'])
    """
    plain = all(value == 0 or 1e-3 <= abs(value) < 1e4 for value in values)
    return [f"{value:g}" if plain or value == 0 or 1 <= abs(value) <= 10 else _power(value) for value in values]


def _power(value: float) -> str:
    mantissa, _, exponent = f"{value:.6e}".partition("e")
    raised = f"10{str(int(exponent)).translate(_RAISED)}"
    return raised if float(mantissa) == 1 else f"{float(mantissa):g}·{raised}"


def log_ticks(low: float, high: float) -> list[float]:
    """Return where numbers stand between two positive ends, and one step beyond: powers of ten, or 1, 2, 5 of each.

    Example:
        >>> log_ticks(0.04, 1.5)
        [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
        >>> log_ticks(1e-6, 1.0)[:3]
        [1e-07, 1e-06, 1e-05]
    """
    span = math.log10(high / low)
    if span > _FEW_DECADES:
        step = max(1, math.ceil(span / _MOST_LABELS))
        first = step * math.floor(math.log10(low) / step)
        powers = range(first - step, math.ceil(math.log10(high)) + step + 1, step)
        return [float(f"1e{power}") for power in powers if low / 10**step <= 10.0**power <= high * 10**step]
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    marks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    below, above = [mark for mark in marks if mark < low][-1:], [mark for mark in marks if mark > high][:1]
    return below + [mark for mark in marks if low <= mark <= high] + above


def value_ticks(values: Sequence[Any], *, log: bool = True, most: int = 12) -> dict[str, Any]:
    """Return the settings of an axis whose ticks are the values themselves, such as numbers of workers.

    Args:
        values: in any order, also more than once.
        log: whether the axis is logarithmic.
        most: ticks; of more values every second, third ... one has a tick.

    Example:
        >>> value_ticks([4, 1, 2])
        {'type': 'log', 'tickvals': [1, 2, 4], 'ticktext': ['1', '2', '4'], 'tickangle': 0}
    """
    each = sorted(set(values))
    each = each[:: -(-len(each) // most)]
    return {"type": "log" if log else "linear", "tickvals": each, "ticktext": [f"{v:g}" for v in each], "tickangle": 0}


def name_powers(figure: Figure) -> None:
    """Give every logarithmic axis that does not name its ticks itself numbers of one size.

    Axes that show the same range (``matches``) get the same. An axis of well less than a decade stays Plotly's, whose
    numbers are evenly spaced there.

    Args:
        figure: with all its traces.
    """
    layout = figure.layout.to_plotly_json()
    axes = {name: axis for name, axis in layout.items() if name.startswith(("xaxis", "yaxis"))}
    families: dict[str, list[str]] = {}
    for name, axis in axes.items():
        families.setdefault(axis.get("matches", name.replace("axis", "")), []).append(name)
    for names in families.values():
        if not any(axes[name].get("type") == "log" for name in names) or any(
            {"tickvals", "tickformat", "dtick"} & set(axes[name]) for name in names
        ):
            continue
        found = [value for name in names for value in _values(figure, name)]
        if not found or max(found) < _EVEN * min(found):
            continue
        places = log_ticks(min(found), max(found))
        named = {"tickvals": places, "ticktext": power_texts(places)}
        figure.update_layout(dict.fromkeys(names, named))


def _values(figure: Figure, axis: str) -> Iterable[float]:
    """The positive numbers that are drawn along an axis, ends of intervals among them."""
    way, short = axis[0], axis.replace("axis", "")
    for trace in figure.data:
        if (getattr(trace, f"{way}axis", None) or way) == short:
            values: Any = getattr(trace, way, None)
            drawn = [] if values is None else list(values)
            halves: Any = getattr(getattr(trace, f"error_{way}", None), "array", None)
            known = [
                pair
                for pair in zip(drawn, () if halves is None else halves, strict=False)
                if all(map(_is_positive, pair))
            ]
            ends = [end for value, half in known for end in (value - half, value + half)]
            yield from (value for value in drawn + ends if _is_positive(value))


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
