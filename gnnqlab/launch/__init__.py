"""Launched training: torchrun's workers under a guard, and the handle of a run.

The names come on demand: the guard and the workers import this package before they import anything heavy.
"""

import importlib
from typing import Any

from gnnqlab.callable_module import make_callable

_HOMES = {
    "Run": "run",
    "Stray": "strays",
    "WorkerError": "verdict",
    "cleanup": "run",
    "launch": "local",
    "resume": "continuation",
    "runs": "run",
    "slurm_script": "cluster",
    "torchrun_command": "cluster",
}

__all__ = ["Run", "Stray", "WorkerError", "cleanup", "launch", "resume", "runs", "slurm_script", "torchrun_command"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


make_callable(__name__, "gnnqlab.launch.start", "launch")
