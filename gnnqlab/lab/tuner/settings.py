"""Positions of a tuner's knobs, presets, and the knobs: settings of a system's recipe, and of workers, model and link.

Types, defaults, choices, bounds and texts of a recipe's settings come from
:func:`gnnqlab.systems.settings.settings_of`; this file adds what a screen needs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from gnnqlab.bits.policy import USUAL
from gnnqlab.former_names import with_present_names
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.systems.registry import SYSTEMS, Recipe, make_system
from gnnqlab.systems.settings import Setting, settings_of
from gnnqlab.train.config.run_config import LaunchSettings

__all__ = ["OFFERED", "PLACE", "Knob", "knobs_of", "GRAPH", "LINKS", "LOOPBACK", "PRESETS", "TunerSettings"]

OFFERED = tuple(width for width in USUAL if width <= 8)
"""Bit-widths with a box in the tuner; the defaults of a system have one too."""
_LABELS = {"lam": "λ", "delta": "δ", "when": "Assignment", "as_released": "As in released code"}
_END_WORDS = {"lam": ("0: fastest", "1: least noise")}
"""Words at the ends of a slider."""
_ENDS = {"group_size": 1000, "period": 200}
"""Upper ends of sliders whose setting has no bound."""
_TIMES = 10
"""Upper end of other sliders without a bound, as a multiple of the default."""
_LONG = 500
"""Upper end beyond which a slider is logarithmic."""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """Label, help, kind and range of a control."""

    label: str
    help: str
    """Help text with unit and range, shown on hover."""
    kind: str = "number"
    """``number``, ``choice``, ``several``, ``numbers``, ``switch`` or ``text``."""
    least: float = 0
    most: float = 0
    whole: bool = True
    """True for whole numbers."""
    choices: tuple[Any, ...] = ()
    ends: tuple[str, str] = ("", "")
    """Words at the ends of the slider."""
    setting: str = ""
    """Name of the recipe's setting; empty for workers, model and link."""
    default: Any = None

    @property
    def logarithmic(self) -> bool:
        """True if its slider is logarithmic."""
        return bool(self.setting) and self.whole and self.least > 0 and self.most > _LONG

    def check(self, name: str, value: Any) -> None:
        """Raise an error for a value that the control cannot show.

        Raises:
            TypeError: if it is not a number, or not a sequence of numbers.
            ValueError: if it is out of range, or nothing is chosen.
        """
        if self.kind == "several" and not value:
            raise ValueError(f"{name} must be some of {self.choices}, got an empty choice; tick at least one")
        if self.kind == "numbers" and (isinstance(value, str) or not all(isinstance(each, Real) for each in value)):
            raise TypeError(f"{name} must be numbers separated by commas, got {value!r}")
        if self.kind != "number":
            return
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            raise TypeError(f"{name} must be a {'whole ' if self.whole else ''}number, got {value!r}")
        if not self.least <= value <= self.most:
            raise ValueError(f"{name} must lie in [{self.least:g}, {self.most:g}], got {value}")


PLACE = {
    "workers": Knob(label="Workers", help="Processes that share the graph; 2 to 8", least=2, most=8),
    "model": Knob(label="Model", help="Graph neural network to train", kind="choice"),
    "layers": Knob(label="Layers", help="Number of graph layers; 1 to 6", least=1, most=6),
    "hidden": Knob(label="Hidden size", help="Dimension of hidden embeddings; 8 to 512", least=8, most=512),
    "link": Knob(
        label="Link", help="Rate of the link between two emulated hosts, bits per second; or one machine", kind="choice"
    ),
}
"""Knobs of settings whose change needs another probe, by name."""


def knobs_of(system: str) -> Mapping[str, Knob]:
    """Return the knobs of a system's own settings, by the names of their options, in the order of its recipe.

    Raises:
        ValueError: if there is no such system.

    Example:
        >>> knobs_of("adaqp")["bit_widths"].setting, knobs_of("bns-gcn")["boundary_share"].most
        ('bit_widths', 1)
    """
    if system not in SYSTEMS:
        raise ValueError(f"system must be one of {sorted(SYSTEMS)}, got {system!r}")
    return _knobs(SYSTEMS[system])


