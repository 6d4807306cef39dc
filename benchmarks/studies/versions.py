"""Epochs of this version of the package compared with another version: effect of an update on speed.

The other version is given by the Python of its environment, or of a built checkout. Both launch the same run, each in
its own process, one after another; the epochs are those recorded by their workers. Losses are compared too: an update
that changes only the speed gives equal losses.
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

from tqdm import tqdm

import gnnqlab
from benchmarks.engine.rows import require_among, row
from benchmarks.studies.throughput import MODELS

__all__ = ["GRAPHS", "NAMES", "versions"]

GRAPHS = ("sbm:40000,16,50",)
"""Default graphs."""
NAMES = ("gcn", "graphsage", "gcnii")
"""Default models, in the shapes of ``bench throughput``."""
GOAL = 1.35
"""Goal: speed-up over the version without fused node-wise passes."""

_RUN = """
import json, sys
import gnnqlab as gq
settings = json.loads(sys.argv[1])
run = gq.launch(settings.pop("graph"), out=settings.pop("out"), **settings).wait()
records = run.records[run.records["epoch"] > 1]
print(json.dumps({
    "seconds": records.groupby("epoch")["epoch_s"].max().tolist(),
    "loss": float(run.records["loss"].iloc[-1]),
    "version": gq.__version__,
    "file": gq.__file__,
}))
"""
"""Program run by both versions; it uses only features that every version has."""


@dataclass(frozen=True)
class _VersionRun:
    seconds: float
    loss: float
    name: str
    """Version of the package that ran, and its commit if it is a checkout."""


def versions(
    repeats: int = 3,
    *,
    other_python: str | None = None,
    graph: str | None = None,
    models: Sequence[str] = NAMES,
    systems: Sequence[str] = ("vanilla",),
    workers: tuple[int, ...] = (1,),
    epochs: int = 8,
) -> list[dict[str, Any]]:
    """Train each model with this version and with the other one, alternately.

    Args:
        repeats: trainings with each version.
        other_python: path of the Python with the other version.
        graph: names, separated by semicolons; by default ``GRAPHS``.
        models: names of models; by default ``NAMES``.
        systems: names of systems.
        workers: numbers of workers.
        epochs: epochs of each training; the first two do not count.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`: seconds of an epoch, the median over epochs and repeats, with the
        smallest and largest of the repeats' ratios.

    Raises:
        ValueError: if ``other_python`` is missing, is no Python, or has no gnnqlab or this one; if a model is unknown,
            or there are too few epochs.
        RuntimeError: if a training fails, with its error output.
    """
    if other_python is None:
        raise ValueError(
            "bench versions needs another gnnqlab to compare with, got none; pass the Python that has it, as "
            "--other-python old/.venv/bin/python"
        )
    require_among("models", models, MODELS)
    if epochs < 3:
        raise ValueError(f"epochs must be at least 3, of which the first two do not count, got {epochs}")
    _expect_another(other_python)
    graphs = list(GRAPHS) if graph is None else graph.split(";")
    cases = [
        (name, model, system, number) for name in graphs for model in models for system in systems for number in workers
    ]
    progress = tqdm(total=len(cases) * repeats)
    rows = []
    for name, model, system, number in cases:
        settings = {
            "graph": name, "system": system, "model": model, "workers": number, "epochs": epochs, "evaluate_every": 0,
            **MODELS[model],
        }  # fmt: skip
        pairs = []
        for _ in range(repeats):
            pairs.append((_run_version(sys.executable, settings), _run_version(other_python, settings)))
            run, other_run = pairs[-1]
            progress.set_postfix_str(
                f"{name}, {model}, {system}: {run.seconds:.3g} s per epoch, other {other_run.seconds:.3g}",
                refresh=False,
            )
            progress.update()
        shape = MODELS[model]
        case = f"{name}, {model} {shape['layers']} x {shape['hidden']}, {system}, {number} worker(s)"
        rows += _rows(case, pairs)
    return rows


def _rows(case: str, pairs: Sequence[tuple[_VersionRun, _VersionRun]]) -> list[dict[str, Any]]:
    seconds, other_seconds = (statistics.median(run.seconds for run in side) for side in zip(*pairs, strict=True))
    ratios = [other_run.seconds / run.seconds for run, other_run in pairs]
    rival, spread = pairs[0][1].name, f" ({min(ratios):.2f} to {max(ratios):.2f} x)"
    return [
        row(case, "epoch", seconds, "s", rival, other_seconds, other_seconds / seconds, GOAL, detail=spread),
        row(case, "training loss of the last epoch", pairs[0][0].loss, "", rival, pairs[0][1].loss, None),
    ]


def _expect_another(python: str) -> None:
    if not os.access(python, os.X_OK):
        raise ValueError(
            f"other_python must be the path of a Python that has another gnnqlab, got {python!r}; none is there"
        )
    command = [python, "-c", "import gnnqlab; print(gnnqlab.__file__)"]
    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as folder:  # no folder gnnqlab that would be imported instead
        process = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=_environment())
    if process.returncode:
        errors = process.stderr.strip().splitlines()[-1:] or ["no error output"]
        raise ValueError(f"other_python must be a Python that imports gnnqlab, got {python!r}: {errors[0]}")
    package_path = Path(process.stdout.strip())
    if package_path.parent.resolve() == Path(gnnqlab.__file__).parent.resolve():
        raise ValueError(f"other_python must have another gnnqlab, got {python!r}, which has this one, {package_path}")


def _run_version(python: str, settings: dict[str, Any]) -> _VersionRun:
    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as root:
        argument = json.dumps({**settings, "out": root})
        process = subprocess.run(
            [python, "-c", _RUN, argument], capture_output=True, text=True, cwd=root, env=_environment()
        )  # fmt: skip
    if process.returncode:
        raise RuntimeError(
            f"a training with {python} must end, got exit status {process.returncode}:\n{process.stderr}"
        )
    report = json.loads(process.stdout.strip().splitlines()[-1])
    return _VersionRun(
        statistics.median(report["seconds"]), report["loss"], _named(report["version"], Path(report["file"]))
    )


def _named(version: str, file: Path) -> str:
    command = ["git", "-C", str(file.parent), "rev-parse", "--short", "HEAD"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        commit = ""
    return f"gnnqlab {version}" + (f" at {commit}" if commit else "")


def _environment() -> dict[str, str]:
    """Return the environment without variables that would make a Python import the wrong package."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
