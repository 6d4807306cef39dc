"""One part for rows, another for their gradients: the axes ``codec`` and ``bits`` by direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = ["ByDirection", "by_direction", "of_direction"]


@dataclass(frozen=True)
class ByDirection:
    """Two parts of one axis; a pair ``(forward, backward)`` given to a :class:`System` becomes this.

    Example:
        >>> from gnnqlab.message.codecs.codec import Float32, Stochastic
        >>> of_direction(ByDirection(Stochastic(), Float32()), "backward")
        Float32()
    """

    steerable: ClassVar[tuple[str, ...]] = ()
    """Settings that may change while a run trains: none of a pair's."""
    forward: Any
    """Part for rows."""
    backward: Any
    """Part for their gradients."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Bit-widths that codecs of both directions can write."""
        return tuple(sorted({*self.forward.widths} & {*self.backward.widths}))

    @property
    def choices(self) -> tuple[int, ...]:
        """Bit-widths that the policy of either direction may choose."""
        return tuple(sorted({*self.forward.choices, *self.backward.choices}))


def of_direction(part: Any, direction: str) -> Any:
    """Return the part that a direction has: its own, or the one of both.

    Args:
        direction: ``forward`` or ``backward``.
    """
    return getattr(part, direction) if isinstance(part, ByDirection) else part


def by_direction(part: Any, make: Callable[[Any], Any]) -> Any:
    """Return what is made of a part, or of each of two."""
    return ByDirection(make(part.forward), make(part.backward)) if isinstance(part, ByDirection) else make(part)
