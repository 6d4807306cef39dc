"""What can be turned on a tuner: the place of a training, and whatever the recipe of a system can be told.

Types, defaults, choices, bounds and texts of a recipe's settings are those of
:func:`gnnqlab.systems.settings.settings_of`; here is what a screen needs beside them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from gnnqlab.bits.policy import USUAL
from gnnqlab.systems.settings import Setting, settings_of
from gnnqlab.systems.system import SYSTEMS, Recipe

__all__ = ["OFFERED", "PLACE", "Knob", "knobs_of"]

OFFERED = tuple(width for width in USUAL if width <= 8)
"""Bit-widths that a tuner has boxes for, unless a system starts with others."""
_LABELS = {"lam": "λ", "delta": "δ"}
_ENDS = {"group_size": 1000, "period": 200}
"""How far sliders go whose setting has no end."""
_TIMES = 10
"""So far as a default goes a slider that nobody says more about."""
_LONG = 500
"""A slider that goes further counts in powers of ten."""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """What a control is called, what it does, and how far it goes."""

    label: str
    help: str
    """With unit and range; shown on hover."""
    kind: str = "number"
    """``number``, ``choice``, ``several``, ``numbers``, ``switch`` or ``text``."""
    least: float = 0
    most: float = 0
    whole: bool = True
    """Whether it is a whole number."""
    choices: tuple[Any, ...] = ()
    setting: str = ""
    """What the recipe calls it; empty for the place."""
    default: Any = None

    @property
    def logarithmic(self) -> bool:
        """Whether its slider counts in powers of ten."""
        return bool(self.setting) and self.whole and self.least > 0 and self.most > _LONG

    def check(self, name: str, value: Any) -> None:
        """Refuse what the control cannot show.

        Raises:
            TypeError: if it is no number.
            ValueError: if it is out of range, or nothing is chosen.
        """
        if self.kind == "several" and not value:
            raise ValueError(f"{name} must be some of {self.choices}, got an empty choice; tick at least one")
        if self.kind == "numbers" and (isinstance(value, str) or not all(isinstance(each, Real) for each in value)):
            raise TypeError(f"{name} must be numbers with commas between, got {value!r}")
        if self.kind != "number":
            return
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            raise TypeError(f"{name} must be a {'whole ' if self.whole else ''}number, got {value!r}")
        if not self.least <= value <= self.most:
            raise ValueError(f"{name} must lie in [{self.least:g}, {self.most:g}], got {value}")


PLACE = {
    "workers": Knob(label="Workers", help="Processes that share the graph; 2 to 8", least=2, most=8),
    "model": Knob(label="Model", help="Which graph neural network is trained", kind="choice"),
    "layers": Knob(label="Layers", help="Graph layers, the depth of the model; 1 to 6", least=1, most=6),
    "hidden": Knob(label="Hidden size", help="Numbers in a row between layers; 8 to 512", least=8, most=512),
    "link": Knob(
        label="Link", help="Rate of the wire between two emulated hosts, bits per second; or one machine", kind="choice"
    ),
}
"""Settings whose change needs another probe, by name."""


def knobs_of(system: str) -> Mapping[str, Knob]:
    """Return the knobs of a system's own settings, by the names of their options, in the order of its recipe.

    Raises:
        ValueError: if there is no such system.

    Example:
        >>> knobs_of("adaqp")["widths"].setting, knobs_of("bns-gcn")["boundary_share"].most
        ('among', 1)
    """
    if system not in SYSTEMS:
        raise ValueError(f"system must be one of {sorted(SYSTEMS)}, got {system!r}")
    return _knobs(SYSTEMS[system])


@functools.cache
def _knobs(recipe: Recipe) -> Mapping[str, Knob]:
    found = {}
    for setting in settings_of(recipe):
        knob = _knob(setting)
        if knob is not None:
            found[(setting.option or setting.name).replace("-", "_")] = knob
    return found


def _knob(setting: Setting) -> Knob | None:
    """Return the knob of one setting; ``None`` if a screen has no control for its type."""
    name = (setting.option or setting.name).replace("-", "_")
    label = _LABELS.get(name, name.replace("_", " ").capitalize())
    words = " ".join(setting.help.replace("``", "").split()).rstrip(".") or f"{label} of the system"
    shared: dict[str, Any] = {"label": label, "setting": setting.name, "default": setting.default}
    if setting.kind is bool:
        return Knob(kind="switch", help=words, **shared)
    if setting.many and setting.choices:
        known = [each for each in setting.choices if each in OFFERED or each in setting.default]
        text = f"{words}; at least one of {', '.join(map(str, known))}"
        return Knob(kind="several", help=text, choices=tuple(known), **shared)
    if setting.many:
        return Knob(kind="numbers", help=f"{words}; numbers with commas between", **shared)
    if setting.choices:
        return Knob(kind="choice", help=words, choices=setting.choices, **shared)
    if setting.kind in (int, float):
        least = min(0, setting.default) if setting.low is None else setting.low
        most = setting.high if setting.high is not None else _ENDS.get(name, max(1, _TIMES * setting.default))
        text = f"{words}; {least:g} to {most:g}"
        return Knob(help=text, least=least, most=most, whole=setting.kind is int, **shared)
    return Knob(kind="text", help=words, **shared) if setting.kind is str else None
