"""A training system as a choice along eight axes, and the registry of recipes."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from gnnqlab.bits.policy import Bits, Fixed
from gnnqlab.by_name import did_you_mean
from gnnqlab.compute import Compute, Float32Products
from gnnqlab.exchange.halo.exchange import Halo
from gnnqlab.exchange.protocol import ExchangePart
from gnnqlab.exchange.schedules.schedule import Schedule, Synchronous
from gnnqlab.former_names import with_present_names
from gnnqlab.message.caches.cache import Cache, NoCache
from gnnqlab.message.codecs.codec import Codec, Float32
from gnnqlab.message.direction import ByDirection, of_direction
from gnnqlab.message.samplers import AllRows, Sampler
from gnnqlab.partition.cut import Partitioner, on_hosts
from gnnqlab.partition.edge_cut import METIS
from gnnqlab.systems.parts import BY_DIRECTION, PARTS, check_part, part_from_json, part_to_json
from gnnqlab.systems.settings import settings_of

__all__ = ["SYSTEMS", "RecipeCall", "System", "make_system", "register_system", "settings_for"]

_ANY_COLUMNS = 64
"""Number of columns for testing if a codec has a row variance; a codec has one for all numbers or for none."""


@dataclass(frozen=True)
class RecipeCall:
    """Call of a recipe: its name and the settings passed, without defaults.

    Example:
        >>> RecipeCall.from_json(RecipeCall("random-bits", {"bit_widths": (2, 8)}).to_json())
        RecipeCall(name='random-bits', settings={'bit_widths': (2, 8)})
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any] | None:
        """Convert to ``{"name": ..., its settings}``; ``None`` if a setting cannot be stored as JSON."""
        if not all(_is_plain(value) for value in self.settings.values()):
            return None
        return {"name": self.name, **self.settings}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from the result of :meth:`to_json`; lists become tuples."""
        settings = {key: tuple(each) if isinstance(each, list) else each for key, each in value.items()}
        return cls(str(settings.pop("name")), settings)


@dataclass(frozen=True, kw_only=True)
class System:
    """A system of distributed full-graph training: one part per axis.

    A variant is ``dataclasses.replace(system, axis=part)``. Incompatible parts raise an error here, with the
    reason.
    """

    name: str = "custom"
    """Name in tables and figures."""
    partition: Partitioner = METIS()
    """Assignment of nodes and edges to workers."""
    exchange: ExchangePart = Halo()
    """Rows to exchange, and their receivers."""
    sampler: Sampler = AllRows()
    """Sampling of boundary rows per epoch."""
    cache: Cache = NoCache()
    """Selection of the rows that changed enough to be sent."""
    codec: Codec = Float32()
    """Encoding of a row as bytes; a pair ``(forward, backward)`` encodes gradients differently."""
    bits: Bits = Fixed()
    """Policy for the bit-width of each row; may be a pair too."""
    schedule: Schedule = Synchronous()
    """Timing of the exchange relative to computation."""
    compute: Compute = Float32Products()
    """Precision of the products."""
    recipe: RecipeCall | None = field(default=None, init=False, compare=False, repr=False)
    """Call of the registered recipe that built the system; ``None`` after ``replace``."""

    def __post_init__(self) -> None:
        for axis in BY_DIRECTION:
            pair = getattr(self, axis)
            # A tuple always stands for a pair, because a part is a dataclass.
            if isinstance(pair, tuple) and len(pair) == 2:
                object.__setattr__(self, axis, ByDirection(*pair))  # the dataclass is frozen
        # Types first: the checks below read members of the base classes.
        for axis in PARTS:
            check_part(axis, getattr(self, axis))
        self._check_cut()
        # Rules between axes, each with the pair of parts that one direction has.
        for direction in ("forward", "backward"):
            self._check_widths(of_direction(self.codec, direction), of_direction(self.bits, direction))
            if self.sampler.p < 1.0:
                self._check_sampled(of_direction(self.bits, direction))
        if self.sampler.p < 1.0:
            self._check_sampled(self.schedule)
        for axis in PARTS:
            ahead, back = (of_direction(getattr(self, axis), way) for way in ("forward", "backward"))
            for part in (ahead,) if ahead is back else (ahead, back):  # a part for both directions is checked once
                # Rules that only the part itself has, last, when all axes are known to be complete.
                reason = part.refuses(self)
                if reason:
                    raise ValueError(f"{axis} {type(part).__name__} cannot work in this system: {reason}")

    @property
    def uses_stale_rows(self) -> bool:
        """True if a receiver may use a row in a later epoch than that of its sending (stale or cached rows).

        Example:
            >>> from gnnqlab.systems import pipegcn, vanilla
            >>> pipegcn().uses_stale_rows, vanilla().uses_stale_rows
            (True, False)
        """
        dropped_before = self.exchange.drops_before
        return self.schedule.lag > 0 or (self.cache.build() is not None and not dropped_before)

    @property
    def aggregates_before_projection(self) -> bool:
        """True if rows are aggregated before they are projected, so that receivers can apply dropout to halo rows."""
        return self.uses_stale_rows and self.schedule.dropped_by == "receiver"

    def on_hosts(self, hosts: int) -> System:
        """Return the system for a run on ``hosts`` hosts, each with equally many consecutive workers.

        Sets the number of hosts in partitioner and exchange, unless it is set there. Code that partitions a graph for a
        system calls this first, so that measurements use the partition of the run.

        Example:
            >>> from gnnqlab.systems import cdfgnn
            >>> cdfgnn().on_hosts(2).partition.hosts
            2
        """
        parts = {axis: on_hosts(getattr(self, axis), hosts) for axis in ("partition", "exchange")}
        changed = any(part is not getattr(self, axis) for axis, part in parts.items())
        return dataclasses.replace(self, **parts) if changed else self  # replace would reset `recipe`

    def _check_widths(self, codec: Codec, bits: Bits) -> None:
        known, wanted = set(codec.widths), set(bits.choices)
        if not wanted <= known:
            raise ValueError(
                f"bits must be widths that the codec can write: {type(codec).__name__} writes {sorted(known)}, "
                f"got {sorted(wanted)}; choose {_codec_of(wanted)} or other bits"
            )

        # Bit-widths by variance need the codec's formula (AdaQP Eq. 11).
        if bits.weighs_rows and codec.row_variance(_ANY_COLUMNS) is None:
            raise ValueError(
                f"{type(bits).__name__} weighs rows by the variance of their codec, got {type(codec).__name__}, which "
                "has no row_variance; choose codec Stochastic() or Rotated(), or other bits"
            )

    def _check_sampled(self, part: Bits | Schedule) -> None:
        reason = part.needs_every_row
        if reason:
            raise ValueError(
                f"{type(part).__name__} needs every boundary row in every epoch ({reason}), got sampler "
                f"{type(self.sampler).__name__} with p {self.sampler.p}; choose sampler AllRows() or another part"
            )

    def _check_cut(self) -> None:
        cut, needed = self.partition.cuts, self.exchange.takes_cuts_of
        if cut != needed:
            known = sorted(name for name, kind in PARTS["partition"].items() if kind.cuts == needed)
            raise ValueError(
                f"the exchange {type(self.exchange).__name__} takes cuts of {needed}, got partition "
                f"{type(self.partition).__name__}, which cuts {cut}; choose a partition of {known} or another exchange"
            )

    def to_json(self) -> dict[str, Any]:
        """Convert the system to plain JSON; :meth:`from_json` restores it without loss."""
        return {"name": self.name, **{axis: part_to_json(axis, getattr(self, axis)) for axis in PARTS}}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> System:
        """Build a system from the result of :meth:`to_json`.

        Raises:
            ValueError: if an axis, a part or a setting is unknown.
        """
        unknown = set(value) - {"name", *PARTS}
        if unknown:
            raise ValueError(f"a system has the axes {sorted(PARTS)}, got {sorted(unknown)}")
        parts = {axis: part_from_json(axis, part) for axis, part in value.items() if axis != "name"}
        return cls(name=value.get("name", "custom"), **parts)  # axes that are missing have their defaults


Recipe = Callable[..., System]

SYSTEMS: dict[str, Recipe] = {}
"""Registered recipes by name; each returns a complete :class:`System`."""


def register_system(recipe: Recipe) -> Recipe:
    """Register a recipe under its function's name, with ``_`` replaced by ``-``.

    Raises:
        ValueError: if the name is taken.
    """
    name = recipe.__name__.replace("_", "-")
    if name in SYSTEMS:
        raise ValueError(f"a system's name must be new, {name!r} is registered already")

    @functools.wraps(recipe)
    def wrapper(*values: Any, **settings: Any) -> System:
        if not set(settings) <= set(_names(recipe)):
            settings = with_present_names(settings, settings_of(recipe))
        # Positional values by name, so that the stored call can be written as JSON.
        named = {**dict(zip(_names(recipe), values, strict=False)), **settings}
        return _with_recipe_call(recipe(*values, **settings), name, named)

    SYSTEMS[name] = wrapper  # the signature stays that of the recipe, for command line and checks
    return wrapper


def make_system(system: str | System, **settings: Any) -> System:
    """Build a system by name; a :class:`System` is returned unchanged.

    Args:
        system: a registered name, or a :class:`System`.
        **settings: settings of the recipe, for instance ``bits=2``.

    Raises:
        ValueError: if the name or a setting is unknown; the message lists the known ones.
    """
    if isinstance(system, System):
        if settings:
            raise ValueError(
                f"settings {sorted(settings)} need a system's name, got a System; use dataclasses.replace instead"
            )
        return system
    if system not in SYSTEMS:
        raise ValueError(f"system must be one of {sorted(SYSTEMS)}, got {system!r}{did_you_mean(system, SYSTEMS)}")
    recipe = SYSTEMS[system]
    # Checked before the call, so that the error lists the known settings.
    known = _names(recipe)
    if not set(settings) <= set(known):
        settings = with_present_names(settings, settings_of(recipe))
    unknown = sorted(set(settings) - set(known))
    if unknown:
        takes = f"takes {sorted(known)}" if known else "takes no settings"
        way = did_you_mean(unknown[0], known) or "; leave them out or choose another system"
        raise ValueError(f"system {system!r} {takes}, got {unknown}{way}")
    return _with_recipe_call(recipe(**settings), system, settings)


def _with_recipe_call(system: System, name: str, settings: dict[str, Any]) -> System:
    """Return the system with its recipe's name, and the recipe's call stored in ``recipe``."""
    named = dataclasses.replace(system, name=name)
    object.__setattr__(named, "recipe", RecipeCall(name, settings))  # frozen, and not a field of the constructor
    return named


def _codec_of(widths: set[int]) -> str:
    """Return the first codec that supports these bit-widths, as text."""
    kinds = (kind.__name__ for kind in PARTS["codec"].values() if widths <= set(kind().widths))
    name = next(kinds, None)
    return f"codec {name}()" if name else "other bit-widths"


def _names(recipe: Recipe) -> list[str]:
    return list(inspect.signature(recipe).parameters)


def settings_for(system: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the subset of ``settings`` that a system's recipe has; comparisons pass shared settings this way."""
    if system not in SYSTEMS:
        raise ValueError(f"system must be one of {sorted(SYSTEMS)}, got {system!r}{did_you_mean(system, SYSTEMS)}")
    known = _names(SYSTEMS[system])
    return {name: value for name, value in settings.items() if name in known}


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, bool | int | float | str)
