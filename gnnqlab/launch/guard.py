"""The guard of a run: a small process that starts torchrun, monitors every rank and ends all processes of the run.

    launching process --pipe--> guard --> torchrun agent --> workers

It ends the run when the launching process has ended (its pipe closes), when a worker or the agent has died, and when
the run hangs; it writes the cause to ``status.json`` before it ends the other processes. After a signal it lets the
workers end their epoch and save (``interruption.py``); a second signal ends the run at once. As subreaper it
becomes the parent of every orphan below it, so no process of the run escapes; if it is itself killed, the kernel ends
agent and workers (parent-death signal). Standard library only, so that it starts within a few hundredths of a second.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from gnnqlab.launch.agent_process import start_agent
from gnnqlab.launch.guard_events import GuardEvents
from gnnqlab.launch.hosts import RunLink
from gnnqlab.launch.interruption import Interruption, resume_advice, was_interrupted
from gnnqlab.launch.network import check_machine_network
from gnnqlab.launch.other_machines import OtherMachines
from gnnqlab.launch.rank_monitor import RankMonitor
from gnnqlab.launch.retries import Retries, clear_attempt
from gnnqlab.launch.run_history import carry_over, checkpoints
from gnnqlab.launch.stall import Rules, Stall, StallWatch
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.failure_report import WorkerError, order, signal_name
from gnnqlab.train.stop_request import requested_by

__all__ = ["Guard", "main"]

_LIVE = ("starting", "running", "stalled")
_POLL_S = 0.05
_STATUS_S = 1.0
_SETTLE_S, _SETTLE_CONSEQUENCE_S = 0.05, 1.0
"""Time to wait for an earlier cause after the first error; longer while only consequences are known."""
_GRACE_S = {"failed": 0.5, "stopped": 1.0, "finished": 3.0}
"""Time for processes to end by themselves before SIGKILL, by state."""
_START_S = 120.0
_JOIN_S = 900.0
"""Limit of the start on several machines, which are started by hand or by a queue, one after the other."""


class Guard:
    """Guard of one run on one machine.

    Args:
        folder: the run folder.
        command: the torchrun command line.
        local_workers: number of ranks on this machine.
        rules: limits after which a silence is reported and ends the run.
        link: the link of the workers; up from before the first worker starts until the last has ended.
        node: number of this machine.
        launcher: pid and start time of the process whose end ends the run, if any.
        watch_stdin: True to end the run at the end of standard input.
        epochs: number of epochs of the run.
        retries: largest number of restarts after a failure.
        one_rank: True if the command is the only worker, without a torchrun.
    """

    def __init__(
        self,
        folder: Path,
        command: list[str],
        *,
        local_workers: int,
        rules: Rules,
        link: RunLink,
        node: int = 0,
        launcher: tuple[int, int] | None = None,
        watch_stdin: bool = False,
        epochs: int = 0,
        retries: int = 0,
        one_rank: bool = False,
    ) -> None:
        self.folder, self.command, self.node, self._local_workers = folder, command, node, local_workers
        self.launcher, self._link, self._one_rank = launcher, link, one_rank
        self._agent_name = f"rank {node}" if one_rank else "torchrun"
        self._events = GuardEvents(launcher=launcher, watch_stdin=watch_stdin)
        self.state, self.cause = "starting", ""
        self._agent_log = folder / "logs" / files.node_name("agent", node, ".log")
        self._witness, self._watch = self._new_monitor(), StallWatch(rules)
        self._others = OtherMachines(folder, node, rules.machines, "rank" if one_rank else "machine")
        self._stall: Stall | None = None
        self._trouble_s: float | None = None
        self._retries = Retries(retries)
        self._restart_s: float | None = None
        """Time of the next restart; ``None`` while the workers run."""
        self._stop, self._epochs = Interruption(), epochs
        self._ended_by: int | None = None
        self._status_s = 0.0

    def run(self) -> int:
        """Run until the last process has ended; return 0 if finished, 1 if failed, 128 + signal if interrupted.

        A run that is stopped otherwise, by :meth:`Run.stop` or the end of its launching process, returns 130.
        """
        processes.become_subreaper()  # before any child exists, so that none can escape
        self._began_s = time.monotonic()
        self._events.catch_signals(self._stop.receive)
        try:
            self._link.up()
        except RuntimeError as error:  # the launching process waits for guard.json or for the end of this process
            print(error, file=sys.stderr)
            return 1
        self._start_agent()
        self._write_guard()
        self._set("starting")
        self._events.watch_launcher()
        while self.state in _LIVE:
            self._events.wait(_POLL_S)
            self._step(time.monotonic())
        return self._finish()

    def _step(self, now_s: float) -> None:
        if self._stop.number is not None:
            self._follow_signal(self._stop.number)
        elif self._events.launcher_has_ended():
            self._set("stopped", "the process that launched the run has ended")
        if self.state not in _LIVE:
            return
        if self._restart_s is not None:
            return self._restart() if now_s >= self._restart_s else None
        self._witness.poll()
        # Before errors: once all ranks are done, a bad exit of a process does not matter any more.
        if self._witness.all_done:
            return self._conclude()
        if self._witness.errors or self._agent_status is not None:
            return self._judge_trouble(now_s)
        self._judge_silence(now_s)
        if self.state == "starting" and self._witness.training:
            self._set("running")
        if now_s - self._status_s >= _STATUS_S:
            if cause := self._others.failure(now_s):
                return self._set("failed", cause)
            self._write_status()

    def _follow_signal(self, number: int) -> None:
        """Let the workers end their epoch, or end the run at once if nothing can be saved or is to be saved."""
        if (self.folder / "tmp" / files.END_NOW).exists():
            return self._set("stopped", f"stopped by {signal_name(number)}")
        # Without facts.json no epoch has begun, so there is no state to save.
        has_facts = (self.folder / "facts.json").exists()
        can_save = has_facts and self._witness.training and self._restart_s is None
        if self._stop.is_repeated or not can_save or not self._stop.request(self.folder):
            return self._interrupt(number)
        limit_s = self._stop.exceeded_s(self._watch.median_epoch_s)
        if limit_s is not None:
            self._interrupt(number, f"; its workers did not save within {limit_s:.0f} s")

    def _interrupt(self, number: int, detail: str = "") -> None:
        self._ended_by = number
        self._set("stopped", resume_advice(self.folder, number, self._witness.epoch) + detail)

    def _conclude(self) -> None:
        """Set the state of a run whose workers are done: another guard, too, may have requested its end."""
        number = requested_by(self.folder)
        if number is not None and was_interrupted(self.folder, self._witness.epoch, self._epochs):
            return self._interrupt(number)
        self._set("finished")

    def _finish(self) -> int:
        """End all remaining processes, clean up, write the last status."""
        grace_s = _GRACE_S[self.state]
        if self.state == "finished":
            # All results are on disk; give the processes a moment to exit by themselves.
            deadline_s = time.monotonic() + grace_s
            while time.monotonic() < deadline_s and self._processes():
                time.sleep(0.02)
                self._witness.ended.update(processes.collect())
            if self._agent_status:
                files.append_event(self.folder, "bad exit after the end", wait_status=self._agent_status)
        else:
            self._kill_agent()
        survivors = processes.end(os.getpid(), grace_s=grace_s, spare=self._link.spared)
        self._link.down()  # after the processes in its namespaces
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        self._write_status(ended=True, left=[process.pid for process in survivors])
        if self._ended_by is not None:
            return 128 + self._ended_by
        return {"finished": 0, "stopped": 130}.get(self.state, 1)

    def _kill_agent(self) -> None:
        """Kill torchrun: it has nothing to save, its workers end with it, and after SIGTERM it writes a long log."""
        if processes.is_alive(self.agent_pid, self._agent_start):
            os.kill(self.agent_pid, signal.SIGKILL)

    def _processes(self) -> list[processes.Process]:
        """Return the remaining processes of agent and workers."""
        return [process for process in processes.tree(os.getpid()) if process.pid not in self._link.spared]

    # -- start ---------------------------------------------------------------------------------------------------

    def _new_monitor(self) -> RankMonitor:
        workers, node, log, name = self._local_workers, self.node, self._agent_log, self._agent_name
        watch = self._watch_process
        return RankMonitor(self.folder, local_workers=workers, node=node, agent_log=log, appeared=watch, name=name)

    def _start_agent(self) -> None:
        self.agent_pid, self._agent_start = start_agent(
            self.command, self.folder, node=self.node, log=self._agent_log, exit_codes=self._witness.collected
        )

    def _watch_process(self, pidfd: int | None) -> None:
        self._events.wake_at(pidfd)
        self._write_guard()

    # -- errors and silences --------------------------------------------------------------------------------------

    @property
    def _agent_status(self) -> int | None:
        """Wait status of torchrun, ``None`` while it runs."""
        return self._witness.ended.get(self.agent_pid)

    def _judge_trouble(self, now_s: float) -> None:
        """Fail with the earliest cause that is not a consequence, after waiting for even earlier ones."""
        self._trouble_s = now_s if self._trouble_s is None else self._trouble_s
        errors, status = order(list(self._witness.errors.values())), self._agent_status
        agent_killed = status is not None and os.WIFSIGNALED(status) and not self._one_rank
        # If torchrun is killed, its workers die at once, but it can be reaped only after the last of its threads.
        agent_dying = status is None and not processes.is_alive(self.agent_pid, self._agent_start)
        has_clear_cause = agent_killed or (bool(errors) and not errors[0].consequence and not agent_dying)
        if now_s - self._trouble_s < (_SETTLE_S if has_clear_cause else _SETTLE_CONSEQUENCE_S):
            return
        if status is not None and (agent_killed or not errors):
            # The kernel kills the workers with their agent: their deaths are consequences, so the agent comes first.
            errors = [self._witness.agent_ended(status), *(error for error in errors if error.signal is None)]
        self._fail(errors)

    def _judge_silence(self, now_s: float) -> None:
        # Without any heartbeat only the limit of the start applies.
        if not self._witness.pulses:
            limit_s = _START_S if self._watch.rules.machines == 1 else _JOIN_S
            if now_s - self._began_s > limit_s:
                self._fail([self._witness.never_started(limit_s)])
            return
        stall = self._watch.observe(now_s, self._witness.pulses.values())
        previous_stall, self._stall = self._stall, stall
        if stall is None:
            if previous_stall is not None:
                files.append_event(self.folder, "recovered", kind=previous_stall.kind, ranks=previous_stall.ranks)
                self._set("running" if self._witness.training else "starting")
            return
        # Stacks at the first sign, while the ranks still hang; of a rank that works then, because it may crash, only
        # when it is ended. A stopped process cannot write any.
        if stall.kind != "stopped" and (previous_stall is None or stall.fatal):
            self._witness.ask_for_stacks(stall.ranks if stall.fatal else None)
        errors = self._witness.stalled(stall)
        if stall.fatal:
            return self._fail(errors)
        # One report per stall, not one per poll.
        if previous_stall is None or (previous_stall.kind, previous_stall.ranks) != (stall.kind, stall.ranks):
            if stall.kind == "slow":
                files.append_event(self.folder, "slow", text=errors[0].cause, ranks=stall.ranks)
            else:
                self._set("stalled", errors[0].cause)

    def _fail(self, errors: list[WorkerError]) -> None:
        self._witness.errors = {error.rank: error for error in errors}
        cause = errors[0].cause
        if errors[0].consequence and self._watch.rules.machines > 1:
            cause += "; the cause may be on another machine"
        # After a signal the run is to end, with or without its checkpoint.
        pause_s = None if self._stop.number is not None else self._retries.pause_s(errors[0].epoch)
        if pause_s is not None:
            return self._plan_restart(cause, errors[0].epoch, pause_s)
        self._set("failed", f"{cause}; {self._retries.refusal}" if self._retries.refusal else cause)

    def _plan_restart(self, cause: str, epoch: int, pause_s: float) -> None:
        """End the processes of the failed attempt; the next one starts after a pause."""
        number, most = self._retries.num_used, self._retries.most
        files.append_event(self.folder, "restarting", text=cause, epoch=epoch, number=number, pause_s=pause_s)
        self._kill_agent()
        processes.end(os.getpid(), grace_s=_GRACE_S["failed"], spare=self._link.spared)
        self._restart_s = time.monotonic() + pause_s
        self._set("starting", f"{cause}; restart {number} of {most} after {pause_s:g} s")

    def _restart(self) -> None:
        """Start a new torchrun, whose workers continue from the newest complete checkpoint."""
        clear_attempt(self.folder, self._retries.num_used)
        self._witness, self._watch = self._new_monitor(), StallWatch(self._watch.rules)
        self._stall = self._trouble_s = self._restart_s = None
        self._began_s = time.monotonic()
        self._start_agent()
        self._write_guard()
        self._set("starting")

    # -- files ----------------------------------------------------------------------------------------------------

    def _set(self, state: str, cause: str = "") -> None:
        self.state, self.cause = state, cause
        files.append_event(self.folder, state, node=self.node, **({"text": cause} if cause else {}))
        self._write_status()
        files.log_line(f"{self.folder.name}: {state}{': ' + cause if cause else ''}")

    def _write_status(self, **fields: Any) -> None:
        self._status_s = time.monotonic()
        errors = order(list(self._witness.errors.values()))
        if not errors and self.state == "stalled" and self._stall is not None:
            errors = self._witness.stalled(self._stall)
        status = {
            "state": self.state,
            "cause": self.cause,
            "time": time.time(),
            "monotonic_ns": time.monotonic_ns(),
            "epoch": self._witness.epoch,
            "ranks": {rank: {"phase": p.phase, "epoch": p.epoch} for rank, p in self._witness.pulses.items()},
            "errors": [error.to_json() for error in errors],
            **({} if self._ended_by is None else {"signal": self._ended_by}),
            **fields,
        }
        self._write(files.node_name("status", self.node), status)

    def _write_guard(self) -> None:
        guard = {
            "place": processes.place(),
            "guard": [os.getpid(), processes.start_time(os.getpid())],
            "agent": [self.agent_pid, self._agent_start],
            "workers": {rank: [p.pid, p.start_time] for rank, p in self._witness.pulses.items()},
            "launcher": self.launcher,
        }
        self._write(files.node_name("guard", self.node), guard)

    def _write(self, name: str, value: dict[str, Any]) -> None:
        for _ in range(2):
            try:
                return files.write_json(self.folder / name, value)
            except OSError as error:  # a full disk must not end the guard
                files.log_line(f"cannot write {name}: {error}")
                if self.state in _LIVE:  # the next status may succeed; the reserved space is for the final one
                    return
                (self.folder / "tmp" / files.RESERVE).unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> int:
    """Run ``python -m gnnqlab.launch.guard [options] FOLDER -- COMMAND ...``."""
    parser = argparse.ArgumentParser(prog="python -m gnnqlab.launch.guard")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--config", help="JSON of the run; creates the run folder on a machine without it")
    parser.add_argument("--machines", type=int, default=1, help="number of machines of the run")
    parser.add_argument("--node", type=int, default=0, help="number of this machine")
    parser.add_argument("--past", type=Path, help="folder of a run to resume; the first machine copies its records")
    parser.add_argument("--from-epoch", type=int, default=0, help="next epoch of a resumed run")
    parser.add_argument("--launcher", type=processes.parse_pid_and_start, help="process whose end ends the run")
    parser.add_argument("--one-rank", action="store_true", help="the command is the only worker of this guard")
    parser.add_argument("--watch-stdin", action="store_true", help="end the run at the end of standard input")
    arguments = sys.argv[1:] if arguments is None else arguments
    split = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = parser.parse_args(arguments[:split]), arguments[split + 1 :]
    if not command:
        parser.error("the command to guard must follow --, got none")
    folder = options.folder.absolute()
    if options.past is not None and not checkpoints(options.past):
        parser.error(f"a run to resume must have checkpoints that this machine can read, got none in {options.past}")
    if options.config is not None:
        files.create(folder.parent, folder.name, exist_ok=True)
        if options.past is not None and options.node == 0:  # before torchrun's rendezvous, for which the others wait
            carry_over(options.past, folder, options.from_epoch)
        files.write_json(folder / "config.json", json.loads(options.config))
    config = files.read_json(folder / "config.json")
    if config is None:
        parser.error(f"a run folder must hold config.json, got {folder}")
    if options.machines > 1 and (interface := os.environ.get("GLOO_SOCKET_IFNAME")):
        try:
            check_machine_network(interface, command, is_first=options.node == 0)
        except ValueError as error:  # the other machines read the cause, and end as well
            status = {"state": "failed", "cause": str(error), "time": time.time(), "epoch": -1, "errors": []}
            files.write_json(folder / files.node_name("status", options.node), status)
            parser.error(str(error))
    launch = config["launch"]
    guard = Guard(
        folder,
        command,
        local_workers=config["workers"] // options.machines,
        rules=Rules(
            report_s=launch["stall_report_s"],
            stop_s=launch["stall_stop_s"],
            machines=options.machines,
            slow_wire=launch["hosts"] > 1,
        ),
        link=RunLink(folder, launch),
        node=options.node,
        launcher=options.launcher,
        watch_stdin=options.watch_stdin,
        epochs=config["train"]["epochs"],
        retries=launch.get("retries", 0),  # absent in runs of earlier versions
        one_rank=options.one_rank,
    )
    return guard.run()


if __name__ == "__main__":
    sys.exit(main())
