"""When is a run stuck, and because of whom? Rules over heartbeats and process states. Standard library only.

A run is silent while no rank that still trains changes its phase, and none that waits on an emulated host gets
anything over its wire. Who is to blame for a silence: the ranks that are
not waiting for others; if all wait, the ones that are furthest behind. If any rank to blame uses the processor, the
run is *slow* and is given much more time than one whose ranks to blame all sleep: those *hang*.

=======================  ============================  ==========================================
silence of               is reported after             ends the run after
=======================  ============================  ==========================================
a stopped process        max(3 s, 5 median epochs)     max(8 s, 20 median epochs)
sleeping ranks           same                          same; over several machines, where the one
                                                       to blame may be out of sight, and over a
                                                       slow wire, 20 s at least, and 600 s before
                                                       the second epoch
a working rank           same, as ``slow``             max(600 s, 60 median epochs)
a phase with a limit     half of its limit             its limit
=======================  ============================  ==========================================

Before an epoch has ended nobody knows how long one takes: until then ranks that wait for each other, or work, are
reported after 20 s, or when the run is ended.

Time in which the guard itself did not run (a suspended machine) does not count.
"""

import dataclasses
import os
import statistics
from collections import deque
from collections.abc import Callable, Iterable

from gnnqlab.run import processes
from gnnqlab.train.heartbeat import WAITING, Pulse

__all__ = ["Rules", "Stall", "StallWatch"]