@functools.cache
def _knobs(recipe: Recipe) -> Mapping[str, Knob]:
    knobs = {}
    for setting in settings_of(recipe):
        knob = _knob(setting)
        if knob is not None:
            knobs[(setting.option or setting.name).replace("-", "_")] = knob
    return knobs


def _knob(setting: Setting) -> Knob | None:
    """Return the knob of one setting; ``None`` if there is no control for its type."""
    name = (setting.option or setting.name).replace("-", "_")
    label = _LABELS.get(name, name.replace("_", " ").capitalize())
    words = " ".join(setting.help.replace("``", "").split()).rstrip(".") or f"{label} of the system"
    common_fields: dict[str, Any] = {"label": label, "setting": setting.name, "default": setting.default}
    if setting.kind is bool:
        return Knob(kind="switch", help=words, **common_fields)
    if setting.many and setting.choices:
        offered_widths = [each for each in setting.choices if each in OFFERED or each in setting.default]
        text = f"{words}; at least one of {', '.join(map(str, offered_widths))}"
        return Knob(kind="several", help=text, choices=tuple(offered_widths), **common_fields)
    if setting.many:
        return Knob(kind="numbers", help=f"{words}; numbers separated by commas", **common_fields)
    if setting.choices:
        return Knob(kind="choice", help=words, choices=setting.choices, **common_fields)
    if setting.kind in (int, float):
        # A setting without bounds gets a slider around its default.
        lower_end = min(0, setting.default) if setting.low is None else setting.low
        upper_end = setting.high if setting.high is not None else _ENDS.get(name, max(1, _TIMES * setting.default))
        text = f"{words}; {lower_end:g} to {upper_end:g}"
        ends = _END_WORDS.get(name, ("", ""))
        return Knob(help=text, least=lower_end, most=upper_end, whole=setting.kind is int, ends=ends, **common_fields)
    return Knob(kind="text", help=words, **common_fields) if setting.kind is str else None


GRAPH = "sbm:4000,4,20"
"""Default graph, for which every knob has an effect on four workers and two hosts."""
LOOPBACK = "loopback"
"""Name of the link of workers on one machine."""
LINKS = (LOOPBACK, "10mbit", "50mbit", "100mbit", "200mbit", "500mbit", "1gbit", "10gbit")
"""Links in the list of the tuner; `TunerSettings` accepts any rate."""
_HOSTS = 2
"""Number of emulated hosts with any other link."""


