"""The guard of a run: a small process that starts torchrun, watches every rank and leaves nothing behind.

    launching process --pipe--> guard --> torchrun agent --> workers

It ends the run when the launching process is gone (its pipe closes), on a signal, when a worker or the agent has
died, and when the run stands still; it says why in ``status.json`` before it ends the rest. It becomes the parent
of every orphan below it, so no process of the run escapes; if it is itself killed, the kernel ends agent and workers
(parent-death signal). Standard library only: it starts in a few hundredths of a second and costs next to nothing.
"""

import argparse
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gnnqlab.launch import folder as files
from gnnqlab.launch import processes
from gnnqlab.launch.stall import Rules, Stall, StallWatch
from gnnqlab.launch.verdict import WorkerError, is_consequence, order, place_of, signal_name
from gnnqlab.train.heartbeat import HeartbeatReader, Pulse

__all__ = ["Guard", "main"]

_POLL_S = 0.05
_STATUS_S = 1.0
_SETTLE_S, _SETTLE_CONSEQUENCE_S = 0.05, 1.0
"""Waiting for an earlier cause after the first sign of trouble; longer while only consequences are known."""
_FAILED_GRACE_S, _STOPPED_GRACE_S, _FINISHED_GRACE_S = 0.5, 1.0, 3.0
_START_S = 120.0


