"""Summary of a run: a dictionary of plain numbers that is displayed with units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnnqlab.cards import card
from gnnqlab.units import human_bytes, human_seconds

__all__ = ["Summary"]


class Summary(dict[str, Any]):
    """Figures of a run by name; the same numbers as ``gnnqlab train --json``, in SI units.

    Example:
        >>> Summary({"system": "adaqp", "epoch_s": 0.01234, "bytes_sent": 51_200, "test_accuracy": 0.9375})
        system         adaqp
        epoch_s        12.3 ms
        bytes_sent     51.2 kB
        test_accuracy  93.75 %
    """

    @property
    def formatted(self) -> dict[str, str]:
        """Each figure as text with its unit."""
        return {name: _text(name, value) for name, value in self.items() if value is not None}

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.formatted.items()) or "{}"

    def _repr_html_(self) -> str:
        return card("", self.formatted, align="right")


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    form = next((form for ends, form in _FORMS.items() if name.endswith(ends) or name.startswith(ends)), None)
    return f"{value:.4g}" if form is None and isinstance(value, float) else str(value) if form is None else form(value)


def _share(value: float) -> str:
    return f"{100 * value:.2f} %"


def _joules(value: float) -> str:
    return f"{value:.3g} J"


_FORMS: dict[str, Callable[[float], str]] = {
    "_s": human_seconds,
    "energy_j": _joules,
    "_share": _share,
    "best_val": _share,
    "test_": _share,
    "bytes_": human_bytes,
    "_bytes": human_bytes,
}
"""Beginning or end of a name -> format of its number."""
