"""Ablation of any system: float32 messages in selected layers and directions, by replacing its bit policy."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.exact_at import ExactAt
from gnnqlab.systems.parts import wrap_part
from gnnqlab.systems.system import System

__all__ = ["exact_at"]


def exact_at(system: System, *points: str, since: int = 0, name: str | None = None) -> System:
    """Return a copy of a system that sends the rows of selected layers and directions in float32 from an epoch on.

    ``b = 32`` where ``(direction, layer)`` is a point and ``t >= since`` (:class:`gnnqlab.bits.exact_at.ExactAt`).

    Args:
        system: any system whose codec supports 32 bits.
        points: a direction and a layer, ``backward 1``, or a direction, ``forward``, for all its layers.
        since: first epoch with float32 rows.
        name: name of the new system; by default the old one and the points.

    Raises:
        TypeError: if ``system`` is a name instead of a ``System``.
        ValueError: if there is no point or a malformed one, or the codec does not support 32 bits.

    Example:
        >>> from gnnqlab.systems import fixed_bits
        >>> ablation = exact_at(fixed_bits(bits=2), "backward 1", since=30)
        >>> ablation.name, ablation.bits.inner, ablation.bits.points
        ('fixed-bits, backward 1 exact from epoch 30', Fixed(bits=2), ('backward 1',))
    """
    if not isinstance(system, System):
        raise TypeError(f"system must be a System, for instance gq.systems.adaqp(), got {system!r}")
    start_text = f" from epoch {since}" if since else ""
    # The copy is no longer what the recipe builds.
    wrapped_bits = wrap_part(ExactAt(points=points, since=since), system.bits)
    return replace(system, name=name or f"{system.name}, {', '.join(points)} exact{start_text}", bits=wrapped_bits)
