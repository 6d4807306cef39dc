"""One position of a tuner's knobs, presets, and what a link is called."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gnnqlab.lab.tuner.knobs import PLACE, Knob, knobs_of
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.systems.system import make_system
from gnnqlab.train.config.run_config import LaunchSettings

__all__ = ["GRAPH", "LINKS", "LOOPBACK", "PRESETS", "TunerSettings"]

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