@dataclass(frozen=True, kw_only=True)
class TunerSettings:
    """One position of all knobs; those of the system can be read like fields: ``settings.lam``."""

    system: str = "adaqp"
    """Name of a registered system."""
    system_settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its recipe, by the recipe's names; others have their defaults."""
    workers: int = 4
    """Number of workers, 2 to 8."""
    model: str = "gcn"
    """Name of a registered model."""
    layers: int = 3
    """Number of layers, 1 to 6."""
    hidden: int = 256
    """Dimension of hidden embeddings, 8 to 512."""
    link: str = "100mbit"
    """Rate of the link between two emulated hosts, or ``loopback``."""

    def __post_init__(self) -> None:
        defaults = {knob.setting: knob.default for knob in knobs_of(self.system).values()}
        tuple_names = {knob.setting for knob in knobs_of(self.system).values() if knob.kind == "several"}
        settings = {**defaults, **self.system_settings}
        # Equal choices must compare equal, in whatever order they were ticked.
        ordered_settings = {
            name: tuple(sorted(set(settings[name]))) if name in tuple_names else settings[name] for name in settings
        }
        object.__setattr__(self, "system_settings", ordered_settings)
        for name, knob in self.knobs.items():
            knob.check(name, self.value(name))
        make_system(self.system, **self.system_settings)
        ModelSettings(name=self.model, layers=self.layers, hidden=self.hidden)  # raises for a value out of its range
        if self.link != LOOPBACK:
            LaunchSettings(hosts=_HOSTS, link=self.link)
            if self.workers % _HOSTS:  # hosts have equal numbers of workers
                raise ValueError(
                    f"workers must be even on {_HOSTS} hosts, got {self.workers}; or choose link {LOOPBACK}"
                )

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """All knobs of this system, by name."""
        return {**knobs_of(self.system), **PLACE}

    def value(self, name: str) -> Any:
        """Return the value of a knob."""
        return getattr(self, name) if name in PLACE else self.system_settings[knobs_of(self.system)[name].setting]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("system", "system_settings") or name not in knobs_of(self.system):
            raise AttributeError(f"{type(self).__name__} has no knob {name!r}")
        return self.value(name)

    @property
    def place(self) -> tuple[Any, ...]:
        """Settings that a probe depends on: workers, model, layers, hidden size and link."""
        return tuple(getattr(self, name) for name in PLACE)

    @property
    def link_arguments(self) -> dict[str, Any]:
        """Arguments of `gnnqlab.configure` for this link."""
        return {} if self.link == LOOPBACK else {"hosts": _HOSTS, "link": self.link}

    @property
    def assigns(self) -> bool:
        """True if the system trades variance against time by λ, so that it has a front."""
        return "lam" in self.system_settings

    @property
    def steerable(self) -> dict[str, Any]:
        """Settings of the recipe that can change while a run trains."""
        bits = make_system(self.system, **self.system_settings).bits
        return {name: self.system_settings[name] for name in bits.steerable if name in self.system_settings}

    def changed(self, changes: Mapping[str, Any]) -> TunerSettings:
        """Return another position; another system keeps settings with the same name and default in both recipes.

        Raises:
            ValueError: if a value is out of its range, or there is no such knob.
            TypeError: if a value is of the wrong kind.

        Example:
            >>> TunerSettings().changed({"lam": 0.2, "bit_widths": [8, 2]}).system_settings["bit_widths"]
            (2, 8)
            >>> TunerSettings().changed({"system": "bns-gcn", "p": 0.5}).system_settings
            {'p': 0.5, 'attention': 'weights'}
        """
        system = changes.get("system", self.system)
        knobs = knobs_of(system)
        if system in SYSTEMS and not set(changes) <= {*knobs, *PLACE, "system"}:  # perhaps former names
            changes = with_present_names(changes, settings_of(SYSTEMS[system]))
        place = {name: value for name, value in changes.items() if name in PLACE}
        names = {**{knob.setting: knob.setting for knob in knobs.values()}, **{n: k.setting for n, k in knobs.items()}}
        unknown_names = sorted(set(changes) - set(names) - set(PLACE) - {"system"})
        if unknown_names:
            raise ValueError(f"knobs must be some of {sorted({'system', *knobs, *PLACE})}, got {unknown_names}")
        defaults = {knob.setting: knob.default for knob in knobs_of(self.system).values()}
        # Settings with one default in both recipes.
        common_names = {knob.setting for knob in knobs.values() if defaults.get(knob.setting, _NONE) == knob.default}
        settings = {
            name: value for name, value in self.system_settings.items() if name in common_names or system == self.system
        }
        settings |= {names[name]: value for name, value in changes.items() if name in names}
        return dataclasses.replace(self, system=system, system_settings=settings, **place)


_NONE = object()

PRESETS: dict[str, dict[str, Any]] = {
    "AdaQP": {"lam": 0.5, "group_size": 100, "period": 50, "bit_widths": (2, 4, 8)},
    "fastest": {"lam": 0.0, "group_size": 100, "period": 50, "bit_widths": (2, 4, 8)},
    "least noise": {"lam": 1.0, "group_size": 10, "period": 10, "bit_widths": (2, 4, 8)},
    "always 8 bits": {"lam": 0.5, "group_size": 100, "period": 50, "bit_widths": (8,)},
    "always 2 bits": {"lam": 0.5, "group_size": 100, "period": 50, "bit_widths": (2,)},
}
"""Positions by name: AdaQP's own (Table 8), the two ends of λ, and one bit-width for all rows."""
