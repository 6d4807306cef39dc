"""Different parts for embeddings (forward) and gradients (backward), for the axes ``codec`` and ``bits``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = ["ByDirection", "by_direction", "of_direction"]


@dataclass(frozen=True)
class ByDirection:
    """Two parts of one axis; a :class:`System` converts a pair ``(forward, backward)`` to this class.

    Example:
        >>> from gnnqlab.message.codecs.codec import Float32, Stochastic
        >>> of_direction(ByDirection(Stochastic(), Float32()), "backward")
        Float32()
    """

    steerable: ClassVar[tuple[str, ...]] = ()
    """Settings that may change during training: none for a pair."""
    forward: Any
    """Part for embeddings."""
    backward: Any
    """Part for gradients of embeddings."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Bit-widths that both codecs can write."""
        return tuple(sorted({*self.forward.widths} & {*self.backward.widths}))

    @property
    def choices(self) -> tuple[int, ...]:
        """Bit-widths that at least one of the two policies may choose."""
        return tuple(sorted({*self.forward.choices, *self.backward.choices}))


def of_direction(part: Any, direction: str) -> Any:
    """Return the part of one direction; a part that is not a pair serves both.

    Args:
        direction: ``forward`` or ``backward``.
    """
    return getattr(part, direction) if isinstance(part, ByDirection) else part


def by_direction(part: Any, make: Callable[[Any], Any]) -> Any:
    """Apply ``make`` to a part, or to each part of a pair."""
    return ByDirection(make(part.forward), make(part.backward)) if isinstance(part, ByDirection) else make(part)
