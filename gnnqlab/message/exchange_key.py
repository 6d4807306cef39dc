"""Where in a pass rows travel, and what measures the parts of their way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

__all__ = ["Phases", "ExchangeKey", "at_once", "no_phases"]

Phases = Callable[[str], AbstractContextManager[object]]
"""Opens a named phase of the epoch's clock: ``with phases("encode"): ...``."""


class ExchangeKey(NamedTuple):
    """Where in a pass rows travel."""

    layer: int
    direction: str
    """``forward`` (rows) or ``backward`` (their gradients)."""
    round: int = 0
    """Which of the exchanges of this layer and direction, from 0."""


def no_phases(name: str) -> AbstractContextManager[object]:
    """Measure nothing."""
    return nullcontext()


def at_once(start: Callable[[], None]) -> None:
    """Call ``start`` now."""
    start()