class Guard:
    """Watches one run on one machine.

    Args:
        folder: the run folder.
        command: the torchrun command line.
        local_workers: how many ranks this machine has.
        rules: when a silence is reported and ended.
        node: number of this machine.
        launcher: pid and start time of the process whose end ends the run, if any.
        watch_stdin: whether the end of standard input ends the run.
    """

    def __init__(
        self,
        folder: Path,
        command: list[str],
        *,
        local_workers: int,
        rules: Rules,
        node: int = 0,
        launcher: tuple[int, int] | None = None,
        watch_stdin: bool = False,
    ) -> None:
        self.folder, self.command, self.node = folder, command, node
        self.local_workers, self.launcher, self.watch_stdin = local_workers, launcher, watch_stdin
        self.state = "starting"
        self.cause = ""
        self._watch = StallWatch(rules)
        self._readers: dict[int, HeartbeatReader] = {}
        self._pulses: dict[int, Pulse] = {}
        self._pidfds: dict[int, int] = {}
        self._errors: dict[int, WorkerError] = {}
        self._ended: dict[int, int] = {}
        self._trouble_s: float | None = None
        self._agent_ended_s: float | None = None
        self._stall: Stall | None = None
        self._stack_asked = False
        self._signal: int | None = None
        self._status_s = 0.0
        self._oom_kills = _oom_kills()
        self._poll = select.poll()

    # -- life -----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """From start to the end of the last process; 0 finished, 1 failed, 130 stopped."""
        processes.become_subreaper()
        self._began_s = time.monotonic()
        wake = self._catch_signals()
        self._start_agent()
        self._write_guard()
        self._set("starting")
        self._poll.register(wake, select.POLLIN)
        if self.watch_stdin:
            self._poll.register(0, select.POLLIN)
        if self.launcher is not None:
            self._watch_pid(*self.launcher)
        while self.state in ("starting", "running", "stalled"):
            self._poll.poll(_POLL_S * 1000)
            self._step(time.monotonic(), wake)
        return self._finish()

    def _step(self, now_s: float, wake: int) -> None:
        try:
            os.read(wake, 64)
        except BlockingIOError:
            pass
        self._ended.update(processes.collect())
        if self._signal is not None:
            return self._set("stopped", f"stopped by {signal_name(self._signal)}")
        if self._launcher_gone():
            return self._set("stopped", "the process that launched the run has ended")
        self._read_heartbeats()
        self._read_errors()
        self._read_deaths(now_s)
        if len(self._pulses) == self.local_workers and all(p.phase == "done" for p in self._pulses.values()):
            return self._set("finished")
        if self._trouble_s is None and (self._errors or self._agent_status() is not None):
            self._trouble_s = now_s
        if self._trouble_s is not None:
            return self._judge(now_s)
        self._judge_silence(now_s)
        if self.state == "starting" and any(p.epoch >= 0 for p in self._pulses.values()):
            self._set("running")
        if now_s - self._status_s >= _STATUS_S:
            self._write_status()

    def _finish(self) -> int:
        """End what is left, tidy up, write the last status."""
        grace = {"failed": _FAILED_GRACE_S, "stopped": _STOPPED_GRACE_S}.get(self.state, 0.0)
        if self.state == "finished":
            # All results are on disk; the processes get a moment to leave by themselves.
            until = time.monotonic() + _FINISHED_GRACE_S
            while time.monotonic() < until and processes.tree(os.getpid()):
                self._ended.update(processes.collect())
                time.sleep(0.02)
            self._warn_of_bad_exits()
        left = processes.end(os.getpid(), grace_s=grace)
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        self._write_status(ended=not left, left=[process.pid for process in left])
        return {"finished": 0, "stopped": 130}.get(self.state, 1)

    # -- starting -------------------------------------------------------------------------------------------------

    def _catch_signals(self) -> int:
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)

        def remember(number: int, _frame: object) -> None:
            self._signal = number

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, remember)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # wakes the loop
        return read_end

    def _start_agent(self) -> None:
        environment = {
            **os.environ,
            "TMPDIR": str(self.folder / "tmp"),
            "GNNQLAB_GUARD": f"{os.getpid()}:{processes.start_time(os.getpid())}",
            "GNNQLAB_NODE": str(self.node),
        }
        with open(self.folder / "logs" / files.node_name("agent", self.node).replace(".json", ".log"), "ab") as log:
            self._agent_log = Path(log.name)
            # preexec_fn is safe here: this process has one thread, which stays until the end.
            agent = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                preexec_fn=processes.die_with_parent,
            )
        self.agent_pid, self._agent_start = agent.pid, processes.start_time(agent.pid)
        agent.returncode = 0  # collected by processes.collect(), not by subprocess

    def _watch_pid(self, pid: int, start: int) -> None:
        """Wake up when this process ends; where that cannot be had, polling notices it as well."""
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return
        if processes.alive(pid, start):
            self._pidfds[pid] = descriptor
            self._poll.register(descriptor, select.POLLIN)
        else:
            os.close(descriptor)

    def _unwatch_pid(self, pid: int) -> None:
        descriptor = self._pidfds.pop(pid, None)
        if descriptor is not None:
            self._poll.unregister(descriptor)
            os.close(descriptor)

    # -- looking --------------------------------------------------------------------------------------------------

    def _launcher_gone(self) -> bool:
        if self.launcher is not None and not processes.alive(*self.launcher):
            return True
        if not self.watch_stdin:
            return False
        probe = select.poll()
        probe.register(0, select.POLLIN)
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in probe.poll(0))

    def _read_heartbeats(self) -> None:
        if len(self._readers) < self.local_workers:
            for path in (self.folder / "heartbeat").glob("rank*"):
                rank = int(path.name.removeprefix("rank"))
                if rank in self._readers:
                    continue
                reader = HeartbeatReader.open(path)
                if reader is None:
                    continue
                pulse = reader.read()
                if pulse.node != self.node:  # another machine's, on a shared disk
                    reader.close()
                    continue
                self._readers[rank] = reader
                self._watch_pid(pulse.pid, pulse.start_time)
                self._pulses[rank] = pulse
                self._write_guard()
        self._pulses = {rank: self._readers[rank].read() for rank in sorted(self._readers)}

    def _read_errors(self) -> None:
        for rank, reader in self._readers.items():
            if rank in self._errors or (text := reader.error()) is None:
                continue
            found: dict[str, Any] = json.loads(text)
            what = found["type"] + (f": {found['text']}" if found["text"] else "")
            self._errors[rank] = WorkerError(
                rank=rank,
                cause=f"rank {rank} raised {what}, {place_of(found['phase'], found['epoch'])}",
                phase=found["phase"],
                epoch=found["epoch"],
                traceback=found["traceback"],
                consequence=is_consequence(found["text"]),
                monotonic_ns=found["monotonic_ns"],
            )

    def _read_deaths(self, now_s: float) -> None:
        for rank, pulse in self._pulses.items():
            if rank in self._errors or pulse.phase == "done" or processes.alive(pulse.pid, pulse.start_time):
                continue
            pulse = self._readers[rank].read()
            if pulse.phase == "done" or self._readers[rank].error() is not None:
                continue  # said so in the very last moment
            code = self._exit_status(pulse)
            self._unwatch_pid(pulse.pid)
            self._errors[rank] = self._death(pulse, code)

    def _exit_status(self, pulse: Pulse) -> int | None:
        """Wait status of a dead worker: as its zombie shows it, as collected here, or as the agent logs it."""
        if pulse.pid in self._ended:
            return self._ended[pulse.pid]
        found = processes.read(pulse.pid)
        if found is not None and found.start == pulse.start_time and found.state in "ZX":
            return found.code
        pattern = rf"exitcode: (-?\d+)\) local_rank: \d+ \(pid: {pulse.pid}\)"
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            match = re.search(pattern, files.tail(self._agent_log, 20000))
            if match:
                code = int(match.group(1))
                return -code if code < 0 else code << 8
            time.sleep(0.02)
        return None

    def _death(self, pulse: Pulse, status: int | None) -> WorkerError:
        number: int | None = None
        if status is None:
            what = "died"
        elif os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            what = f"was killed (signal {number}, {signal_name(number)})"
            if number == signal.SIGKILL and _oom_kills() > self._oom_kills:
                what += " when this machine ran out of memory"
        else:
            what = f"exited with code {os.WEXITSTATUS(status)} before it was finished"
        trace = files.tail(self.folder / "errors" / f"rank{pulse.rank}.trace", 8000)
        return WorkerError(
            rank=pulse.rank,
            cause=f"rank {pulse.rank} {what} {place_of(pulse.phase, pulse.epoch)}",
            signal=number,
            phase=pulse.phase,
            epoch=pulse.epoch,
            traceback=trace,
            consequence=number == signal.SIGTERM,
            monotonic_ns=time.monotonic_ns(),
        )

    def _agent_status(self) -> int | None:
        return self._ended.get(self.agent_pid)

    # -- judging --------------------------------------------------------------------------------------------------

    def _judge(self, now_s: float) -> None:
        """Fail with the earliest real cause, once an even earlier one has had time to show."""
        assert self._trouble_s is not None
        found = order(list(self._errors.values()))
        status = self._agent_status()
        killed_agent = status is not None and os.WIFSIGNALED(status)
        clear = killed_agent or (bool(found) and not found[0].consequence)
        if now_s - self._trouble_s < (_SETTLE_S if clear else _SETTLE_CONSEQUENCE_S):
            return
        if status is not None and (killed_agent or not found):
            # The kernel kills the workers with their agent: their deaths are consequences.
            found = [self._agent_error(status), *(error for error in found if not error.signal)]
        self._fail(found)

    def _agent_error(self, status: int) -> WorkerError:
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            cause = f"torchrun, which started the workers, was killed (signal {number}, {signal_name(number)})"
        else:
            number = None
            cause = f"torchrun ended with code {os.WEXITSTATUS(status)} before the workers were finished"
        epochs = [pulse.epoch for pulse in self._pulses.values()]
        phases = [pulse.phase for pulse in self._pulses.values()]
        phase, epoch = (phases[0], min(epochs)) if epochs else ("start", -1)
        return WorkerError(
            rank=-1,
            cause=f"{cause} {place_of(phase, epoch)}",
            signal=number,
            phase=phase,
            epoch=epoch,
            traceback=files.tail(self._agent_log, 4000),
            monotonic_ns=time.monotonic_ns(),
        )

    def _fail(self, found: list[WorkerError]) -> None:
        self._errors = {error.rank: error for error in found}
        cause = found[0].cause
        if found[0].consequence and self.node_count > 1:
            cause += "; the cause may be on another machine"
        self._set("failed", cause)

    @property
    def node_count(self) -> int:
        return self._watch.rules.machines

    def _judge_silence(self, now_s: float) -> None:
        if not self._pulses:
            if now_s - self._began_s > _START_S:
                self._fail([self._never_started()])
            return
        stall = self._watch.observe(now_s, self._pulses.values())
        if stall is None:
            if self._stall is not None:
                files.append_event(self.folder, "recovered", ranks=self._stall.ranks, kind=self._stall.kind)
                self._stall, self._stack_asked = None, False
                self._set("running" if any(p.epoch >= 0 for p in self._pulses.values()) else "starting")
            return
        news = self._stall is None or (self._stall.kind, self._stall.ranks) != (stall.kind, stall.ranks)
        self._stall = stall
        if not self._stack_asked and stall.kind != "stopped":
            self._stack_asked = True
            self._ask_for_stacks()
        if stall.fatal:
            return self._fail(self._stall_errors(stall))
        if news:
            files.append_event(
                self.folder,
                "slow" if stall.kind == "slow" else "stalled",
                kind=stall.kind,
                ranks=stall.ranks,
                silence_s=round(stall.silence_s, 2),
                text=self._stall_errors(stall)[0].cause,
            )
            if stall.kind != "slow":
                self._set("stalled", self._stall_errors(stall)[0].cause)

    def _never_started(self) -> WorkerError:
        return WorkerError(
            rank=-1,
            cause=f"no worker has started within {_START_S:.0f} s",
            phase="start",
            epoch=-1,
            traceback=files.tail(self._agent_log, 4000),
            monotonic_ns=time.monotonic_ns(),
        )

    def _ask_for_stacks(self) -> None:
        """A hung rank writes where it hangs (faulthandler; works inside a C++ wait as well)."""
        for pulse in self._pulses.values():
            found = processes.read(pulse.pid)
            if found is not None and found.start == pulse.start_time and found.state not in "TtZX":
                os.kill(pulse.pid, signal.SIGUSR1)

    def _stall_errors(self, stall: Stall) -> list[WorkerError]:
        how = {
            "stopped": "was stopped (SIGSTOP) and has not moved for {:.1f} s",
            "hung": "hangs: it has slept for {:.1f} s",
            "slow": "has worked on one step for {:.1f} s",
            "waiting": "has waited for {:.1f} s, as all others do,",
        }[stall.kind].format(stall.silence_s)
        errors = []
        for rank in stall.ranks:
            pulse = self._pulses[rank]
            errors.append(
                WorkerError(
                    rank=rank,
                    cause=f"rank {rank} {how} {place_of(pulse.phase, pulse.epoch)}",
                    signal=signal.SIGSTOP if stall.kind == "stopped" else None,
                    phase=pulse.phase,
                    epoch=pulse.epoch,
                    traceback=files.tail(self.folder / "errors" / f"rank{rank}.trace", 8000),
                    monotonic_ns=time.monotonic_ns(),
                )
            )
        return errors

    def _warn_of_bad_exits(self) -> None:
        status = self._agent_status()
        if status:
            files.append_event(self.folder, "bad exit after the run was finished", status=status)

    # -- writing --------------------------------------------------------------------------------------------------

    def _set(self, state: str, cause: str = "") -> None:
        if state == self.state and cause == self.cause and self._status_s:
            return
        self.state, self.cause = state, cause
        self._write_status()
        files.append_event(self.folder, state, node=self.node, **({"text": cause} if cause else {}))
        print(f"{self.folder.name}: {state}{': ' + cause if cause else ''}", file=sys.stderr, flush=True)

    def _write_status(self, **more: Any) -> None:
        self._status_s = time.monotonic()
        errors = order(list(self._errors.values()))
        if not errors and self.state == "stalled" and self._stall is not None:
            errors = self._stall_errors(self._stall)
        status = {
            "state": self.state,
            "cause": self.cause,
            "time": time.time(),
            "monotonic_ns": time.monotonic_ns(),
            "epoch": min((pulse.epoch for pulse in self._pulses.values()), default=-1),
            "ranks": {rank: {"phase": p.phase, "epoch": p.epoch} for rank, p in self._pulses.items()},
            "errors": [error.to_json() for error in errors],
            **more,
        }
        try:
            files.write_json(self.folder / files.node_name("status", self.node), status)
        except OSError as error:  # a full disk must not end the guard
            print(f"cannot write status.json: {error}", file=sys.stderr, flush=True)

    def _write_guard(self) -> None:
        guard = {
            "place": processes.place(),
            "guard": [os.getpid(), processes.start_time(os.getpid())],
            "agent": [self.agent_pid, self._agent_start],
            "workers": {rank: [pulse.pid, pulse.start_time] for rank, pulse in self._pulses.items()},
            "launcher": self.launcher,
        }
        try:
            files.write_json(self.folder / files.node_name("guard", self.node), guard)
        except OSError as error:
            print(f"cannot write guard.json: {error}", file=sys.stderr, flush=True)


