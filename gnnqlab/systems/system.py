"""A training system: one part for each of the eight axes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from gnnqlab.bits.policy import Bits, Fixed
from gnnqlab.bits.row import EXACT
from gnnqlab.by_name import did_you_mean
from gnnqlab.cards import card
from gnnqlab.compute import Compute, Float32Products
from gnnqlab.exchange.halo.exchange import Halo
from gnnqlab.exchange.protocol import ExchangePart
from gnnqlab.exchange.schedules.schedule import Schedule, Synchronous
from gnnqlab.message.caches.cache import Cache, NoCache
from gnnqlab.message.codecs.codec import Codec, Float32
from gnnqlab.message.direction import ByDirection, of_direction
from gnnqlab.message.samplers import AllRows, Sampler
from gnnqlab.partition.cut import Partitioner, cut_name, on_hosts
from gnnqlab.partition.edge_cut import METIS
from gnnqlab.systems.parts import BY_DIRECTION, PARTS, check_part, part_from_json, part_to_json, wrap_part, wraps
from gnnqlab.systems.recipe_call import RecipeCall

__all__ = ["System"]

_ANY_COLUMNS = 64
"""Number of columns for testing if a codec has a row variance; a codec has one for all numbers or for none."""


@dataclass(frozen=True, kw_only=True, repr=False)
class System:
    """A system of distributed full-graph training: one part per axis.

    A variant is :meth:`replace`. Incompatible parts raise an error here, with the reason.
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
    """Call of the registered recipe that built the system; ``None`` if there was none."""

    def __post_init__(self) -> None:
        self._expand_pairs()
        for axis in PARTS:  # types first: the checks below read members of the axes' base classes
            check_part(axis, getattr(self, axis))
        # Rules between two axes.
        self._check_cut()
        for direction in ("forward", "backward"):
            codec, bits = of_direction(self.codec, direction), of_direction(self.bits, direction)
            self._check_widths(codec, bits)
            self._check_sampled(bits)
        self._check_sampled(self.schedule)
        self._check_moves()
        # Rules of a part about all other axes, last, because all axes are complete then.
        for axis in PARTS:
            self._check_refusals(axis)

    def _expand_pairs(self) -> None:
        """Replace ``(forward, backward)`` by an object with one part per direction."""
        for axis in BY_DIRECTION:
            part = getattr(self, axis)
            if _is_pair(axis, part):
                object.__setattr__(self, axis, ByDirection(*part))  # the dataclass is frozen

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

    def replace(self, *, name: str | None = None, **parts: Any) -> System:
        """Return a copy with other parts on some axes; its ``recipe`` keeps the settings that still hold.

        Args:
            name: name in tables and figures; by default that of this system.
            **parts: axis -> part. A part that wraps another one (``ExactAt``) wraps the system's own.

        Raises:
            ValueError: if an axis is unknown, or the parts are incompatible.

        Example:
            >>> from gnnqlab.message.caches.cache import Unchanged
            >>> from gnnqlab.systems import vanilla
            >>> vanilla().replace(cache=Unchanged(tolerance=0.05))
            System('vanilla', cache=Unchanged(tolerance=0.05, differences=False))
        """
        for axis in parts:
            if axis not in PARTS:
                rule = f"a system has the axes {', '.join(PARTS)}"
                raise ValueError(f"{rule}, got {axis!r}{did_you_mean(axis, PARTS)}")
        # A tuple always stands for a pair, because a part is a dataclass.
        parts = {axis: ByDirection(*part) if _is_pair(axis, part) else part for axis, part in parts.items()}
        # Check all parts first, so that an error is about the part and not about the whole system.
        for axis, part in parts.items():
            check_part(axis, part)
        values = {axis: wrap_part(part, getattr(self, axis)) for axis, part in parts.items()}
        new_system = dataclasses.replace(self, name=self.name if name is None else name, **values)
        # A wrapping part has the former one inside, with all its settings.
        changes = {
            axis: (getattr(self, axis), value)
            for axis, value in values.items()
            if value != getattr(self, axis) and not wraps(parts[axis])
        }
        wrapped = {axis: (None, None) for axis in values if wraps(parts[axis])}
        call = self.recipe and self.recipe.with_replaced({**changes, **wrapped})
        object.__setattr__(new_system, "recipe", call)  # dataclasses.replace resets fields with init=False
        return new_system

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
        has_changes = any(part is not getattr(self, axis) for axis, part in parts.items())
        if not has_changes:
            return self
        hosted_system = dataclasses.replace(self, **parts)
        object.__setattr__(hosted_system, "recipe", self.recipe)  # the same call, on these hosts
        return hosted_system

    def _check_widths(self, codec: Codec, bits: Bits) -> None:
        codec_widths, policy_widths = set(codec.widths), set(bits.choices)
        if not policy_widths <= codec_widths:
            raise ValueError(
                f"bits must be widths that the codec can write: {type(codec).__name__} writes {sorted(codec_widths)}, "
                f"got {sorted(policy_widths)}; choose {_codec_of(policy_widths)} or other bits"
            )

        # Bit-widths by variance need the codec's formula (AdaQP Eq. 11).
        if bits.weighs_rows and codec.row_variance(_ANY_COLUMNS) is None:
            raise ValueError(
                f"{type(bits).__name__} weighs rows by the variance of their codec, got {type(codec).__name__}, which "
                "has no row_variance; choose codec Stochastic() or Rotated(), or other bits"
            )

    def _check_sampled(self, part: Bits | Schedule) -> None:
        reason = part.needs_every_row
        if reason and self.sampler.p < 1.0:
            raise ValueError(
                f"{type(part).__name__} needs every boundary row in every epoch ({reason}), got sampler "
                f"{type(self.sampler).__name__} with p {self.sampler.p}; choose sampler AllRows() or another part"
            )

    def _check_moves(self) -> None:
        if not self.partition.partition_every:
            return
        widths = {width for way in ("forward", "backward") for width in of_direction(self.bits, way).choices}
        reasons = {
            f"sampler {type(self.sampler).__name__} with p {self.sampler.p}": self.sampler.p > 0.0,
            f"schedule {type(self.schedule).__name__}, which keeps rows of an epoch": self.schedule.lag > 0,
            "bits that may depend on rows": widths != {EXACT},
        }
        for reason, applies in reasons.items():
            if applies:
                raise ValueError(
                    f"partition_every needs workers that receive no rows and keep no state of them, got {reason}; "
                    "choose partition_every 0, or Vanilla's parts with sampler BoundarySampling(p=0)"
                )

    def _check_cut(self) -> None:
        cut_kind, needed_kind = self.partition.cuts, self.exchange.takes_cuts_of
        if cut_kind != needed_kind:
            partitioners = sorted(name for name, kind in PARTS["partition"].items() if kind.cuts == needed_kind)
            raise ValueError(
                f"exchange {type(self.exchange).__name__} needs {cut_name(needed_kind)}, got partition "
                f"{type(self.partition).__name__}, {cut_name(cut_kind)}; choose a partition of "
                f"{partitioners} or another exchange"
            )

    def _check_refusals(self, axis: str) -> None:
        forward, backward = (of_direction(getattr(self, axis), direction) for direction in ("forward", "backward"))
        for part in (forward,) if forward is backward else (forward, backward):  # one part for both is checked once
            reason = part.refuses(self)
            if reason:
                raise ValueError(f"{axis} {type(part).__name__} cannot work in this system: {reason}")

    @property
    def differences(self) -> dict[str, Any]:
        """Axis -> part that differs from Vanilla's.

        Example:
            >>> from gnnqlab.systems import fixed_bits
            >>> list(fixed_bits(bits=4).differences)
            ['codec', 'bits']
        """
        plain = System()
        return {axis: part for axis in PARTS if (part := getattr(self, axis)) != getattr(plain, axis)}

    def __repr__(self) -> str:
        parts = "".join(f", {axis}={part!r}" for axis, part in self.differences.items())
        return f"System({self.name!r}{parts})"

    def _repr_html_(self) -> str:
        """Return a card with the part of each axis; those that differ from Vanilla's are bold."""
        rows = {axis: repr(getattr(self, axis)) for axis in PARTS}
        return card(f"System {self.name}; bold: other parts than Vanilla's", rows, bold=self.differences)

    def to_json(self) -> dict[str, Any]:
        """Convert the system to plain JSON; :meth:`from_json` restores it without loss."""
        return {"name": self.name, **{axis: part_to_json(axis, getattr(self, axis)) for axis in PARTS}}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> System:
        """Build a system from the result of :meth:`to_json`.

        Raises:
            ValueError: if an axis, a part or a setting is unknown.
        """
        unknown_keys = set(value) - {"name", *PARTS}
        if unknown_keys:
            raise ValueError(f"a system has the axes {sorted(PARTS)}, got {sorted(unknown_keys)}")
        parts = {axis: part_from_json(axis, part) for axis, part in value.items() if axis != "name"}
        return cls(name=value.get("name", "custom"), **parts)  # axes that are missing have their defaults


def _is_pair(axis: str, part: Any) -> bool:
    return axis in BY_DIRECTION and isinstance(part, tuple) and len(part) == 2


def _codec_of(widths: set[int]) -> str:
    """Return the first codec that supports these bit-widths, as text."""
    kinds = (kind.__name__ for kind in PARTS["codec"].values() if widths <= set(kind().widths))
    name = next(kinds, None)
    return f"codec {name}()" if name else "other bit-widths"
