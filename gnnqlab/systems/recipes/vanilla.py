"""Vanilla synchronous full-graph training: the reference of every comparison."""

from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["vanilla"]


@register_system
def vanilla() -> System:
    """Vanilla: METIS, every boundary row in float32, communicate then compute (AdaQP section 2.2)."""
    return System(name="vanilla")
