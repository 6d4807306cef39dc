"""Accuracy of neighbour sampling: mini-batches by fan-out, compared with full-graph training (SYLVIE Table I).

Both start from the same weights, with the same model, optimizer and number of epochs; mini-batch training takes one
step per batch, full-graph training one per epoch. So a difference is due to both, not to sampling alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine.graphs import graph_or_digits
from benchmarks.engine.rows import score_row
from benchmarks.engine.trained import scores_of, study_rows, train_mini_batches
from gnnqlab.study import Cell, RunResult
from gnnqlab.study.study import launch_cell

__all__ = ["FANOUTS", "fanouts", "table"]

FANOUTS = (5, 10, 15)
"""In-neighbours of each node in each layer, as in SYLVIE's Table I."""
SETTINGS: Mapping[str, Any] = {
    "model": "graphsage", "layers": 3, "hidden": 64, "dropout": 0.5, "lr": 0.01, "timeline_every": 0,
}  # fmt: skip


def fanouts(
    *, graph: str | None = None, seeds: int = 3, epochs: int = 60, batch_size: int = 1024
) -> list[dict[str, Any]]:
    """Train GraphSAGE on the whole graph, and on mini-batches of every fan-out.

    Args:
        graph: name or path; by default amazon_computers, or ``digits`` if it is missing.
        seeds: trainings of each.
        epochs: epochs of each training, with an evaluation every five.
        batch_size: training nodes per batch.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`, scores in per cent; each also has ``points``, the difference from
        full-graph training, and ``half_interval``.

    Raises:
        ValueError: if there is no seed.
        RuntimeError: if DGL, which samples the neighbours, is not installed.
    """
    fanouts_by_name = {f"fan-out {fanout}": fanout for fanout in FANOUTS}

    def train(cell: Cell, folder: Path) -> RunResult:
        fanout = fanouts_by_name.get(cell.contestant.name)  # None: the whole graph
        if fanout is None:
            return launch_cell(cell, folder)
        return train_mini_batches(cell, fanout=fanout, batch_size=batch_size)

    settings = {**SETTINGS, "epochs": epochs, "evaluate_every": 5}
    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as folder:
        return study_rows(
            lambda case, results: table(case, {name: scores_of(trainings) for name, trainings in results.items()}),
            # the name of a contestant chooses its training; the system is Vanilla
            dict.fromkeys(["full graph", *fanouts_by_name], "vanilla"),
            case="{graph}, {model} {layers} x {hidden}, {epochs} epochs, {seeds}",
            graphs=[graph_or_digits(graph, "amazon_computers")],
            models=[settings.pop("model")],
            workers=1,
            seeds=seeds,
            folder=folder,
            train=train,
            **settings,
        )


def table(case: str, found: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Compare each fan-out with full-graph training.

    Args:
        case: first column.
        found: contestant -> test scores in [0, 1] of the same seeds in the same order, with ``full graph``.

    Example:
        >>> found = {"full graph": [0.9, 0.92], "fan-out 5": [0.88, 0.89]}
        >>> [(row["figure"], round(row["points"], 1)) for row in table("made up", found)]
        [('fan-out 5: test score, -2.50 ± 6.35 points', -2.5)]
    """
    names = [name for name in found if name != "full graph"]
    return [score_row(case, name, found[name], "full graph", found["full graph"]) for name in names]
