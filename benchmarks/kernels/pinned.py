"""Fair timing: threads pinned to cores, contestants in random order, medians, and a table of pairs.

OpenMP binds its threads when it starts, so each number of threads is measured in a new process.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.engine.rows import row

__all__ = [
    "Pair",
    "by_threads",
    "compare",
    "interleaved",
    "median",
    "next_epochs",
    "pair_rows",
    "run_each",
    "run_pinned",
    "spread",
]

Contestants = Mapping[str, Callable[[], object]]
"""Name -> call to be timed."""
Rows = list[dict[str, Any]]


class Pair(NamedTuple):
    """Row of a table of kernels: our contestant compared with a rival of the same run."""

    metric: str
    ours: str
    """Name of our contestant."""
    rival: str
    """Name of the rival contestant. The row has no rival if it was not timed."""
    rival_label: str = ""
    """Name of the rival in the table; by default ``rival``."""
    goal: float | None = None
    """Least ratio."""


def compare(
    case: str,
    contestants: Contestants,
    pairs: Iterable[Pair],
    repeats: int,
    *,
    timed: Callable[[Contestants, int], dict[str, list[float]]] | None = None,
    amount: float = 0.0,
    unit: str = "s",
) -> Rows:
    """Time all contestants interleaved and return one row per pair.

    Args:
        case: first column.
        contestants, repeats: see `interleaved`.
        pairs: the rows.
        timed: function that measures; by default `interleaved`.
        amount, unit: values are ``amount`` over seconds, in ``unit``; by default seconds.

    Example:
        >>> (found,) = compare("empty", {"a": list, "b": dict}, [Pair("create", "a", "b", "dict()")], 3)
        >>> found["metric"], found["rival"], found["unit"], found["ratio"] > 0
        ('create', 'dict()', 's', True)
    """
    return pair_rows(case, (timed or interleaved)(contestants, repeats), pairs, amount=amount, unit=unit)


def pair_rows(
    case: str, seconds: Mapping[str, list[float]], pairs: Iterable[Pair], *, amount: float = 0.0, unit: str = "s"
) -> Rows:
    """Return one row per pair of timed contestants; for the arguments see `compare`."""

    def value(name: str) -> float:
        # GB/s or similar with an amount, else seconds
        return amount / median(seconds[name]) if amount else median(seconds[name])

    rows = []
    for metric, name, rival, rival_label, goal in pairs:
        rival_s = seconds.get(rival)
        detail = f" ({spread(seconds[name])}" + ("" if rival_s is None else f"; rival {spread(rival_s)}") + ")"
        # ratio of seconds: above 1 if ours is faster
        rival_value, ratio = (
            (None, None) if rival_s is None else (value(rival), median(rival_s) / median(seconds[name]))
        )
        rows.append(row(case, metric, value(name), unit, rival_label or rival, rival_value, ratio, goal, detail=detail))
    return rows


def by_threads(**known: Sequence[str]) -> Callable[[Callable[..., Rows]], Callable[..., Rows]]:
    """Decorate a measurement to run in a new process per number of ``threads``, see `run_each`.

    Args:
        **known: argument of the measurement -> allowed names; others raise an error before a process starts.
    """

    def decorate(measure: Callable[..., Rows]) -> Callable[..., Rows]:
        @functools.wraps(measure)
        def measure_by_threads(*, threads: tuple[int, ...] | None = None, **arguments: Any) -> Rows:
            if arguments.get("repeats", 1) < 1:
                raise ValueError(f"repeats must be at least 1, got {arguments['repeats']}")
            for argument, names in known.items():
                if unknown_names := [name for name in arguments.get(argument, ()) if name not in names]:
                    raise ValueError(f"{argument} must be some of {names}, got {unknown_names}")
            return run_each(f"{measure.__module__}:{measure.__name__}", threads=threads, **arguments)

        return measure_by_threads

    return decorate


def run_each(function: str, *, threads: tuple[int, ...] | None, **arguments: Any) -> list[dict[str, Any]]:
    """Return the rows of `run_pinned` for each number of threads; ``None`` for one and, with two cores, two."""
    # one thread, and two if there are two cores
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
    places = ",".join(f"{{{core}}}" for core in cores[:threads])  # OpenMP's syntax for cores: {0},{1}
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "OMP_PROC_BIND": "true",
        "OMP_PLACES": places,
        "DGLBACKEND": "pytorch",
    }
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.kernels.pinned", function, json.dumps(arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"{function} must finish, got exit code {process.returncode}; see its errors above")
    # the result is the last line of the output
    rows: list[dict[str, Any]] = json.loads(process.stdout.splitlines()[-1])
    return rows


def interleaved(contestants: Contestants, repeats: int) -> dict[str, list[float]]:
    """Return seconds of each contestant's runs: one warm-up each, then all in random order, ``repeats`` times.

    A contestant that runs after one with many dirty cache lines pays for their write-back; in a fixed order it would
    always be the same one.
    """
    order, shuffle = list(contestants.items()), random.Random(0).shuffle
    for run in contestants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        shuffle(order)  # another order in every repeat
        for name, run in order:
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def next_epochs(trainers: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
    """Return a call per trainer that trains its next epoch; equal epoch numbers give equal dropout masks.

    Example:
        >>> from types import SimpleNamespace
        >>> calls = next_epochs({name: SimpleNamespace(epoch=print) for name in "ab"})
        >>> calls["b"](), calls["a"](), calls["a"]()
        1
        1
        2
        (None, None, None)
    """

    def call(trainer: Any) -> Callable[[], object]:
        numbers = itertools.count(1)
        return lambda: trainer.epoch(next(numbers))

    return {name: call(trainer) for name, trainer in trainers.items()}


def median(seconds: list[float]) -> float:
    return statistics.median(seconds)


def spread(seconds: list[float]) -> str:
    """Return the least and the largest as text, for the detail of a row."""
    return f"{min(seconds) * 1e3:.4g} to {max(seconds) * 1e3:.4g} ms"


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    function = getattr(importlib.import_module(module), name)
    here = getattr(function, "__wrapped__", function)  # without by_threads, which started this process
    print(json.dumps(here(**json.loads(sys.argv[2]))))
