"""Where an epoch's seconds go: exactly one phase is open at any time, so the phases add up to the epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from gnnqlab.observe import NO_OBSERVERS, Observers, PhaseEnded

__all__ = ["PARTS", "PHASES", "PhaseTimer", "summed"]

PHASES = (
    "central",
    "marginal",
    "encode",
    "decode",
    "wait",
    "dense",
    "reduce",
    "optimizer",
    "evaluate",
    "assign",
    "other",
)
"""Phases of an epoch: the products of central and of marginal rows (neighbour sums, and the projections that run
between them), quantization, waiting for messages, the model's other computations (`PARTS`), the gradient all-reduce,
the step, evaluation, bit-width assignment, and what no other phase claims."""

PARTS = {"dense": ("products", "elementwise", "loss")}
"""Phases that a phase is the sum of: projections beside the convolutions; dropout, norms, activations and sums; the
loss. Forward and backward each."""

_ALL = (*PHASES, *(part for parts in PARTS.values() for part in parts))
_BEATS = {"encode": "encode", "wait": "wait", "reduce": "reduce", "evaluate": "evaluate"}


class PhaseTimer:
    """Measures phases exclusively: opening one pauses the one around it.

    Example:
        >>> clock = PhaseTimer()
        >>> with clock("dense"):
        ...     with clock("wait"):
        ...         pass
        >>> sorted(name for name, seconds in clock.take().items() if seconds > 0)
        ['dense', 'other', 'wait']
    """

    def __init__(
        self,
        beat: Callable[[str], None] = lambda phase: None,
        *,
        timer: Callable[[], float] = time.perf_counter,
        observers: Observers = NO_OBSERVERS,
    ) -> None:
        """Start in the phase ``other``.

        Args:
            beat: told about every change of phase.
            timer: seconds; ``time.thread_time`` counts only those in which this thread computed.
            observers: receive an event for each stretch of a phase.
        """
        self._beat, self._timer, self._observers = beat, timer, observers
        self._folded = False
        self._turners: dict[str, Callable[[object], None]] = {}
        self._open = "other"
        self._since = timer()
        self._seconds = dict.fromkeys(_ALL, 0.0)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        if self._folded:
            # The seconds belong to the phase around; who watches must still see a worker wait for another.
            self._beat(_BEATS.get(phase, _BEATS.get(self._open, "compute")))
            yield
            self._beat(_BEATS.get(self._open, "compute"))
            return
        around = self._switch(phase)
        try:
            yield
        finally:
            self._switch(around)

    def enter(self, phase: str) -> str:
        """Open a phase from here on, until another is opened or the block around ends; return the one before.

        Nobody is told: what turns is computation, and so is what it turns from.
        """
        return self._open if self._folded else self._switch_silently(phase)

    def enter_hook(self, phase: str) -> Callable[[object], None]:
        """Return what turns to a phase, whatever it is given: the same each time, for hooks of a backward pass."""
        if phase not in self._turners:

            def turn(_: object) -> None:
                self.enter(phase)

            self._turners[phase] = turn
        return self._turners[phase]

    @contextmanager
    def whole(self, phase: str) -> Iterator[None]:
        """Open a phase that claims everything inside it, phases of its own included."""
        with self(phase):
            self._folded = True
            try:
                yield
            finally:
                self._folded = False

    def take(self) -> dict[str, float]:
        """Return seconds per phase since the last call, and start anew; each second is counted once."""
        self._switch(self._open)
        seconds, self._seconds = self._seconds, dict.fromkeys(_ALL, 0.0)
        return seconds

    def _switch(self, phase: str) -> str:
        around = self._switch_silently(phase)
        self._beat(_BEATS.get(phase, "compute"))
        return around

    def _switch_silently(self, phase: str) -> str:
        now = self._timer()
        around = self._open
        self._seconds[around] += now - self._since
        if self._observers.phase_ended:
            observers = self._observers
            observers.emit(observers.phase_ended, PhaseEnded(observers.rank, observers.epoch, around, self._since, now))
        self._open, self._since = phase, now
        return around


def summed(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return seconds as records have them: a phase that has parts is their sum, and the parts stand behind.

    Example:
        >>> found = summed({**dict.fromkeys(PHASES, 0.0), "products": 2.0, "elementwise": 1.0, "loss": 0.5})
        >>> found["dense"], found["products"]
        (3.5, 2.0)
    """
    whole = {phase: seconds[phase] + sum(seconds[part] for part in parts) for phase, parts in PARTS.items()}
    return {**seconds, **whole}
