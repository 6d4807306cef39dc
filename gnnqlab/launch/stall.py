"""Detect stalled runs and the responsible ranks, from heartbeats and process states. Standard library only.

A run is silent while no training rank changes its phase, and no waiting rank on an emulated host receives bytes over
its link. Responsible for a silence are the ranks that are not waiting for others; if all wait, those furthest behind.
If any responsible rank uses the processor, the run is *slow* and gets much more time than a run whose responsible ranks
all sleep: those *hang*.

=======================  ============================  ==========================================
silence of               is reported after             ends the run after
=======================  ============================  ==========================================
a stopped process        max(3 s, 5 median epochs)     max(8 s, 20 median epochs)
sleeping ranks           same                          same; over several machines, where the
                                                       responsible rank may be on another one, and
                                                       over a slow link, at least 20 s, and 600 s
                                                       before the second epoch
a working rank           same, as ``slow``             max(600 s, 60 median epochs)
a phase with a limit     half of its limit             its limit
=======================  ============================  ==========================================

Before the first epoch has ended, its duration is unknown: until then ranks that wait for each other, or work, are
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
_WORKING_S = 600.0  # least seconds for a rank that works
_LOOK_S = 0.25  # seconds between two readings of /proc
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STEP_S = 0.5  # most seconds that one poll adds to a silence
_UNKNOWN_S = 20.0  # seconds before a report while the duration of an epoch is unknown
_MIN_BYTES = 1024
"""Bytes between two polls from which on a link counts as receiving; idle connections exchange less."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """Settings of the table above."""

    report_s: float | None = None
    """Seconds of silence before a report; ``None`` for the table's rule."""
    stop_s: float | None = None
    """Seconds of silence before the run is ended, for any activity of the ranks; ``None`` for the table's rule."""
    machines: int = 1
    """Number of machines of the run."""
    slow_wire: bool = False
    """True if a message may take long, because the workers are on emulated hosts, joined by a link of any rate."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stall:
    """Silence that is long enough to report."""

    kind: str
    """``stopped``, ``hung``, ``slow`` or ``waiting`` (all ranks wait for each other)."""
    ranks: tuple[int, ...]
    """Responsible ranks."""
    silence_s: float
    """Duration of the silence."""
    fatal: bool
    """True if the run must be ended."""


@dataclasses.dataclass
class _Activity:
    beats: int
    silence_s: float = 0.0
    stopped_s: float = 0.0
    idle_s: float = 0.0
    cpu: int = -1
    received: int | None = None


class StallWatch:
    """Detector of stalls; ``observe`` is called after every poll of the heartbeats."""

    def __init__(
        self,
        rules: Rules,
        look: Callable[[int], processes.Process | None] = processes.read,
        received: Callable[[int], int | None] = processes.received_bytes,
    ) -> None:
        self.rules, self._look, self._received = rules, look, received
        self._activity: dict[int, _Activity] = {}
        self._now: float | None = None
        self._polled_s = 0.0
        self._epoch = -1
        self._epochs_s: deque[float] = deque(maxlen=20)

    @property
    def median_epoch_s(self) -> float:
        """Median of the last epochs, 0 before the first."""
        return statistics.median(self._epochs_s) if self._epochs_s else 0.0

    def observe(self, now_s: float, pulses: Iterable[Pulse]) -> Stall | None:
        """Return the present stall, if it is long enough to report."""
        # At most one step per call: time in which this process did not run is no silence of the ranks.
        step = 0.0 if self._now is None else min(now_s - self._now, _STEP_S)
        self._now = now_s
        active_pulses = [pulse for pulse in pulses if pulse.phase != "done"]
        if not active_pulses:
            return None
        self._time_epochs(active_pulses[0])  # any rank will do: all end an epoch at about the same time
        for pulse in active_pulses:
            activity = self._activity.get(pulse.rank)
            if activity is None or activity.beats != pulse.beats:
                self._activity[pulse.rank] = _Activity(pulse.beats)
            else:
                activity.silence_s += step
        # Reading /proc costs system calls, so it begins only after some silence.
        if max(self._activity[pulse.rank].silence_s for pulse in active_pulses) < 0.3:
            return None
        if now_s - self._polled_s >= _LOOK_S:
            self._poll_processes(active_pulses, min(now_s - self._polled_s, _STEP_S))
            self._polled_s = now_s
        return self._stopped(active_pulses) or self._silent(active_pulses)

    def _time_epochs(self, pulse: Pulse) -> None:
        if pulse.epoch_s and pulse.epoch != self._epoch:
            self._epochs_s.append(pulse.epoch_s)
            self._epoch = pulse.epoch

    def _poll_processes(self, active_pulses: list[Pulse], elapsed: float) -> None:
        for pulse in active_pulses:
            activity, process = self._activity[pulse.rank], self._look(pulse.pid)
            if process is None or process.start != pulse.start_time:
                continue  # dead: the guard detects that elsewhere
            activity.stopped_s = activity.stopped_s + elapsed if process.state in "Tt" else 0.0
            # Occasional wake-ups (a signal, a timer) do not count as work, a tenth of the processor's time does.
            works = process.state in "RD" or (process.cpu - activity.cpu) / _TICKS_PER_S > 0.1 * elapsed
            if works and activity.cpu >= 0:  # -1: no earlier reading to compare with
                # Work counts twice as much as sleep, so that a rank with pauses is still busy.
                activity.idle_s = max(0.0, activity.idle_s - 2 * elapsed)
            else:
                activity.idle_s += elapsed
            activity.cpu = process.cpu
            if pulse.phase in WAITING:
                self._count_received(activity, self._received(pulse.pid))

    def _count_received(self, activity: _Activity, num_bytes: int | None) -> None:
        """Reset the silence of a rank that receives: a message may take any time on a slow link."""
        previous_bytes = activity.received
        if num_bytes is not None and previous_bytes is not None and num_bytes - previous_bytes >= _MIN_BYTES:
            activity.silence_s = 0.0
        activity.received = num_bytes

    def _limits(self) -> tuple[float, float]:
        median = self.median_epoch_s
        return self.rules.report_s or max(3.0, 5 * median), self.rules.stop_s or max(8.0, 20 * median)

    def _stopped(self, active_pulses: list[Pulse]) -> Stall | None:
        report_s, stop_s = self._limits()
        for pulse in active_pulses:
            activity = self._activity[pulse.rank]
            # Processes are polled every quarter of a second, so a stop may have begun that long before its detection.
            silence_s = min(activity.silence_s, activity.stopped_s + 2 * _LOOK_S) if activity.stopped_s else 0.0
            if silence_s >= report_s:
                return Stall(kind="stopped", ranks=(pulse.rank,), silence_s=silence_s, fatal=silence_s >= stop_s)
        return None

    def _silent(self, active_pulses: list[Pulse]) -> Stall | None:
        # A run is silent only if every rank is.
        silence_s = min(self._activity[pulse.rank].silence_s for pulse in active_pulses)
        report_s, stop_s = self._limits()
        if silence_s < report_s:
            return None
        # A waiting rank is blocked by another one, so only the others can be responsible.
        suspects = [pulse for pulse in active_pulses if pulse.phase not in WAITING]
        if suspects:
            # A rank is busy if it has slept for less than this.
            idle_s = min(2.0, report_s / 2)
            busy_pulses = [pulse for pulse in suspects if self._activity[pulse.rank].idle_s < idle_s]
            kind, suspects = ("slow", busy_pulses) if busy_pulses else ("hung", suspects)
        else:
            # All wait for each other, most likely for the ranks that are furthest behind.
            furthest_behind = min((pulse.epoch, pulse.beats) for pulse in active_pulses)
            kind, suspects = "waiting", [p for p in active_pulses if (p.epoch, p.beats) == furthest_behind]
        if self.rules.stop_s is None and kind == "slow":
            stop_s = max(_WORKING_S, 60 * self.median_epoch_s)
        elif self.rules.stop_s is None and (self.rules.machines > 1 or self.rules.slow_wire):
            stop_s = max(20.0, stop_s) if self._epochs_s else _WORKING_S
        # A limit of the phase itself replaces the rules above.
        limit_s = max(pulse.limit_s or _PHASE_LIMITS_S.get(pulse.phase, 0.0) for pulse in suspects)
        if limit_s:
            report_s, stop_s = max(report_s, limit_s / 2), limit_s
        if not self._epochs_s and kind != "hung" and self.rules.report_s is None:
            report_s = max(report_s, min(_UNKNOWN_S, stop_s))
        if silence_s < report_s:
            return None
        ranks = tuple(pulse.rank for pulse in suspects)
        return Stall(kind=kind, ranks=ranks, silence_s=silence_s, fatal=silence_s >= stop_s)
