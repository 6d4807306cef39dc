"""Monitor of the ranks on one machine: heartbeats, reported errors, deaths. Standard library only.

The guard uses it: the process that starts the workers of a run on one machine, watches them and ends them.
"""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gnnqlab.launch.exit_codes import ExitCodes
from gnnqlab.launch.memory_limit import MemoryKills
from gnnqlab.launch.signals import STACKS
from gnnqlab.launch.stall import Stall
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.failure_report import WorkerError, crash_site, is_consequence, place_of, quote_errno, signal_name
from gnnqlab.train.heartbeat import HeartbeatReader, Pulse

__all__ = ["RankMonitor"]

_TELL_S = 3.0
"""Limit, on a busy machine, from a worker's death to its exit status from the agent, or from a plain torchrun's log."""
_STACKS_S = 3.0
"""Limit until the stacks of a rank are written."""


class RankMonitor:
    """Collector of the state and errors of all ranks, from which the guard decides.

    Args:
        folder: the run folder.
        local_workers: number of ranks on this machine.
        node: number of this machine.
        agent_log: output of torchrun, which names the first worker that died.
        appeared: called at each rank's first heartbeat, with its pidfd.
        name: of the process that the guard starts: torchrun, or the rank itself.
    """

    def __init__(
        self,
        folder: Path,
        *,
        local_workers: int,
        node: int,
        agent_log: Path,
        appeared: Callable[[int | None], None],
        name: str = "torchrun",
    ) -> None:
        self.folder, self.local_workers, self.node = folder, local_workers, node
        self.agent_log, self._appeared, self._name = agent_log, appeared, name
        self.pulses: dict[int, Pulse] = {}
        self.errors: dict[int, WorkerError] = {}
        self.ended: dict[int, int] = {}
        self.collected = ExitCodes()
        self._readers: dict[int, HeartbeatReader] = {}
        self._pidfds: dict[int, int | None] = {}
        self._memory_kills = MemoryKills()  # before the run, to recognise later ones

    @property
    def all_done(self) -> bool:
        """True if every rank has reported the phase ``done``."""
        return len(self.pulses) == self.local_workers and all(p.phase == "done" for p in self.pulses.values())

    @property
    def epoch(self) -> int:
        """Latest epoch that all ranks have reached; -1 before the first."""
        return min((pulse.epoch for pulse in self.pulses.values()), default=-1)

    @property
    def training(self) -> bool:
        """True if any rank has begun its first epoch."""
        return any(pulse.epoch >= 0 for pulse in self.pulses.values())

    def poll(self) -> None:
        """Update heartbeats, errors and deaths of all ranks."""
        self.ended.update(processes.collect())
        if len(self._readers) < self.local_workers:
            self._find_ranks()
        self.pulses = {rank: self._readers[rank].read() for rank in sorted(self._readers)}
        for rank in self.pulses:
            if rank not in self.errors:
                self._read_error(rank)
        self._read_deaths()

    def ask_for_stacks(self, ranks: Iterable[int] | None = None) -> None:
        """Make ranks write their stacks (faulthandler, which also works during a C++ wait).

        Args:
            ranks: ranks that are about to be ended, of which those without a stack write it; by default all ranks that
                sleep, for which it is safe. faulthandler reads the frames of running threads without a lock, which can
                crash a working rank (SIGSEGV).
        """
        signalled_ranks = []
        for rank, pulse in self.pulses.items():
            process = processes.read(pulse.pid)
            # A stopped process would not handle the signal, and an ended one has no stacks.
            if process is None or process.start != pulse.start_time or process.state in "TtZX":
                continue
            is_due = processes.is_asleep(pulse.pid, pulse.start_time)
            if ranks is not None:
                is_due = rank in ranks and not self._trace(rank)
            if is_due:
                os.kill(pulse.pid, STACKS)
                signalled_ranks.append(rank)
        deadline_s = time.monotonic() + _STACKS_S
        while ranks is not None and time.monotonic() < deadline_s and not all(map(self._trace, signalled_ranks)):
            time.sleep(0.005)  # the ranks are ended as soon as this returns

    def stalled(self, stall: Stall) -> list[WorkerError]:
        """Return the errors of the ranks responsible for a stall."""
        missing_ranks = sorted(set(range(self.local_workers)) - set(self.pulses))
        # All wait, and some have not started: those are responsible. Local ranks are global ones on the first machine.
        if stall.kind == "waiting" and self.node == 0 and missing_ranks:
            return [
                WorkerError(rank=rank, cause=f"rank {rank} has not started", phase="start", epoch=-1)
                for rank in missing_ranks
            ]
        description = {
            "stopped": "was stopped (SIGSTOP) and has not moved for {:.1f} s",
            "hung": "hangs: it has slept for {:.1f} s",
            "slow": "has worked on one step for {:.1f} s",
            "waiting": "has waited for {:.1f} s, as all others do,",
        }[stall.kind].format(stall.silence_s)
        return [
            WorkerError(
                rank=rank,
                cause=f"rank {rank} {description} {place_of(self.pulses[rank].phase, self.pulses[rank].epoch)}",
                signal=signal.SIGSTOP if stall.kind == "stopped" else None,
                phase=self.pulses[rank].phase,
                epoch=self.pulses[rank].epoch,
                traceback=self._trace(rank),
                monotonic_ns=time.monotonic_ns(),
            )
            for rank in stall.ranks
        ]

    def agent_ended(self, status: int) -> WorkerError:
        """Return the error of a torchrun that ended before its workers, or of a worker without a heartbeat."""
        number: int | None = None
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = f"{self._name}, which started the workers," if self._name == "torchrun" else self._name
            cause = f"{name} was killed (signal {number}, {signal_name(number)}){self._memory_reason(number)}"
        else:
            cause = f"{self._name} ended with code {os.WEXITSTATUS(status)} before the workers were finished"
        # torchrun has no report of its own: its log names the port, file or limit.
        if number is None and (line := quote_errno(files.tail(self.agent_log, 20000))):
            cause += f" ({line})"
        # The phase of the rank furthest behind.
        phase = min(self.pulses.values(), key=lambda pulse: pulse.beats).phase if self.pulses else "start"
        return WorkerError(
            rank=-1,
            cause=f"{cause}, {place_of(phase, self.epoch)}",
            signal=number,
            phase=phase,
            epoch=self.epoch,
            traceback=files.tail(self.agent_log, 4000),
            monotonic_ns=time.monotonic_ns(),
        )

    def never_started(self, limit_s: float) -> WorkerError:
        """Return the error of a run without any worker's heartbeat."""
        return WorkerError(
            rank=-1,
            cause=f"no worker has started within {limit_s:.0f} s",
            phase="start",
            epoch=-1,
            traceback=files.tail(self.agent_log, 4000),
            monotonic_ns=time.monotonic_ns(),
        )

    # -- internals ------------------------------------------------------------------------------------------------

    def _find_ranks(self) -> None:
        for path in (self.folder / "heartbeat").glob("rank*"):
            rank = int(path.name.removeprefix("rank"))
            if rank in self._readers or (reader := HeartbeatReader.open(path)) is None:
                continue
            pulse = reader.read()
            if pulse.node != self.node:  # a rank of another machine, on a shared disk
                reader.close()
                continue
            self._readers[rank] = reader
            self.pulses[rank] = pulse
            # Opened while the rank lives, so that its exit status can be read after its death.
            self._pidfds[rank] = processes.open_pidfd(pulse.pid, pulse.start_time)
            self._appeared(self._pidfds[rank])

    def _read_error(self, rank: int) -> None:
        text = self._readers[rank].error()
        if text is None:
            return
        report: dict[str, Any] = json.loads(text)
        consequence = is_consequence(report["text"])
        if consequence:
            event = "lost its connection to another worker"
        else:
            event = f"raised {report['type']}" + (f": {report['text'].rstrip('.')}" if report["text"] else "")
        self.errors[rank] = WorkerError(
            rank=rank,
            cause=f"rank {rank} {event}, {place_of(report['phase'], report['epoch'])}",
            phase=report["phase"],
            epoch=report["epoch"],
            traceback=report["traceback"],
            consequence=consequence,
            monotonic_ns=report["monotonic_ns"],
        )

    def _read_deaths(self) -> None:
        exit_statuses: dict[int, int | None] = {}
        for rank, pulse in self.pulses.items():
            if rank in self.errors or pulse.phase == "done" or processes.is_alive(pulse.pid, pulse.start_time):
                continue
            # Read again: it may have finished, or stored its error, between the last reading and its death.
            pulse = self.pulses[rank] = self._readers[rank].read()
            if pulse.phase != "done" and self._readers[rank].error() is None:
                exit_statuses[rank] = self._exit_status(pulse)
        if None in exit_statuses.values():
            self._wait_for_statuses(exit_statuses)
        # torchrun ends the other workers with SIGTERM, and may have reaped them before this poll.
        has_known_cause = self._has_known_cause(exit_statuses)
        for rank, status in exit_statuses.items():
            consequence = status == signal.SIGTERM or (status is None and has_known_cause)
            self.errors[rank] = self._death(self.pulses[rank], status, consequence)

    def _has_known_cause(self, exit_statuses: dict[int, int | None]) -> bool:
        """Return True if a cause is known that is neither a lost connection nor torchrun's SIGTERM."""
        return any(not error.consequence for error in self.errors.values()) or any(
            status not in (None, signal.SIGTERM) for status in exit_statuses.values()
        )

    def _death(self, pulse: Pulse, status: int | None, consequence: bool) -> WorkerError:
        number: int | None = None
        if status is None:
            event = "was ended with the others" if consequence else "died"
        elif os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            event = f"was killed (signal {number}, {signal_name(number)})"
            if crash := crash_site(self._trace(pulse.rank, 32000)):  # all threads
                event += f" at {crash},"
            if reason := self._memory_reason(number):
                event += f"{reason},"
        else:
            event = f"exited with code {os.WEXITSTATUS(status)} before it was finished,"
        return WorkerError(
            rank=pulse.rank,
            cause=f"rank {pulse.rank} {event} {place_of(pulse.phase, pulse.epoch)}",
            signal=number,
            phase=pulse.phase,
            epoch=pulse.epoch,
            traceback=self._trace(pulse.rank),
            consequence=consequence,
            monotonic_ns=time.monotonic_ns(),
        )

    def _memory_reason(self, number: int) -> str:
        """Return the reason of a SIGKILL that the kernel sent for lack of memory, after a comma; empty otherwise."""
        reason = self._memory_kills.reason() if number == signal.SIGKILL else ""
        return f", {reason}" if reason else ""

    def _exit_status(self, pulse: Pulse) -> int | None:
        status = processes.exit_status(pulse.pid, pulse.start_time, self._pidfds[pulse.rank])
        return self._reaped_status(pulse.pid) if status is None else status

    def _reaped_status(self, pid: int) -> int | None:
        """Return the wait status of a worker that was reaped by this process or the agent, if it is known."""
        self.ended.update(processes.collect())
        return self.ended.get(pid, self.collected.read().get(pid))

    def _wait_for_statuses(self, exit_statuses: dict[int, int | None]) -> None:
        """Wait until a cause is known: from the agent's pipe, or from the log of a plain torchrun."""
        deadline_s = time.monotonic() + _TELL_S
        is_last_check = False
        while None in exit_statuses.values() and not (self._has_known_cause(exit_statuses) or is_last_check):
            time.sleep(0.005)
            # Of the guard's children only torchrun ends by itself; after that no further status can arrive.
            is_last_check = bool(self.ended) or time.monotonic() >= deadline_s
            log = files.tail(self.agent_log, 20000)
            for rank in [rank for rank, status in exit_statuses.items() if status is None]:
                pid = self.pulses[rank].pid
                exit_statuses[rank] = self._reaped_status(pid)
                match = re.search(rf"exitcode: (-?\d+)\) local_rank: \d+ \(pid: {pid}\)", log)
                if exit_statuses[rank] is None and match:
                    code = int(match.group(1))
                    exit_statuses[rank] = -code if code < 0 else code << 8  # as a wait status

    def _trace(self, rank: int, size: int = 8000) -> str:
        return files.tail(self.folder / "errors" / f"rank{rank}.trace", size)
