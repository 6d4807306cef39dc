"""Timeline of one worker: begin and end of each part of a layer's exchange.

Times are by ``time.perf_counter``, on Linux CLOCK_MONOTONIC, which all processes of one machine share, emulated hosts
included. On a GPU they are times of CUDA events, converted to the same clock.
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
"""Parts of a layer's exchange. ``transfer``, one per sender: from this worker's post until the message is received."""

_PHASE_OF = {"post": "wait"}
"""Part -> phase of the epoch that it is counted in, where the names differ."""


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
    """Seconds, by ``time.perf_counter``."""
    end: float
    """Seconds, by ``time.perf_counter``."""
    round: int = 0
    """Communication round of the layer and direction."""


class Timeline:
    """Recorder that times phases of the epoch and, in recorded epochs, the begin and end of each part.

    Args:
        phases: timer of the epoch's phases.
        stages: streams of the parts.
    """

    def __init__(self, phases: Phases = no_phases, stages: Stages | None = None) -> None:
        self._phases = phases
        self.stages = stages or Stages()
        self._parts: list[_Part] | None = None

    def __call__(self, what: str, place: ExchangeKey | None = None) -> AbstractContextManager[object]:
        """Run a part of an exchange; without an exchange key it is timed but not recorded."""
        # Phases are always timed; single parts only in recorded epochs, because each needs two time stamps.
        phase = self._phases(_PHASE_OF.get(what, what))
        if what not in WHATS:
            return phase
        if self._parts is None or place is None:
            return self._run_on_stream(what, phase) if self.stages.on_device else phase
        return self._record(what, place, phase)

    @contextmanager
    def _run_on_stream(self, part: str, phase: AbstractContextManager[object]) -> Iterator[None]:
        with phase, self.stages.part(part):
            yield

    @contextmanager
    def _record(self, part: str, place: ExchangeKey, phase: AbstractContextManager[object]) -> Iterator[None]:
        assert self._parts is not None
        with self.stages.part(part):
            # Marks inside the part's stream, so that on a GPU they are times of that stream.
            start = self.stages.mark()
            with phase:
                yield
            self._parts.append((place, part, start, self.stages.mark()))

    def begin(self) -> None:
        """Start recording."""
        self._parts = []

    def take(self) -> list[Span]:
        """Stop recording; return the recorded parts in the order of their ends.

        On a GPU a transfer is from the end of ``post`` to the end of ``wait``, for all senders together.
        """
        parts, self._parts = self._parts or [], None
        spans = [
            Span(place.layer, place.direction, part, -1, start(), end(), place.round)
            for place, part, start, end in parts
        ]
        return spans + _transfers_on_device(spans) if self.stages.on_device else spans


_Part = tuple[ExchangeKey, str, Callable[[], float], Callable[[], float]]
"""Exchange key, part, and functions that return its begin and end."""


def _transfers_on_device(spans: list[Span]) -> list[Span]:
    """Derive the transfers that were posted and waited for in the same epoch."""
    transfer_spans: list[Span] = []
    post_ends: dict[ExchangeKey, float] = {}
    for span in spans:
        place = ExchangeKey(span.layer, span.direction, span.round)
        # With stale rows a wait belongs to a post of the previous epoch, which is not recorded: no transfer.
        if span.what == "post":
            post_ends[place] = span.end
        elif span.what == "wait" and place in post_ends:
            transfer_spans.append(
                Span(span.layer, span.direction, "transfer", -1, post_ends.pop(place), span.end, span.round)
            )
    return transfer_spans


def transfers(arrivals: Iterable[MessageRecord]) -> list[Span]:
    """Convert records of received messages to spans, by the host's clock."""
    return [
        Span(
            record.layer,
            record.direction,
            "transfer",
            record.sender,
            record.posted,
            record.posted + record.seconds,
            record.round,
        )
        for record in arrivals
        if record.layout.num_bytes
    ]
