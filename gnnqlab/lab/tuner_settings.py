"""What can be turned on a tuner: every knob with its unit and range, presets, and what a link is called."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gnnqlab.bits.assigned import Assigned
from gnnqlab.bits.policy import WIDTHS
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.train.config import LaunchSettings

__all__ = ["KNOBS", "LINKS", "LOOPBACK", "OFFERED", "PLACE", "PRESETS", "STEERABLE", "Knob", "TunerSettings"]

LOOPBACK = "loopback"
"""The link of workers that share one machine."""
LINKS = (LOOPBACK, "10mbit", "50mbit", "100mbit", "200mbit", "500mbit", "1gbit", "10gbit")
"""Offered; a `TunerSettings` takes any rate."""
OFFERED = tuple(width for width in WIDTHS if width <= 8)
"""Bit-widths that a tuner has boxes for."""
_HOSTS = 2
"""Emulated hosts wherever there is a link."""


@dataclass(frozen=True, kw_only=True)
class Knob:
    """What a control is called, what it does, and how far it goes."""

    label: str
    help: str
    """With unit and range; shown on hover."""
    least: float = 0
    most: float = 0


KNOBS = {
    "lam": Knob(label="λ", help="What counts: 0 only time, 1 only variance; no unit, 0 to 1", most=1),
    "group_size": Knob(label="Group size", help="Rows that share a bit-width; 1 to 1000 rows", least=1, most=1000),
    "period": Knob(label="Period", help="Epochs between two assignments of widths; 1 to 200 epochs", least=1, most=200),
    "widths": Knob(label="Widths", help="Bits an element that may be assigned; at least one of 1, 2, 4, 8"),
    "workers": Knob(label="Workers", help="Processes that share the graph; 2 to 8", least=2, most=8),
    "model": Knob(label="Model", help="Which graph neural network is trained"),
    "layers": Knob(label="Layers", help="Graph layers, the depth of the model; 1 to 6", least=1, most=6),
    "hidden": Knob(label="Hidden size", help="Numbers in a row between layers; 8 to 512", least=8, most=512),
    "link": Knob(label="Link", help="Rate of the wire between two emulated hosts, bits per second; or one machine"),
}
"""Every control by the name of its setting."""

PLACE = ("workers", "model", "layers", "hidden", "link")
"""Settings whose change needs another probe."""
STEERABLE = {"lam": "lam", "period": "period", "group_size": "group_size", "widths": "among"}
"""Settings that can change while a run trains, and what the run calls them."""


@dataclass(frozen=True, kw_only=True)
class TunerSettings:
    """One position of all knobs."""

    lam: float = 0.5
    """λ in [0, 1]: 1 minds only variance, 0 only time (AdaQP Eq. 12)."""
    group_size: int = 100
    """Rows that share a width, 1 to 1000."""
    period: int = 50
    """Epochs between assignments, 1 to 200."""
    widths: tuple[int, ...] = (2, 4, 8)
    """Bits to choose from, some of 1, 2, 4, 8."""
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
        object.__setattr__(self, "widths", tuple(sorted(set(self.widths))))
        for name, knob in KNOBS.items():
            value = getattr(self, name)
            if not knob.most:
                continue
            if isinstance(value, bool) or not isinstance(value, int if name != "lam" else (int, float)):
                raise TypeError(f"{name} must be a {'whole ' if name != 'lam' else ''}number, got {value!r}")
            if not knob.least <= value <= knob.most:
                raise ValueError(f"{name} must lie in [{knob.least:g}, {knob.most:g}], got {value}")
        if not self.widths:
            raise ValueError(f"widths must be some of {OFFERED}, got none; choose at least one")
        Assigned(lam=self.lam, group_size=self.group_size, period=self.period, among=self.widths)
        ModelSettings(name=self.model, layers=self.layers, hidden=self.hidden)
        if self.link != LOOPBACK:
            LaunchSettings(hosts=_HOSTS, link=self.link)
            if self.workers % _HOSTS:
                raise ValueError(
                    f"workers must be even to share {_HOSTS} hosts, got {self.workers}; or choose link {LOOPBACK}"
                )

    @property
    def place(self) -> tuple[Any, ...]:
        """What a probe depends on."""
        return tuple(getattr(self, name) for name in PLACE)

    @property
    def where(self) -> dict[str, Any]:
        """Settings of `gnnqlab.configure` for this link."""
        return {} if self.link == LOOPBACK else {"hosts": _HOSTS, "link": self.link}

    @property
    def bits(self) -> dict[str, Any]:
        """Settings of the recipe ``adaqp``."""
        return {run: getattr(self, name) for name, run in STEERABLE.items()}

    def changed(self, changes: Mapping[str, Any]) -> TunerSettings:
        """Return another position.

        Raises:
            ValueError: if a value is out of its range, or there is no such knob.
            TypeError: if a value is of the wrong kind.

        Example:
            >>> TunerSettings().changed({"lam": 0.2, "widths": [8, 2]}).bits
            {'lam': 0.2, 'period': 50, 'group_size': 100, 'among': (2, 8)}
        """
        unknown = sorted(set(changes) - set(KNOBS))
        if unknown:
            raise ValueError(f"a tuner has the knobs {sorted(KNOBS)}, got {unknown}")
        return dataclasses.replace(self, **changes)


PRESETS: dict[str, dict[str, Any]] = {
    "AdaQP": {"lam": 0.5, "group_size": 100, "period": 50, "widths": (2, 4, 8)},
    "fastest": {"lam": 0.0, "group_size": 100, "period": 50, "widths": (2, 4, 8)},
    "least noise": {"lam": 1.0, "group_size": 10, "period": 10, "widths": (2, 4, 8)},
    "always 8 bits": {"lam": 0.5, "group_size": 100, "period": 50, "widths": (8,)},
    "always 2 bits": {"lam": 0.5, "group_size": 100, "period": 50, "widths": (2,)},
}
"""Positions by name: AdaQP's own (Table 8), the two ends of λ, and one width for all rows."""
