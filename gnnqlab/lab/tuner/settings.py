"""One position of a tuner's knobs, presets, and what can be turned: the place of a training and the recipe of a system.

Types, defaults, choices, bounds and texts of a recipe's settings are those of
:func:`gnnqlab.systems.settings.settings_of`; here is what a screen needs beside them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from gnnqlab.bits.policy import USUAL
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.systems.settings import Setting, settings_of
from gnnqlab.systems.system import SYSTEMS, Recipe, make_system
from gnnqlab.train.config.run_config import LaunchSettings

__all__ = ["OFFERED", "PLACE", "Knob", "knobs_of", "GRAPH", "LINKS", "LOOPBACK", "PRESETS", "TunerSettings"]

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


GRAPH = "sbm:4000,4,20"
"""Tuned where none is given: with four workers on two hosts every knob shows on it."""
LOOPBACK = "loopback"
"""The link of workers that share one machine."""
LINKS = (LOOPBACK, "10mbit", "50mbit", "100mbit", "200mbit", "500mbit", "1gbit", "10gbit")
"""Offered; a `TunerSettings` takes any rate."""
_HOSTS = 2
"""Emulated hosts wherever there is a link."""


@dataclass(frozen=True, kw_only=True)
class TunerSettings:
    """One position of all knobs; those of the system read like fields: ``settings.lam``."""

    system: str = "adaqp"
    """A registered system."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """What its recipe is told, by the recipe's names; what is left out has its default."""
    workers: int = 4
    """2 to 8."""
    model: str = "gcn"
    """A registered model."""
    layers: int = 3
    """1 to 6."""
    hidden: int = 256
    """8 to 512."""
    link: str = "100mbit"
    """Rate of the wire between two emulated hosts, or ``loopback``."""

    def __post_init__(self) -> None:
        own = {knob.setting: knob.default for knob in knobs_of(self.system).values()}
        several = {knob.setting for knob in knobs_of(self.system).values() if knob.kind == "several"}
        told = {**own, **self.told}
        ordered = {name: tuple(sorted(set(told[name]))) if name in several else told[name] for name in told}
        object.__setattr__(self, "told", ordered)
        for name, knob in self.knobs.items():
            knob.check(name, self.value(name))
        make_system(self.system, **self.told)
        ModelSettings(name=self.model, layers=self.layers, hidden=self.hidden)
        if self.link != LOOPBACK:
            LaunchSettings(hosts=_HOSTS, link=self.link)
            if self.workers % _HOSTS:
                raise ValueError(
                    f"workers must be even to share {_HOSTS} hosts, got {self.workers}; or choose link {LOOPBACK}"
                )

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """Every knob that there is for this system, by name."""
        return {**knobs_of(self.system), **PLACE}

    def value(self, name: str) -> Any:
        """Return where a knob stands."""
        return getattr(self, name) if name in PLACE else self.told[knobs_of(self.system)[name].setting]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("system", "told") or name not in knobs_of(self.system):
            raise AttributeError(f"{type(self).__name__} has no knob {name!r}")
        return self.value(name)

    @property
    def place(self) -> tuple[Any, ...]:
        """What a probe depends on."""
        return tuple(getattr(self, name) for name in PLACE)

    @property
    def where(self) -> dict[str, Any]:
        """Settings of `gnnqlab.configure` for this link."""
        return {} if self.link == LOOPBACK else {"hosts": _HOSTS, "link": self.link}

    @property
    def assigns(self) -> bool:
        """Whether the system weighs variance against time, so that there is a front over λ."""
        return "lam" in self.told

    @property
    def steerable(self) -> dict[str, Any]:
        """What of the recipe's settings can change while a run trains."""
        bits = make_system(self.system, **self.told).bits
        return {name: self.told[name] for name in bits.steerable if name in self.told}

    def changed(self, changes: Mapping[str, Any]) -> TunerSettings:
        """Return another position. Another system keeps what both are told by the same name, type and default.

        Raises:
            ValueError: if a value is out of its range, or there is no such knob.
            TypeError: if a value is of the wrong kind.

        Example:
            >>> TunerSettings().changed({"lam": 0.2, "widths": [8, 2]}).told["among"]
            (2, 8)
            >>> TunerSettings().changed({"system": "bns-gcn", "p": 0.5}).told
            {'p': 0.5, 'attention': 'weights'}
        """
        system = changes.get("system", self.system)
        knobs = knobs_of(system)
        place = {name: value for name, value in changes.items() if name in PLACE}
        names = {**{knob.setting: knob.setting for knob in knobs.values()}, **{n: k.setting for n, k in knobs.items()}}
        unknown = sorted(set(changes) - set(names) - set(PLACE) - {"system"})
        if unknown:
            raise ValueError(f"a tuner has the knobs {sorted({'system', *knobs, *PLACE})}, got {unknown}")
        before = {knob.setting: knob.default for knob in knobs_of(self.system).values()}
        same = {knob.setting for knob in knobs.values() if before.get(knob.setting, _NONE) == knob.default}
        told = {name: value for name, value in self.told.items() if name in same or system == self.system}
        told |= {names[name]: value for name, value in changes.items() if name in names}
        return dataclasses.replace(self, system=system, told=told, **place)


_NONE = object()

PRESETS: dict[str, dict[str, Any]] = {
    "AdaQP": {"lam": 0.5, "group_size": 100, "period": 50, "widths": (2, 4, 8)},
    "fastest": {"lam": 0.0, "group_size": 100, "period": 50, "widths": (2, 4, 8)},
    "least noise": {"lam": 1.0, "group_size": 10, "period": 10, "widths": (2, 4, 8)},
    "always 8 bits": {"lam": 0.5, "group_size": 100, "period": 50, "widths": (8,)},
    "always 2 bits": {"lam": 0.5, "group_size": 100, "period": 50, "widths": (2,)},
}
"""Positions by name: AdaQP's own (Table 8), the two ends of λ, and one width for all rows."""
