"""Fair timing: each thread on a core of its own, contestants in random order, medians.

How threads are bound is decided when OpenMP starts, so each number of threads is measured in a process of its own.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["interleaved", "median", "run_each", "run_pinned", "spread"]


def run_each(function: str, *, threads: tuple[int, ...] | None, **arguments: Any) -> list[dict[str, Any]]:
    """The rows of `run_pinned` for each number of threads; None: for one and, where there are two cores, two."""
    counts = threads or tuple(range(1, min(2, len(os.sched_getaffinity(0))) + 1))
    return [row for count in counts for row in run_pinned(function, threads=count, **arguments)]


def run_pinned(function: str, *, threads: int, **arguments: Any) -> list[dict[str, Any]]:
    """Call ``module:function`` in a new process whose OpenMP threads are bound to one core each.

    Raises:
        ValueError: if there are fewer cores than threads.
        RuntimeError: if the process fails.
    """
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= threads <= len(cores):
        raise ValueError(f"threads must be at most the cores of this process, {len(cores)}, got {threads}")
    places = ",".join(f"{{{core}}}" for core in cores[:threads])
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "OMP_PROC_BIND": "true",
        "OMP_PLACES": places,
        "DGLBACKEND": "pytorch",
    }
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.kernels.pinned", function, json.dumps(arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if finished.returncode:
        raise RuntimeError(f"{function} must finish, got exit code {finished.returncode}; its errors are above")
    rows: list[dict[str, Any]] = json.loads(finished.stdout.splitlines()[-1])
    return rows


def interleaved(contestants: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each contestant's runs: one warm-up each, then all in a random order, ``repeats`` times.

    Whoever runs after a contestant that left much written data in the caches pays for bringing it to memory; in a fixed
    order that would always be the same one.
    """
    order, shuffle = list(contestants.items()), random.Random(0).shuffle
    for run in contestants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        shuffle(order)
        for name, run in order:
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def median(seconds: list[float]) -> float:
    return statistics.median(seconds)


def spread(seconds: list[float]) -> str:
    """The least and the most, for a figure's name."""
    return f"{min(seconds) * 1e3:.4g} to {max(seconds) * 1e3:.4g} ms"


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    print(json.dumps(getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2]))))