def _oom_kills() -> int:
    """How often this machine has killed a process for want of memory."""
    try:
        with open("/proc/vmstat") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0


def main(arguments: list[str] | None = None) -> int:
    """``python -m gnnqlab.launch.guard [options] FOLDER -- COMMAND ...``"""
    parser = argparse.ArgumentParser(prog="python -m gnnqlab.launch.guard")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", help="JSON of the run; makes the folder, for a machine without it")
    parser.add_argument("--node", type=int, default=0, help="number of this machine")
    parser.add_argument("--launcher", help="PID:START of the process whose end ends the run")
    parser.add_argument("--watch-stdin", action="store_true", help="the end of standard input ends the run")
    arguments = sys.argv[1:] if arguments is None else arguments
    split = arguments.index("--") if "--" in arguments else len(arguments)
    given, command = parser.parse_args(arguments[:split]), arguments[split + 1 :]
    if not command:
        parser.error("the command to guard must follow --, got none")
    folder = given.folder.absolute()
    if given.config is not None:
        files.create(folder.parent, folder.name, exist_ok=True)
        files.write_json(folder / "config.json", json.loads(given.config))
    config = files.read_json(folder / "config.json")
    if config is None:
        parser.error(f"a run folder must hold config.json, got {folder}")
    launch = config["launch"]
    machines = launch.get("nnodes") or 1
    guard = Guard(
        folder,
        command,
        local_workers=config["workers"] // machines,
        rules=Rules(report_s=launch.get("stall_report_s"), stop_s=launch.get("stall_stop_s"), machines=machines),
        node=given.node,
        launcher=tuple(map(int, given.launcher.split(":"))) if given.launcher else None,
        watch_stdin=given.watch_stdin,
    )
    return guard.run()


if __name__ == "__main__":
    sys.exit(main())
