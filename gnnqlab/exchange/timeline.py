"""Who waits for whom: when each part of a layer's exchange began and ended on one worker.

Times are those of ``time.perf_counter``, on Linux the clock CLOCK_MONOTONIC: the processes of one machine share it,
emulated hosts included. On a GPU they are those of events on the streams, brought to the same clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from gnnqlab.exchange.stages import Stages
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
    """Sender of a transfer; -1 otherwise, and on a GPU."""
    start: float
    """Seconds of the clock."""
    end: float


class Timeline:
    """Opens phases of the epoch's clock, and notes when they began and ended while an epoch is recorded.

    Args:
        phases: the epoch's clock.
        stages: which stream each part runs on.
    """

    def __init__(self, phases: Phases = no_phases, stages: Stages | None = None) -> None:
        self._phases = phases
        self.stages = stages or Stages()
        self._parts: list[_Part] | None = None
        self._place: tuple[int, str] | None = None

    def __call__(self, what: str) -> AbstractContextManager[object]:
        phase = self._phases(_PHASE_OF.get(what, what))
        if what not in WHATS:
            return phase
        if self._parts is None or self._place is None:
            return self._staged(what, phase) if self.stages.on_device else phase
        return self._noted(what, phase)

    @contextmanager
    def _staged(self, what: str, phase: AbstractContextManager[object]) -> Iterator[None]:
        with phase, self.stages.part(what):
            yield

    @contextmanager
    def _noted(self, what: str, phase: AbstractContextManager[object]) -> Iterator[None]:
        assert self._parts is not None and self._place is not None
        with self.stages.part(what):
            start = self.stages.mark()
            with phase:
                yield
            self._parts.append((*self._place, what, start, self.stages.mark()))

    def begin(self) -> None:
        """Record from here on."""
        self._parts = []

    @contextmanager
    def at(self, layer: int, direction: str) -> Iterator[None]:
        """Say whose parts come next."""
        before, self._place = self._place, (layer, direction)
        try:
            yield
        finally:
            self._place = before

    def take(self) -> list[Span]:
        """Return what was recorded, in the order in which parts ended, and record no longer.

        On a GPU a transfer runs from the end of ``post`` to the end of ``wait``, all senders together.
        """
        parts, self._parts = self._parts or [], None
        spans = [Span(layer, direction, what, -1, start(), end()) for layer, direction, what, start, end in parts]
        return spans + _transfers_on_device(spans) if self.stages.on_device else spans


_Part = tuple[int, str, str, Callable[[], float], Callable[[], float]]
"""Layer, direction, what, and what tells begin and end."""


def _transfers_on_device(spans: list[Span]) -> list[Span]:
    """Transfers that were posted and waited for in the same epoch."""
    found, posted = [], {}
    for span in spans:
        place = (span.layer, span.direction)
        if span.what == "post":
            posted[place] = span.end
        elif span.what == "wait" and place in posted:
            found.append(Span(*place, "transfer", -1, posted.pop(place), span.end))
    return found


def transfers(arrivals: Iterable[Arrival]) -> list[Span]:
    """Return the transfers of messages that came, by the host's clock."""
    return [
        Span(one.layer, one.direction, "transfer", one.sender, one.posted, one.posted + one.seconds)
        for one in arrivals
        if one.layout.num_bytes
    ]
