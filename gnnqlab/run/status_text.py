"""Status text of a run: its present activity before the first epoch, and its progress within a long epoch."""

import time
from collections.abc import Callable, Collection

from gnnqlab.run import processes
from gnnqlab.train.heartbeat import PHASES, Pulse

__all__ = ["RateMeter", "describe_activity"]

_AGAIN_S = 0.4  # least seconds between two measurements
_MIN_BYTES_PER_S = 1000
"""Least rate shown, in bytes per second."""


def describe_activity(pulses: Collection[Pulse]) -> str:
    """Return the phase of the worker that is furthest behind, and its progress within the epoch.

    The progress is the number of steps (changes of phase) relative to the epoch before; in the first epoch the number
    itself.

    Args:
        pulses: heartbeats of the workers started so far.

    Example:
        >>> waiting = Pulse(0, 0, 7, 0, 40, 3, 0, 0.0, 2.5, "wait", 15, 60)
        >>> describe_activity([waiting]), describe_activity([waiting._replace(epoch=0, steps=0)])
        ('epoch 4, 25 % done: waiting for boundary messages', 'epoch 1, step 15: waiting for boundary messages')
        >>> describe_activity([])
        'starting its workers'
    """
    if not pulses:
        return "starting its workers"
    slowest_pulse = min(pulses, key=lambda pulse: (pulse.epoch, pulse.step))
    words = PHASES.get(slowest_pulse.phase, slowest_pulse.phase)
    if slowest_pulse.epoch < 0:
        return words
    # At most 99 %: an epoch can have more steps than the one before, for instance because of an evaluation.
    progress = (
        f"{min(99, 100 * slowest_pulse.step // slowest_pulse.steps)} % done"
        if slowest_pulse.steps
        else f"step {slowest_pulse.step}"
    )
    return f"epoch {slowest_pulse.epoch + 1}, {progress}: {words}"


class RateMeter:
    """Meter of the highest receive rate of all emulated hosts, in bytes per second between two calls.

    Args:
        received: returns the bytes received by the emulated host of a process, ``None`` without such a host.
        clock: returns monotonic seconds.

    Example:
        >>> seconds, counted = iter([0.0, 2.0]), iter([1000, 9000])
        >>> wire = RateMeter(lambda pid: next(counted), clock=lambda: next(seconds))
        >>> wire.rate([7]), wire.rate([7])
        (None, 4000.0)
    """

    def __init__(
        self,
        received: Callable[[int], int | None] = processes.received_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._received, self._clock = received, clock
        self._before: dict[int, int] = {}
        self._measured_s: float | None = None
        self._rate: float | None = None

    def rate(self, pids: Collection[int]) -> float | None:
        """Return the rate since the previous call; ``None`` at the first call, and if it is negligible or unknown."""
        now_s = self._clock()
        if self._measured_s is not None and now_s - self._measured_s < _AGAIN_S:
            return self._rate
        counts = {pid: self._received(pid) for pid in pids}
        known_counts = {pid: number for pid, number in counts.items() if number is not None}
        # Workers that started after the previous call have no difference yet.
        growth = [number - self._before[pid] for pid, number in known_counts.items() if pid in self._before]
        # The largest, not the sum: workers of one host read the same counter.
        rate = max(growth) / (now_s - self._measured_s) if growth and self._measured_s is not None else 0.0
        self._before, self._measured_s, self._rate = known_counts, now_s, rate if rate >= _MIN_BYTES_PER_S else None
        return self._rate
