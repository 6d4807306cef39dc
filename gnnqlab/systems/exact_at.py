"""A system whose rows are exact at named points: an ablation of any system, one axis of it replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gnnqlab.bits.exact_at import DIRECTIONS, ExactAt
from gnnqlab.message.direction import ByDirection, of_direction
from gnnqlab.systems.system import System

__all__ = ["around", "exact_at"]


def exact_at(system: System, *points: str, since: int = 0, name: str | None = None) -> System:
    """Return a system that sends the rows of some points in float32 from an epoch on, and is else as it was.

    ``b = 32`` where ``(direction, layer)`` is a point and ``t >= since`` (:class:`gnnqlab.bits.exact_at.ExactAt`).

    Args:
        system: any whose codec can write 32 bits.
        points: a direction and a layer, ``backward 1``, or a direction, ``forward``, for all its layers.
        since: first epoch in which they are exact.
        name: of the system; by default its name and the points.

    Raises:
        TypeError: if it is no system, but its name.
        ValueError: if no point is named or one is not written so, or the codec writes no rows of 32 bits.

    Example:
        >>> from gnnqlab.systems import fixed_bits
        >>> asked = exact_at(fixed_bits(bits=2), "backward 1", since=30)
        >>> asked.name, asked.bits.of, asked.bits.at
        ('fixed-bits, backward 1 exact from epoch 30', Fixed(bits=2), ('backward 1',))
    """
    if not isinstance(system, System):
        raise TypeError(f"system must be a System, as gq.systems.adaqp() makes one, got {system!r}")
    when = f" from epoch {since}" if since else ""
    made = around(ExactAt(at=points, since=since), system.bits)
    return replace(system, name=name or f"{system.name}, {', '.join(points)} exact{when}", bits=made)


def around(part: Any, present: Any) -> Any:
    """Return a part that stands around another of its axis around the present one, or each of a pair.

    Args:
        part: with a method ``around``, as :class:`gnnqlab.bits.exact_at.ExactAt` has it.
        present: of the same axis.
    """
    if isinstance(present, ByDirection):
        return ByDirection(*(part.around(of_direction(present, direction), direction) for direction in DIRECTIONS))
    return part.around(present)
