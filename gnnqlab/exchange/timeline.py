"""Who waits for whom: when each part of a layer's exchange began and ended on one worker.

Times are those of ``time.perf_counter``, on Linux the clock CLOCK_MONOTONIC: the processes of one machine share it,
emulated hosts included.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from gnnqlab.message.channel import Arrival, Phases, no_phases

__all__ = ["WHATS", "Span", "Timeline", "transfers"]

WHATS = ("encode", "post", "central", "wait", "decode", "marginal", "transfer")
"""Parts of a layer's exchange. ``transfer``, one a sender, runs from this worker's post until the message had come."""

_PHASE_OF = {"post": "wait"}
"""Parts that the epoch's clock counts under another name."""


@dataclass(frozen=True)
class Span:
    """One part of one layer's exchange in one direction."""

    layer: int
    direction: str
    what: str
    """One of ``WHATS``."""
    peer: int
    """Sender of a transfer; -1 otherwise."""
    start: float
    """Seconds of the clock."""
    end: float


class Timeline:
    """Opens phases of the epoch's clock, and notes when they began and ended while an epoch is recorded."""

    def __init__(self, phases: Phases = no_phases) -> None:
        self._phases = phases
        self._spans: list[Span] | None = None
        self._place: tuple[int, str] | None = None

    def __call__(self, what: str) -> AbstractContextManager[object]:
        phase = self._phases(_PHASE_OF.get(what, what))
        return phase if self._spans is None or self._place is None else self._noted(what, phase)

    @contextmanager
    def _noted(self, what: str, phase: AbstractContextManager[object]) -> Iterator[None]:
        assert self._spans is not None and self._place is not None
        start = time.perf_counter()
        with phase:
            yield
        self._spans.append(Span(*self._place, what, -1, start, time.perf_counter()))

    def begin(self) -> None:
        """Record from here on."""
        self._spans = []

    @contextmanager
    def at(self, layer: int, direction: str) -> Iterator[None]:
        """Say whose parts come next."""
        self._place = (layer, direction)
        try:
            yield
        finally:
            self._place = None

    def take(self) -> list[Span]:
        """Return what was recorded, in the order in which parts ended, and record no longer."""
        spans, self._spans = self._spans or [], None
        return spans


def transfers(arrivals: Iterable[Arrival]) -> list[Span]:
    """Return the transfers of messages that came."""
    return [
        Span(one.layer, one.direction, "transfer", one.sender, one.posted, one.posted + one.seconds)
        for one in arrivals
        if one.layout.num_bytes
    ]
