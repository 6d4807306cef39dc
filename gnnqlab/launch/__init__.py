"""Launched training: torchrun's workers under a guard; the handle of a run is in :mod:`gnnqlab.run`.

Names are imported on demand, because the guard and the workers import this package before any heavy module.
"""

import importlib
import warnings
from typing import Any

from gnnqlab.callable_module import make_callable

_HOMES = {
    "Run": "gnnqlab.run.run",
    "Slurm": "gnnqlab.launch.slurm",
    "Stray": "gnnqlab.run.strays",
    "WorkerError": "gnnqlab.run.failure_report",
    "cleanup": "gnnqlab.launch.leftovers",
    "launch": "gnnqlab.launch.local",
    "on_machines": "gnnqlab.launch.machines",
    "resume": "gnnqlab.launch.continuation",
    "resume_on_machines": "gnnqlab.launch.machines",
    "runs": "gnnqlab.run.run",
    "slurm_script": "gnnqlab.launch.cluster",
    "torchrun_command": "gnnqlab.launch.cluster",
}
_MOVED = {
    "doing": "status_text",
    "kept": "disk_usage",
    "trained": "trained_run",
    "verdict": "failure_report",
    "written": "run_data",
    **{name: name for name in ("folder", "own_parts", "processes", "progress", "run")},
}
"""Former module of this package -> module of :mod:`gnnqlab.run`."""

__all__ = [
    "Run",
    "Slurm",
    "Stray",
    "WorkerError",
    "cleanup",
    "launch",
    "on_machines",
    "resume",
    "resume_on_machines",
    "runs",
    "slurm_script",
    "torchrun_command",
]


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        module = f"gnnqlab.run.{_MOVED[name]}"
        # stacklevel=2: the warning shows the line that uses the name.
        warnings.warn(f"gnnqlab.launch.{name} is {module} now", DeprecationWarning, stacklevel=2)
        return importlib.import_module(module)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


# gq.launch is both a package and a function.
make_callable(__name__, "gnnqlab.launch.start", "launch", settings="gnnqlab.train.config.keywords")
