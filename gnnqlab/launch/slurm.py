"""Submit a prepared run to SLURM through submitit, which also has a queue of this machine for trials.

Each task of the job is one rank: it starts ``gnnqlab worker --from-environment RUN``, as srun would by hand. Before the
time limit the queue sends SIGUSR2; the ranks then write a checkpoint, and the job goes back into the queue.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnnqlab.by_name import closest_words
from gnnqlab.launch.worker_target import import_path
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.job import Job, mark_queued, write_job
from gnnqlab.run.run import Run

__all__ = ["JobTask", "Slurm", "lost_ranks", "slurm_place"]

_MOST_REQUEUES = 1000
_MINUTES = {"": 1, "m": 1, "h": 60, "d": 1440}
_LOST_S = 20.0
"""Time in which the guards of living nodes end after the first failure: they read each other's status every second."""
_SAVE_S = 90.0
"""Limit for the last epoch and the checkpoint before a job goes back into the queue."""


@dataclass(frozen=True, kw_only=True)
class Slurm:
    """A place where ``gq.launch(..., on=Slurm(...))`` runs: nodes of a SLURM cluster, with one rank per task.

    Raises:
        ValueError: if a number is below 1, or ``time`` is neither minutes, ``2h`` nor ``H:MM:SS``.

    Example:
        >>> place = Slurm(nodes=2, workers_per_node=4, partition="short", time="1:30:00")
        >>> place.workers, place.minutes
        (8, 90.0)
    """

    nodes: int = 1
    """Number of machines."""
    workers_per_node: int = 1
    """Ranks on each, one per GPU with ``device="cuda"``."""
    partition: str | None = None
    """Partition of the cluster; its default without."""
    time: float | str = 60
    """Time limit of each attempt: minutes, ``90m``, ``2h``, ``1d`` or ``H:MM:SS``; the run continues in the next."""
    signal_delay_s: int = 120
    """Seconds before the time limit at which the ranks end their epoch and write a checkpoint."""
    cpus_per_worker: int | None = None
    """Processors of each rank; the cluster's default without."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of ``sbatch``, for instance ``{"account": "gnn"}``."""
    local: bool = False
    """True for submitit's own queue on this machine, without SLURM."""

    def __post_init__(self) -> None:
        for name in ("nodes", "workers_per_node", "signal_delay_s"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.local and self.nodes != 1:
            raise ValueError(f"the local queue has one machine, got nodes {self.nodes}; leave out nodes or local")
        if self.minutes <= 0:
            raise ValueError(f"time must be above 0 minutes, got {self.time!r}")

    @property
    def workers(self) -> int:
        """Number of ranks."""
        return self.nodes * self.workers_per_node

    @property
    def queue(self) -> str:
        """Name of the queue: ``slurm``, or ``local`` for submitit's own."""
        return "local" if self.local else "slurm"

    @property
    def minutes(self) -> float:
        """The time limit in minutes."""
        if not isinstance(self.time, str):
            return float(self.time)
        if (short := re.fullmatch(r"(\d+(?:\.\d+)?)([mhd]?)", self.time)) is not None:
            return float(short[1]) * _MINUTES[short[2]]
        match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", self.time)
        if match is None:
            raise ValueError(
                f"time must be minutes or a text such as 90m, 2h, H:MM:SS or D-HH:MM:SS, got {self.time!r}"
            )
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 1440 + hours * 60 + minutes + seconds / 60

    def require_workers(self, workers: int | None) -> int:
        """Return the number of ranks.

        Raises:
            ValueError: if another number of workers is requested.
        """
        if workers not in (None, self.workers):
            raise ValueError(
                f"workers must be nodes times workers_per_node, got workers {workers} for {self.nodes} times "
                f"{self.workers_per_node}; leave out workers"
            )
        return self.workers

    def submit(self, run: Run) -> Run:
        """Submit a prepared run; return it with the status ``queued``.

        Raises:
            RuntimeError: if submitit or SLURM's commands are missing, or the queue refuses the job.
        """
        try:
            import submitit
        except ImportError as error:
            raise RuntimeError(
                "a queue needs the package submitit, which is not installed; pip install gnnqlab[slurm]"
            ) from error
        folder = run.folder / "job"
        try:
            executor = (submitit.LocalExecutor if self.local else submitit.SlurmExecutor)(
                folder, max_num_timeout=_MOST_REQUEUES
            )
            executor.update_parameters(**self._parameters(run))
            mark_queued(run.folder)  # before the ranks can start
            job: Any = executor.submit(JobTask(str(run.folder)))
        except Exception as error:  # submitit's own, and RuntimeError without srun
            run.stop()
            raise RuntimeError(f"the queue must accept the job of run {run.id}, got: {error}") from error
        identity = job.job_id
        if self.local:
            pid = int(identity)
            identity = f"{pid}:{processes.start_time(pid)}"
            # Reaps the process when it ends.
            threading.Thread(target=job._process.wait, daemon=True).start()
        write_job(run.folder, Job(queue=self.queue, id=identity, since=time.time()))
        return run

    def _parameters(self, run: Run) -> dict[str, Any]:
        """Return the parameters of submitit's executor."""
        gpus = {"gpus_per_node": self.workers_per_node} if run.config.launch.device == "cuda" else {}
        if self.local:
            return {
                "tasks_per_node": self.workers_per_node,
                "timeout_min": self.minutes,
                "signal_delay_s": self.signal_delay_s,
                **gpus,
            }
        return {
            "job_name": "gnnqlab",
            "nodes": self.nodes,
            "ntasks_per_node": self.workers_per_node,
            "time": max(1, round(self.minutes)),
            "signal_delay_s": self.signal_delay_s,
            "partition": self.partition,
            "cpus_per_task": self.cpus_per_worker,
            "additional_parameters": {"requeue": True, **self.options},
            **gpus,
        }


def slurm_place(text: str, workers: int) -> Slurm:
    """Return the place that ``gnnqlab train --on`` names.

    Args:
        text: ``slurm``, or ``slurm:NAME=VALUE,...`` with the settings of :class:`Slurm`; other names are options of
            ``sbatch``. A name without a value is true.
        workers: number of workers, divided evenly between the nodes unless the text has ``workers_per_node``.

    Raises:
        ValueError: if the text has another form, or a value is wrong.

    Example:
        >>> place = slurm_place("slurm:nodes=2,partition=gpu,time=2h,account=gnn", 8)
        >>> place.nodes, place.workers_per_node, place.partition, place.minutes, place.options
        (2, 4, 'gpu', 120.0, {'account': 'gnn'})
    """
    queue, _, settings_text = text.partition(":")
    if queue != "slurm":
        raise ValueError(f"on must be slurm or slurm:NAME=VALUE,..., got {text!r}; for instance slurm:nodes=2,time=2h")
    settings: dict[str, Any] = {"options": {}}
    kinds: dict[str, Callable[[str], Any]] = {"nodes": int, "workers_per_node": int, "signal_delay_s": int}
    kinds |= {"cpus_per_worker": int, "partition": str, "time": str, "local": lambda value: value in ("true", "1")}
    for part in filter(None, settings_text.split(",")):
        name, separator, value = part.partition("=")
        name = name.strip().replace("-", "_")
        value = value.strip() if separator else "true"
        if name not in kinds:
            # Stricter than for a closed list, since most other names are options of sbatch, such as nodelist.
            if near := closest_words(name, kinds, limit=1, edits=2 if len(name) > 5 else 1):
                raise ValueError(
                    f"settings of slurm are {', '.join(kinds)} and options of sbatch, got {name!r}; did you mean "
                    f"{near[0]}"
                )
            settings["options"][name] = True if not separator else value
            continue
        try:
            settings[name] = kinds[name](value)
        except ValueError as error:
            raise ValueError(f"{name} of slurm must be a whole number, got {value!r}") from error
    nodes = settings.get("nodes", 1)
    if "workers_per_node" not in settings:
        if nodes < 1 or workers % nodes:
            raise ValueError(
                f"workers must be a multiple of the nodes, got {workers} workers on {nodes} nodes; give another number "
                "with --workers"
            )
        settings["workers_per_node"] = workers // nodes
    return Slurm(**settings)


class JobTask:
    """One task of a job: a rank, started as a process of its own. submitit pickles it, and calls it in each task.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._pid = 0

    def __call__(self) -> None:
        command = [sys.executable, "-m", "gnnqlab", "worker", "--from-environment", self.folder]
        rank = subprocess.Popen(command, env={**os.environ, **import_path()})
        self._pid = rank.pid
        code = rank.wait()
        if code in (0, 128 + signal.SIGUSR2):  # after SIGUSR2 task 0 puts the job back into the queue
            return
        if code < 128 and "SLURM_JOB_ID" in os.environ and self._requeue_after_loss(os.environ):
            time.sleep(_SAVE_S)  # SLURM ends all tasks of a job that goes back into the queue
        raise SystemExit(code)

    def _requeue_after_loss(self, environ: Mapping[str, str]) -> bool:
        """Put the job back into the queue if a node has failed; return True if this task or another one does so.

        The connections of a dead node are closed, or time out, minutes before SLURM gives it up; the other ranks would
        end the job as failed in the meantime.
        """
        folder, rank, job_id = Path(self.folder), int(environ["SLURM_PROCID"]), environ["SLURM_JOB_ID"]
        lost = lost_ranks(folder, int(environ["SLURM_NTASKS"]), wait_s=_LOST_S)
        if not lost:
            return False
        if rank != min(set(range(len(lost) + 1)) - set(lost)):  # the first one that is left
            return True
        epoch = int((files.read_json(folder / files.node_name("status", rank)) or {}).get("epoch", -1))
        earlier = [event["epoch"] for event in Run(folder).events if event["event"] == "node lost"]
        if epoch <= max(earlier, default=-1):  # no progress since the last time
            return False
        names = ", ".join(map(str, lost))
        text = f"rank(s) {names} ended without a last status, so their node has failed; job {job_id} is requeued"
        files.append_event(folder, "node lost", ranks=lost, epoch=epoch, text=text)
        mark_queued(folder)
        done = subprocess.run(["scontrol", "requeue", job_id], capture_output=True, text=True)
        if done.returncode != 0:
            files.append_event(folder, "not requeued", text=done.stderr.strip())
        return done.returncode == 0

    def checkpoint(self) -> Any:
        """Let the run end its epoch and save; return the task of the next attempt. Called by submitit after SIGUSR2."""
        import submitit

        os.kill(self._pid, signal.SIGUSR2)
        folder, deadline_s = Path(self.folder), time.monotonic() + _SAVE_S
        while not {"finished", "stopped", "failed"}.issuperset(states := _states(folder)):
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.1)
        if states <= {"finished"} or "failed" in states:
            return None  # submitit then ends the job
        mark_queued(folder)
        return submitit.helpers.DelayedSubmission(JobTask(self.folder))


def lost_ranks(folder: Path, workers: int, *, wait_s: float, clock: Callable[[], float] = time.monotonic) -> list[int]:
    """Return the ranks whose guards have not written that they have ended, although another rank has failed.

    Args:
        folder: the run folder.
        workers: P.
        wait_s: seconds in which the guard of a living node ends after the first failure.
        clock: returns monotonic seconds.
    """
    deadline_s = clock() + wait_s
    while True:
        statuses = [files.read_json(folder / files.node_name("status", rank)) or {} for rank in range(workers)]
        # A rank without a status has not been started, and is not lost.
        lost = [
            rank for rank, status in enumerate(statuses) if status.get("state") in ("starting", "running", "stalled")
        ]
        if not lost or clock() > deadline_s:
            return lost
        time.sleep(0.1)


def _states(folder: Path) -> set[str]:
    """Return the states that the guards of all ranks have written."""
    paths = [folder / "status.json", *folder.glob("status-node*.json")]
    return {str((files.read_json(path) or {}).get("state")) for path in paths}
