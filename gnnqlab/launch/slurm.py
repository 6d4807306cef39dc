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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gnnqlab.launch.worker_target import import_path
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.job import Job, mark_queued, write_job
from gnnqlab.run.run import Run

__all__ = ["JobTask", "Slurm"]

_MOST_REQUEUES = 1000
_SAVE_S = 90.0
"""Limit for the last epoch and the checkpoint before a job goes back into the queue."""


@dataclass(frozen=True, kw_only=True)
class Slurm:
    """A place where ``gq.launch(..., on=Slurm(...))`` runs: nodes of a SLURM cluster, with one rank per task.

    Raises:
        ValueError: if a number is below 1, or ``time`` is neither minutes nor ``H:MM:SS``.

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
    """Time limit of each attempt: minutes, or ``H:MM:SS``; the run continues in a further attempt."""
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
    def minutes(self) -> float:
        """The time limit in minutes."""
        if not isinstance(self.time, str):
            return float(self.time)
        match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", self.time)
        if match is None:
            raise ValueError(f"time must be minutes or a text H:MM:SS or D-HH:MM:SS, got {self.time!r}")
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
        write_job(run.folder, Job(queue="local" if self.local else "slurm", id=identity, since=time.time()))
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
        if code not in (0, 128 + signal.SIGUSR2):  # after SIGUSR2 task 0 puts the job back into the queue
            raise SystemExit(code)

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


def _states(folder: Path) -> set[str]:
    """Return the states that the guards of all ranks have written."""
    paths = [folder / "status.json", *folder.glob("status-node*.json")]
    return {str((files.read_json(path) or {}).get("state")) for path in paths}
