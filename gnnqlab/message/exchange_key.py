"""Key of an exchange, (layer, direction, round), and default hooks of a channel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

__all__ = ["Phases", "ExchangeKey", "at_once", "no_phases"]

Phases = Callable[[str], AbstractContextManager[object]]
"""Function that times a named phase of the epoch: ``with phases("encode"): ...``."""
no_phases: Phases = nullcontext
"""Phases that measure nothing."""


class ExchangeKey(NamedTuple):
    """Key of an exchange: layer, direction and communication round."""

    layer: int
    direction: str
    """``forward`` (embeddings) or ``backward`` (their gradients)."""
    round: int = 0
    """Index of the communication round of this layer and direction, from 0."""


def at_once(start: Callable[[], None]) -> None:
    """Call ``start`` immediately."""
    start()
