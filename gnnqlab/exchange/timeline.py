"""Who waits for whom: when each part of a layer's exchange began and ended on one worker.

Times are those of ``time.perf_counter``, on Linux the clock CLOCK_MONOTONIC: the processes of one machine share it,
emulated hosts included. On a GPU they are those of events on the streams, brought to the same clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from gnnqlab.exchange.cuda_streams import Stages
from gnnqlab.message.channels.incoming import MessageRecord
from gnnqlab.message.exchange_key import ExchangeKey, Phases, no_phases

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
    round: int = 0
    """Which exchange of the layer and direction."""


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

    def __call__(self, what: str, place: ExchangeKey | None = None) -> AbstractContextManager[object]:
        """Run a part of the exchange of a place; of none, it is not recorded."""
        phase = self._phases(_PHASE_OF.get(what, what))
        if what not in WHATS:
            return phase
        if self._parts is None or place is None:
            return self._staged(what, phase) if self.stages.on_device else phase
        return self._noted(what, place, phase)

    @contextmanager
    def _staged(self, what: str, phase: AbstractContextManager[object]) -> Iterator[None]:
        with phase, self.stages.part(what):
            yield

    @contextmanager
    def _noted(self, what: str, place: ExchangeKey, phase: AbstractContextManager[object]) -> Iterator[None]:
        assert self._parts is not None
        with self.stages.part(what):
            start = self.stages.mark()
            with phase:
                yield
            self._parts.append((place, what, start, self.stages.mark()))

    def begin(self) -> None:
        """Record from here on."""
        self._parts = []

    def take(self) -> list[Span]:
        """Return what was recorded, in the order in which parts ended, and record no longer.

        On a GPU a transfer runs from the end of ``post`` to the end of ``wait``, all senders together.
        """
        parts, self._parts = self._parts or [], None
        spans = [
            Span(place.layer, place.direction, what, -1, start(), end(), place.round)
            for place, what, start, end in parts
        ]
        return spans + _transfers_on_device(spans) if self.stages.on_device else spans


_Part = tuple[ExchangeKey, str, Callable[[], float], Callable[[], float]]
"""ExchangeKey, what, and what tells begin and end."""


def _transfers_on_device(spans: list[Span]) -> list[Span]:
    """Transfers that were posted and waited for in the same epoch."""
    found: list[Span] = []
    posted: dict[ExchangeKey, float] = {}
    for span in spans:
        place = ExchangeKey(span.layer, span.direction, span.round)
        if span.what == "post":
            posted[place] = span.end
        elif span.what == "wait" and place in posted:
            found.append(Span(span.layer, span.direction, "transfer", -1, posted.pop(place), span.end, span.round))
    return found


def transfers(arrivals: Iterable[MessageRecord]) -> list[Span]:
    """Return the transfers of messages that came, by the host's clock."""
    return [
        Span(one.layer, one.direction, "transfer", one.sender, one.posted, one.posted + one.seconds, one.round)
        for one in arrivals
        if one.layout.num_bytes
    ]
