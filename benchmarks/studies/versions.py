"""Epochs of this package beside those of another one of it, in turn: what an update is worth, or has cost.

The other one is named by the Python of the environment it is installed in, or by the Python of a checkout that was
built. Both launch the same run, in a process of their own, once after the other; the epochs that count are those that
their workers have on record. Losses stand beside losses: an update that is only quicker gives the same.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gnnqlab
from benchmarks.engine.progress import Progress
from benchmarks.engine.rows import row
from benchmarks.studies.throughput import MODELS

__all__ = ["GRAPHS", "NAMES", "versions"]

GRAPHS = ("sbm:40000,16,50",)
"""What is trained on unless others are named."""
NAMES = ("gcn", "graphsage", "gcnii")
"""Models that are trained unless others are named, of the shapes of ``bench throughput``."""
GOAL = 1.35
"""Times as fast as before it had node-wise passes the package should train."""

_RUN = """
import json, sys
import gnnqlab as gq
asked = json.loads(sys.argv[1])
run = gq.launch(asked.pop("graph"), out=asked.pop("out"), **asked).wait()
records = run.records[run.records["epoch"] > 1]
print(json.dumps({
    "seconds": records.groupby("epoch")["epoch_s"].max().tolist(),
    "loss": float(run.records["loss"].iloc[-1]),
    "version": gq.__version__,
    "file": gq.__file__,
}))
"""
"""What either runs; it uses no more than every version of the package has."""


@dataclass(frozen=True)
class _Ran:
    seconds: float
    loss: float
    name: str
    """Of the package that ran: its version, and its commit where it is a checkout."""


def versions(
    repeats: int = 3,
    *,
    other: str | None = None,
    graph: str | None = None,
    models: Sequence[str] = NAMES,
    systems: Sequence[str] = ("vanilla",),
    workers: tuple[int, ...] = (1,),
    epochs: int = 8,
) -> list[dict[str, Any]]:
    """Train each model with this package and with the other one, in turn.

    Args:
        repeats: trainings of each.
        other: path of the Python that has the other one.
        graph: names, separated by semicolons; by default ``GRAPHS``.
        models: names; by default ``NAMES``.
        systems: names of systems.
        workers: numbers of workers.
        epochs: of each training; the first two do not count.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them: seconds of an epoch, the median over epochs
        and repeats, with the smallest and largest of the repeats' ratios.

    Raises:
        ValueError: if no other is named, or a model is unknown, or there is no such Python, or it has no gnnqlab, or
            the same one, or epochs are too few.
        RuntimeError: if a training fails, with what it said.
    """
    if other is None:
        raise ValueError(
            "bench versions needs another gnnqlab to stand beside, got none; name the Python that has it with --other, "
            "as --other old/.venv/bin/python"
        )
    if strange := sorted(set(models) - set(MODELS)):
        raise ValueError(f"models must be among {list(MODELS)}, got {strange}")
    if epochs < 3:
        raise ValueError(f"epochs must be at least 3, of which the first two do not count, got {epochs}")
    _expect_another(other)
    graphs = list(GRAPHS) if graph is None else graph.split(";")
    cases = [
        (name, model, system, number) for name in graphs for model in models for system in systems for number in workers
    ]
    progress = Progress(len(cases) * repeats)
    rows = []
    for name, model, system, number in cases:
        asked = {
            "graph": name, "system": system, "model": model, "workers": number, "epochs": epochs, "evaluate_every": 0,
            **MODELS[model],
        }  # fmt: skip
        pairs = []
        for _ in range(repeats):
            pairs.append((_ran(sys.executable, asked), _ran(other, asked)))
            ours, theirs = pairs[-1]
            progress.say(f"{name}, {model}, {system}: {ours.seconds:.3g} s an epoch beside {theirs.seconds:.3g}")
        shape = MODELS[model]
        case = f"{name}, {model} {shape['layers']} x {shape['hidden']}, {system}, {number} worker(s)"
        rows += _rows(case, pairs)
    return rows


def _rows(case: str, pairs: Sequence[tuple[_Ran, _Ran]]) -> list[dict[str, Any]]:
    ours, theirs = (statistics.median(one.seconds for one in side) for side in zip(*pairs, strict=True))
    ratios = [two.seconds / one.seconds for one, two in pairs]
    rival, spread = pairs[0][1].name, f" ({min(ratios):.2f} to {max(ratios):.2f} x)"
    return [
        row(case, "epoch", ours, "s", rival, theirs, theirs / ours, GOAL, detail=spread),
        row(case, "training loss of the last epoch", pairs[0][0].loss, "", rival, pairs[0][1].loss, None),
    ]


def _expect_another(other: str) -> None:
    if not os.access(other, os.X_OK):
        raise ValueError(f"other must be the path of a Python that has another gnnqlab, got {other!r}; none is there")
    asked = [other, "-c", "import gnnqlab; print(gnnqlab.__file__)"]
    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as empty:
        found = subprocess.run(asked, capture_output=True, text=True, cwd=empty, env=_environment())
    if found.returncode:
        said = found.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise ValueError(f"other must be a Python that imports gnnqlab, got {other!r}: {said[0]}")
    where = Path(found.stdout.strip())
    if where.parent.resolve() == Path(gnnqlab.__file__).parent.resolve():
        raise ValueError(f"other must have another gnnqlab, got {other!r}, which has this one, {where}")


def _ran(python: str, asked: dict[str, Any]) -> _Ran:
    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as root:
        given = json.dumps({**asked, "out": root})
        done = subprocess.run(
            [python, "-c", _RUN, given], capture_output=True, text=True, cwd=root, env=_environment()
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"a training with {python} must end, got exit status {done.returncode}:\n{done.stderr}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return _Ran(statistics.median(found["seconds"]), found["loss"], _named(found["version"], Path(found["file"])))


def _named(version: str, file: Path) -> str:
    asked = ["git", "-C", str(file.parent), "rev-parse", "--short", "HEAD"]
    try:
        commit = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    except OSError:
        commit = ""
    return f"gnnqlab {version}" + (f" at {commit}" if commit else "")


def _environment() -> dict[str, str]:
    """The environment without paths that would put one package in the other's place."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
