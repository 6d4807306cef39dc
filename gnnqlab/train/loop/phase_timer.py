"""Timer of an epoch's phases: exactly one phase is open at any time, so the phases add up to the epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from gnnqlab.observe import NO_OBSERVERS, Observers, PhaseEnded

__all__ = ["PARTS", "PHASES", "PhaseTimer", "include_parts"]

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
"""Phases of an epoch: aggregation of central and of marginal rows (with the projections that run in between),
quantization, waiting for messages, the model's other computations (`PARTS`), the gradient all-reduce, the optimizer
step, evaluation, bit-width assignment, and the rest."""

PARTS = {"dense": ("products", "elementwise", "loss")}
"""Phases and the parts that they are the sum of: projections outside the convolutions; dropout, norms, activations and
sums; the loss. Each includes forward and backward pass."""

_ALL = (*PHASES, *(part for parts in PARTS.values() for part in parts))
# Phases that the guard must distinguish; all others are computation.
_BEATS = {"encode": "encode", "wait": "wait", "reduce": "reduce", "evaluate": "evaluate"}


class PhaseTimer:
    """Timer of exclusive phases: opening a phase pauses the enclosing one.

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
            beat: called with the name of every new phase, for the heartbeat.
            timer: returns seconds; ``time.thread_time`` counts only the CPU time of this thread.
            observers: receive an event for each interval of a phase.
        """
        self._beat, self._timer, self._observers = beat, timer, observers
        self._folded = False  # True inside whole()
        self._turners: dict[str, Callable[[object], None]] = {}
        self._blocks = {phase: _Block(self, phase) for phase in _ALL}
        self._open = "other"
        self._since = timer()
        self._seconds = dict.fromkeys(_ALL, 0.0)

    def __call__(self, phase: str) -> AbstractContextManager[None]:
        return self._blocks[phase]

    def enter(self, phase: str) -> str:
        """Open a phase until another is opened or the enclosing block ends; return the phase before.

        The heartbeat is not updated, because both phases are computation.
        """
        outer_phase = self._open
        if self._folded:
            return outer_phase
        time_s = self._timer()
        self._seconds[outer_phase] += time_s - self._since  # every second belongs to exactly one phase
        if self._observers.phase_ended:
            observers = self._observers
            observers.emit(
                observers.phase_ended, PhaseEnded(observers.rank, observers.epoch, outer_phase, self._since, time_s)
            )
        self._open, self._since = phase, time_s
        return outer_phase

    def enter_hook(self, phase: str) -> Callable[[object], None]:
        """Return a function that opens a phase and ignores its argument, one per phase, for backward hooks."""
        if phase not in self._turners:  # one function per phase, for all passes

            def turn(_: object) -> None:
                self.enter(phase)

            self._turners[phase] = turn
        return self._turners[phase]

    @contextmanager
    def open_inclusive(self, phase: str) -> Iterator[None]:
        """Open a phase that includes all time inside it, also that of nested phases."""
        with self(phase):
            self._folded = True
            try:
                yield
            finally:
                self._folded = False

    def take(self) -> dict[str, float]:
        """Return seconds per phase since the last call and reset them; each second is counted once."""
        self.enter(self._open)  # counts the open interval up to this moment
        seconds, self._seconds = self._seconds, dict.fromkeys(_ALL, 0.0)
        return seconds


class _Block:
    """Block of one phase; blocks nest, also in blocks of the same phase. A generator would make five calls more."""

    def __init__(self, clock: PhaseTimer, phase: str) -> None:
        self._clock, self._phase = clock, phase
        self._outer_phases: list[str] = []

    def __enter__(self) -> None:
        clock = self._clock
        self._outer_phases.append(clock.enter(self._phase))
        # In an inclusive block the phase stays open, but the heartbeat must still show a wait for another worker.
        clock._beat(_BEATS.get(self._phase, _BEATS.get(clock._open, "compute")))

    def __exit__(self, *error: object) -> None:
        clock, outer_phase = self._clock, self._outer_phases.pop()
        clock.enter(outer_phase)
        clock._beat(_BEATS.get(outer_phase, "compute"))


def include_parts(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return seconds as in records: a phase with parts includes their sum, and the parts are listed as well.

    Example:
        >>> found = include_parts({**dict.fromkeys(PHASES, 0.0), "products": 2.0, "elementwise": 1.0, "loss": 0.5})
        >>> found["dense"], found["products"]
        (3.5, 2.0)
    """
    totals = {phase: seconds[phase] + sum(seconds[part] for part in parts) for phase, parts in PARTS.items()}
    return {**seconds, **totals}
