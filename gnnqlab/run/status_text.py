"""What a run does at this moment, in words: before its first epoch, and within an epoch that takes long."""

import time
from collections.abc import Callable, Collection

from gnnqlab.run import processes
from gnnqlab.train.heartbeat import PHASES, Pulse

__all__ = ["Wire", "doing"]

_AGAIN_S = 0.4
_FEWEST = 1000
"""Bytes a second that are worth a word."""


def doing(pulses: Collection[Pulse]) -> str:
    """Say what the worker that is furthest behind does, and how far it is in its epoch.

    The share of an epoch is that of the steps (changes of phase) which the epoch before took; in the first one they are
    counted.

    Args:
        pulses: heartbeats of the workers that were heard so far.

    Example:
        >>> waiting = Pulse(0, 0, 7, 0, 40, 3, 0, 0.0, 2.5, "wait", 15, 60)
        >>> doing([waiting]), doing([waiting._replace(epoch=0, steps=0)])
        ('epoch 4, 25 % done: waiting for boundary messages', 'epoch 1, step 15: waiting for boundary messages')
        >>> doing([])
        'starting its workers'
    """
    if not pulses:
        return "starting its workers"
    behind = min(pulses, key=lambda pulse: (pulse.epoch, pulse.step))
    words = PHASES.get(behind.phase, behind.phase)
    if behind.epoch < 0:
        return words
    far = f"{min(99, 100 * behind.step // behind.steps)} % done" if behind.steps else f"step {behind.step}"
    return f"epoch {behind.epoch + 1}, {far}: {words}"


class Wire:
    """Bytes a second that come to the emulated host which gets most, between two looks.

    Args:
        received: bytes that have come to the host of a process, ``None`` without such a host.
        clock: seconds that never go back.

    Example:
        >>> seconds, counted = iter([0.0, 2.0]), iter([1000, 9000])
        >>> wire = Wire(lambda pid: next(counted), clock=lambda: next(seconds))
        >>> wire.rate([7]), wire.rate([7])
        (None, 4000.0)
    """

    def __init__(
        self,
        received: Callable[[int], int | None] = processes.received,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._received, self._clock = received, clock
        self._before: dict[int, int] = {}
        self._at: float | None = None
        self._rate: float | None = None

    def rate(self, pids: Collection[int]) -> float | None:
        """Return the rate since the look before; ``None`` while it is not known, where nothing moves or can be seen."""
        now = self._clock()
        if self._at is not None and now - self._at < _AGAIN_S:
            return self._rate
        counted = {pid: self._received(pid) for pid in pids}
        known = {pid: number for pid, number in counted.items() if number is not None}
        moved = [number - self._before[pid] for pid, number in known.items() if pid in self._before]
        rate = max(moved) / (now - self._at) if moved and self._at is not None else 0.0
        self._before, self._at, self._rate = known, now, rate if rate >= _FEWEST else None
        return self._rate