_PHASE_LIMITS_S = {"start": 120.0, "load": 1800.0, "partition": 1800.0, "init": 60.0}
_WORKING_S = 600.0
_LOOK_S = 0.25
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STEP_S = 0.5
_UNKNOWN_S = 20.0
_FEWEST_BYTES = 1024
"""What has to come over a wire between two looks to be more than the small talk of idle connections."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """Settings of the table above."""

    report_s: float | None = None
    """Seconds of silence that are reported; ``None`` is the table's rule."""
    stop_s: float | None = None
    """Seconds of silence that end the run, whatever the ranks do; ``None`` is the table's rule."""
    machines: int = 1
    """How many machines the run has."""
    slow_wire: bool = False
    """Whether a message may take long: the workers are on emulated hosts, joined by a link of any rate."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stall:
    """A silence worth telling."""

    kind: str
    """``stopped``, ``hung``, ``slow`` or ``waiting`` (all ranks wait for each other)."""
    ranks: tuple[int, ...]
    """Who is to blame."""
    silence_s: float
    """Since when."""
    fatal: bool
    """Whether the run has to be ended."""


@dataclasses.dataclass
class _Seen:
    beats: int
    silence_s: float = 0.0
    stopped_s: float = 0.0
    idle_s: float = 0.0
    cpu: int = -1
    received: int | None = None


class StallWatch:
    """Keeps the clocks; ``observe`` is called for every look at the heartbeats."""

    def __init__(
        self,
        rules: Rules,
        look: Callable[[int], processes.Process | None] = processes.read,
        received: Callable[[int], int | None] = processes.received,
    ) -> None:
        self.rules, self._look, self._received = rules, look, received
        self._seen: dict[int, _Seen] = {}
        self._now: float | None = None
        self._looked = 0.0
        self._epoch = -1
        self._epochs_s: deque[float] = deque(maxlen=20)

    @property
    def median_epoch_s(self) -> float:
        """Median of the last epochs, 0 before the first."""
        return statistics.median(self._epochs_s) if self._epochs_s else 0.0

    def observe(self, now_s: float, pulses: Iterable[Pulse]) -> Stall | None:
        """The silence to tell, if there is one now."""
        step = 0.0 if self._now is None else min(now_s - self._now, _STEP_S)
        self._now = now_s
        active = [pulse for pulse in pulses if pulse.phase != "done"]
        if not active:
            return None
        self._time_epochs(active[0])
        for pulse in active:
            seen = self._seen.get(pulse.rank)
            if seen is None or seen.beats != pulse.beats:
                self._seen[pulse.rank] = _Seen(pulse.beats)
            else:
                seen.silence_s += step
        if max(self._seen[pulse.rank].silence_s for pulse in active) < 0.3:
            return None
        if now_s - self._looked >= _LOOK_S:
            self._look_at(active, min(now_s - self._looked, _STEP_S))
            self._looked = now_s
        return self._stopped(active) or self._silent(active)

    def _time_epochs(self, pulse: Pulse) -> None:
        if pulse.epoch_s and pulse.epoch != self._epoch:
            self._epochs_s.append(pulse.epoch_s)
            self._epoch = pulse.epoch

    def _look_at(self, active: list[Pulse], elapsed: float) -> None:
        for pulse in active:
            seen, found = self._seen[pulse.rank], self._look(pulse.pid)
            if found is None or found.start != pulse.start_time:
                continue  # gone: the guard notices that elsewhere
            seen.stopped_s = seen.stopped_s + elapsed if found.state in "Tt" else 0.0
            # Wakes now and then (a signal, a timer) are no work: a tenth of the time on the processor is.
            works = found.state in "RD" or (found.cpu - seen.cpu) / _TICKS_PER_S > 0.1 * elapsed
            seen.idle_s = max(0.0, seen.idle_s - 2 * elapsed) if works and seen.cpu >= 0 else seen.idle_s + elapsed
            seen.cpu = found.cpu
            if pulse.phase in WAITING:
                self._hear(seen, self._received(pulse.pid))

    def _hear(self, seen: _Seen, received: int | None) -> None:
        """A message on a slow wire takes as long as it takes: while it comes, nobody is silent."""
        if received is not None and seen.received is not None and received - seen.received >= _FEWEST_BYTES:
            seen.silence_s = 0.0
        seen.received = received

    def _limits(self) -> tuple[float, float]:
        median = self.median_epoch_s
        return self.rules.report_s or max(3.0, 5 * median), self.rules.stop_s or max(8.0, 20 * median)

    def _stopped(self, active: list[Pulse]) -> Stall | None:
        report_s, stop_s = self._limits()
        for pulse in active:
            seen = self._seen[pulse.rank]
            # Looks come every quarter of a second, so the stop may be that much older than the first sight of it.
            silence_s = min(seen.silence_s, seen.stopped_s + 2 * _LOOK_S) if seen.stopped_s else 0.0
            if silence_s >= report_s:
                return Stall(kind="stopped", ranks=(pulse.rank,), silence_s=silence_s, fatal=silence_s >= stop_s)
        return None

    def _silent(self, active: list[Pulse]) -> Stall | None:
        silence_s = min(self._seen[pulse.rank].silence_s for pulse in active)
        report_s, stop_s = self._limits()
        if silence_s < report_s:
            return None
        blamed = [pulse for pulse in active if pulse.phase not in WAITING]
        if blamed:
            idle_s = min(2.0, report_s / 2)
            busy = [pulse for pulse in blamed if self._seen[pulse.rank].idle_s < idle_s]
            kind, blamed = ("slow", busy) if busy else ("hung", blamed)
        else:
            furthest_behind = min((pulse.epoch, pulse.beats) for pulse in active)
            kind, blamed = "waiting", [p for p in active if (p.epoch, p.beats) == furthest_behind]
        if self.rules.stop_s is None and kind == "slow":
            stop_s = max(_WORKING_S, 60 * self.median_epoch_s)
        elif self.rules.stop_s is None and (self.rules.machines > 1 or self.rules.slow_wire):
            stop_s = max(20.0, stop_s) if self._epochs_s else _WORKING_S
        limit_s = max(pulse.limit_s or _PHASE_LIMITS_S.get(pulse.phase, 0.0) for pulse in blamed)
        if limit_s:
            report_s, stop_s = max(report_s, limit_s / 2), limit_s
        if not self._epochs_s and kind != "hung" and self.rules.report_s is None:
            report_s = max(report_s, min(_UNKNOWN_S, stop_s))
        if silence_s < report_s:
            return None
        ranks = tuple(pulse.rank for pulse in blamed)
        return Stall(kind=kind, ranks=ranks, silence_s=silence_s, fatal=silence_s >= stop_s)
