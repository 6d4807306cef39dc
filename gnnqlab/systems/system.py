"""A training system: one part for each of the eight axes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from gnnqlab.bits.policy import Bits, Fixed
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
from gnnqlab.systems.parts import BY_DIRECTION, PARTS, check_part, part_from_json, part_to_json
from gnnqlab.systems.recipe_call import RecipeCall

__all__ = ["System"]

_ANY_COLUMNS = 64
"""Number of columns for testing if a codec has a row variance; a codec has one for all numbers or for none."""


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
        # Rules of a part about all other axes, last, because all axes are complete then.
        for axis in PARTS:
            self._check_refusals(axis)

    def _expand_pairs(self) -> None:
        """Replace ``(forward, backward)`` by an object with one part per direction."""
        for axis in BY_DIRECTION:
            part = getattr(self, axis)
            # A tuple always stands for a pair, because a part is a dataclass.
            if isinstance(part, tuple) and len(part) == 2:
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
        return dataclasses.replace(self, **parts) if has_changes else self  # replace would reset `recipe`

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


def _codec_of(widths: set[int]) -> str:
    """Return the first codec that supports these bit-widths, as text."""
    kinds = (kind.__name__ for kind in PARTS["codec"].values() if widths <= set(kind().widths))
    name = next(kinds, None)
    return f"codec {name}()" if name else "other bit-widths"
