"""Tick labels of logarithmic axes: few, of one size, and legible.

Plotly writes the steps between powers of ten at three quarters of the size, as bare digits (9, 8, 7 ...) that overlap
in a small panel, and exponents even smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["log_ticks", "name_powers", "power_texts", "value_ticks"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_FEW_DECADES, _MAX_LABELS = 2.4, 7
_EVEN = 7
"""Largest ratio of values at which Plotly labels an axis evenly: less than a decade with its margins included."""


def power_texts(values: Sequence[float]) -> list[str]:
    """Return the labels of one axis in one notation and size: as powers of ten if any value needs it.

    Example:
        >>> power_texts([0.02, 0.05, 20]), power_texts([1e-4, 1e-2, 1, 2]), power_texts([1e3, 1e5])
        (['0.02', '0.05', '20'], ['10⁻⁴', '10⁻²', '1', '2'], ['10³', '10⁵'])
    """
    is_plain = all(value == 0 or 1e-3 <= abs(value) < 1e4 for value in values)
    return [f"{value:g}" if is_plain or value == 0 or 1 <= abs(value) <= 10 else _power(value) for value in values]


def _power(value: float) -> str:
    mantissa, _, exponent = f"{value:.6e}".partition("e")  # 2.5e-05 -> "2.500000", "-05"
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    return power if float(mantissa) == 1 else f"{float(mantissa):g}·{power}"


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks between two positive ends and one step beyond: powers of ten, or 1, 2 and 5 times each.

    Example:
        >>> log_ticks(0.04, 1.5)
        [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
        >>> log_ticks(1e-6, 1.0)[:3]
        [1e-07, 1e-06, 1e-05]
    """
    span = math.log10(high / low)  # decades between the ends
    if span > _FEW_DECADES:  # powers of ten only, several decades apart if there are many
        step = max(1, math.ceil(span / _MAX_LABELS))
        # A multiple of the step, so that ticks do not move with the ends.
        first_power = step * math.floor(math.log10(low) / step)
        powers = range(first_power - step, math.ceil(math.log10(high)) + step + 1, step)
        return [float(f"1e{power}") for power in powers if low / 10**step <= 10.0**power <= high * 10**step]
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    # Parsed from text, because 5 * 10.0**-6 differs from 5e-6 in the last digit.
    marks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    # One tick beyond each end, because axes have margins.
    lower_ticks, upper_ticks = [mark for mark in marks if mark < low][-1:], [mark for mark in marks if mark > high][:1]
    return lower_ticks + [mark for mark in marks if low <= mark <= high] + upper_ticks


def value_ticks(values: Sequence[Any], *, log: bool = True, most: int = 12) -> dict[str, Any]:
    """Return the settings of an axis whose ticks are the values themselves, such as numbers of workers.

    Args:
        values: numbers in any order; duplicates are allowed.
        log: True for a logarithmic axis.
        most: largest number of ticks; of more values every second, third ... one has a tick.

    Example:
        >>> value_ticks([4, 1, 2])
        {'type': 'log', 'tickvals': [1, 2, 4], 'ticktext': ['1', '2', '4'], 'tickangle': 0}
    """
    ticks = sorted(set(values))
    ticks = ticks[:: -(-len(ticks) // most)]  # -(-a // b): division rounded up
    return {
        "type": "log" if log else "linear",
        "tickvals": ticks,
        "ticktext": [f"{v:g}" for v in ticks],
        "tickangle": 0,
    }


def name_powers(figure: Figure) -> None:
    """Set tick labels of one size on every logarithmic axis that has none of its own.

    Axes that share a range (``matches``) get the same ticks. An axis of well under a decade keeps Plotly's, which are
    evenly spaced there.

    Args:
        figure: figure with all its traces.
    """
    layout = figure.layout.to_plotly_json()
    axes = {name: axis for name, axis in layout.items() if name.startswith(("xaxis", "yaxis"))}
    families: dict[str, list[str]] = {}  # reference of the shared axis, such as "x2" -> names of axes
    for name, axis in axes.items():
        families.setdefault(axis.get("matches", name.replace("axis", "")), []).append(name)
    for names in families.values():
        if not any(axes[name].get("type") == "log" for name in names) or any(
            {"tickvals", "tickformat", "dtick"} & set(axes[name]) for name in names
        ):
            continue
        values = [value for name in names for value in _values(figure, name)]
        if not values or max(values) < _EVEN * min(values):
            continue  # Plotly's ticks are even there
        places = log_ticks(min(values), max(values))
        settings = {"tickvals": places, "ticktext": power_texts(places)}
        figure.update_layout(dict.fromkeys(names, settings))  # the same ticks on all axes that share a range


def _values(figure: Figure, axis: str) -> Iterable[float]:
    """Yield the positive numbers that are drawn along an axis, with the ends of error bars."""
    way, reference = axis[0], axis.replace("axis", "")
    for trace in figure.data:
        if (getattr(trace, f"{way}axis", None) or way) == reference:
            values: Any = getattr(trace, way, None)
            drawn_values = [] if values is None else list(values)
            halves: Any = getattr(getattr(trace, f"error_{way}", None), "array", None)
            known_pairs = [
                pair
                for pair in zip(drawn_values, () if halves is None else halves, strict=False)
                if all(map(_is_positive, pair))
            ]
            # Ends of error bars widen the axis too.
            ends = [end for value, half in known_pairs for end in (value - half, value + half)]
            yield from (value for value in drawn_values + ends if _is_positive(value))


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
