"""A training system as a choice along eight axes, and the registry of recipes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gnnqlab.bits.policy import BitPolicy, Fixed
from gnnqlab.exchange.halo import Halo
from gnnqlab.exchange.schedule import Schedule, Synchronous
from gnnqlab.message.codec import Codec, Float32
from gnnqlab.message.sampler import AllRows, Sampler
from gnnqlab.partition.edge_cut import METIS
from gnnqlab.partition.parts import Partitioner
from gnnqlab.systems.defaults import Float32Products, NoCache
from gnnqlab.systems.parts import PARTS, part_from_json, part_to_json

__all__ = ["SYSTEMS", "System", "make_system", "register_system", "settings_for"]


@dataclass(frozen=True, kw_only=True)
class System:
    """How full-graph training is distributed: one part per axis.

    A variant is ``dataclasses.replace(system, axis=part)``. A combination that cannot work is refused here,
    with the reason.
    """

    name: str = "custom"
    """Shown in tables and figures."""
    partition: Partitioner = field(default_factory=METIS)
    """Who owns nodes and edges."""
    exchange: Any = field(default_factory=Halo)
    """Which rows travel, and to whom."""
    sampler: Sampler = field(default_factory=AllRows)
    """Which boundary rows travel this epoch."""
    cache: Any = field(default_factory=NoCache)
    """Which rows changed enough to send."""
    codec: Codec = field(default_factory=Float32)
    """How a row becomes bytes."""
    bits: BitPolicy = field(default_factory=Fixed)
    """Who chooses each row's bit-width."""
    schedule: Schedule = field(default_factory=Synchronous)
    """When rows move, relative to computation."""
    compute: Any = field(default_factory=Float32Products)
    """In which precision the products run."""

    def __post_init__(self) -> None:
        known = set(self.codec.widths)
        wanted = set(self.bits.choices)
        if not wanted <= known:
            raise ValueError(
                f"bits must be widths that the codec can write: {type(self.codec).__name__} writes {sorted(known)}, "
                f"got {sorted(wanted)}; choose codec Stochastic() or other bits"
            )
        if self.sampler.p < 1.0:
            for part in (self.bits, self.schedule):
                reason = getattr(part, "needs_every_row", "")
                if reason:
                    raise ValueError(
                        f"with {type(part).__name__} every boundary row must travel in every epoch ({reason}), got "
                        f"sampler {type(self.sampler).__name__} with p {self.sampler.p}; choose sampler AllRows() or "
                        "another part"
                    )

    def to_json(self) -> dict[str, Any]:
        """Return the system as plain JSON; :meth:`from_json` undoes it without loss."""
        return {"name": self.name, **{axis: part_to_json(axis, getattr(self, axis)) for axis in PARTS}}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> System:
        """Return the system that :meth:`to_json` wrote.

        Raises:
            ValueError: if an axis, a part or a setting is unknown.
        """
        unknown = set(value) - {"name", *PARTS}
        if unknown:
            raise ValueError(f"a system has the axes {sorted(PARTS)}, got {sorted(unknown)}")
        parts = {axis: part_from_json(axis, part) for axis, part in value.items() if axis != "name"}
        return cls(name=value.get("name", "custom"), **parts)


Recipe = Callable[..., System]

SYSTEMS: dict[str, Recipe] = {}
"""Every recipe by name; each returns a complete :class:`System`."""


def register_system(recipe: Recipe) -> Recipe:
    """Make a recipe known by its function's name, with ``_`` written as ``-``.

    Raises:
        ValueError: if the name is taken.
    """
    name = recipe.__name__.replace("_", "-")
    if name in SYSTEMS:
        raise ValueError(f"a system's name must be new, {name!r} is registered already")
    SYSTEMS[name] = recipe
    return recipe


def make_system(system: str | System, **settings: Any) -> System:
    """Return a system by name, or the given one.

    Args:
        system: a registered name, or a ready :class:`System`.
        **settings: what the recipe takes, for instance ``bits=2``.

    Raises:
        ValueError: if the name or a setting is unknown; the message lists the known ones.
    """
    if isinstance(system, System):
        if settings:
            raise ValueError(f"settings {sorted(settings)} go with a system's name; use dataclasses.replace instead")
        return system
    if system not in SYSTEMS:
        raise ValueError(f"system must be one of {sorted(SYSTEMS)}, got {system!r}")
    recipe = SYSTEMS[system]
    known = settings_of(recipe)
    unknown = sorted(set(settings) - set(known))
    if unknown:
        takes = f"takes {sorted(known)}" if known else "takes no settings"
        raise ValueError(f"system {system!r} {takes}, got {unknown}; leave them out or choose another system")
    return dataclasses.replace(recipe(**settings), name=system)


def settings_of(recipe: Recipe) -> list[str]:
    """Return the names of what a recipe can be told."""
    return list(inspect.signature(recipe).parameters)


def settings_for(system: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return those of ``settings`` that the recipe of a system takes: what a comparison gives to each."""
    if system not in SYSTEMS:
        raise ValueError(f"system must be one of {sorted(SYSTEMS)}, got {system!r}")
    known = settings_of(SYSTEMS[system])
    return {name: value for name, value in settings.items() if name in known}
