"""What sampling neighbours costs in accuracy: mini-batches by fan-out, beside full-graph training (SYLVIE Table I).

Both start from the same weights, with the same model, optimizer and number of epochs; a mini-batch takes a step for
each batch, full-graph training one an epoch. So a difference is of the two ways to train, not of sampling alone.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine.paired import paired
from benchmarks.engine.rows import row

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
        graph: name or path; by default amazon_computers, or ``digits`` where it is not here.
        seeds: trainings of each.
        epochs: of each training, the first and every fifth one evaluated.
        batch_size: training nodes in a batch.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them, scores in per cent; each also has ``points``,
        above full-graph training's, and ``half_interval``.

    Raises:
        ValueError: if there is no seed.
        RuntimeError: if DGL, which samples the neighbours, is not installed.
    """
    from benchmarks.engine.graphs import find_graph
    from gnnqlab.graph.sources.catalogue import load
    from gnnqlab.train.config.configure import configure
    from gnnqlab.train.dgl_mini_batch import MiniBatch

    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    source = find_graph(graph or "amazon_computers") or graph or "digits"
    whole = load(source)
    found: dict[str, list[float]] = {}
    for seed in range(seeds):
        config = configure(source, workers=1, seed=seed, epochs=epochs, evaluate_every=5, **SETTINGS)
        found.setdefault("full graph", []).append(_full_graph(config))
        for fanout in FANOUTS:
            line = MiniBatch(fanout=fanout, batch_size=batch_size).train(whole, config)
            found.setdefault(f"fan-out {fanout}", []).append(_score(line.summary))
        said = ", ".join(f"{name} {100 * scores[-1]:.2f} %" for name, scores in found.items())
        print(f"seed {seed}: {said}", file=sys.stderr, flush=True)
    shape = f"{SETTINGS['model']} {SETTINGS['layers']} x {SETTINGS['hidden']}"
    return table(f"{Path(source).stem}, {shape}, {epochs} epochs, {seeds} seed(s)", found)


def table(case: str, found: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Return a row for each fan-out beside full-graph training.

    Args:
        case: first column.
        found: test scores in [0, 1] of the same seeds in the same order; ``full graph`` among them.

    Example:
        >>> found = {"full graph": [0.9, 0.92], "fan-out 5": [0.88, 0.89]}
        >>> [(row["figure"], round(row["points"], 1)) for row in table("made up", found)]
        [('fan-out 5: test score, -2.50 ± 6.35 points', -2.5)]
    """
    whole = statistics.fmean(found["full graph"])
    rows = []
    for name, scores in found.items():
        if name == "full graph":
            continue
        difference, mean = paired(scores, found["full graph"]), statistics.fmean(scores)
        what = f"{name}: test score, {difference}"
        compared = row(case, what, 100 * mean, "%", "full graph", 100 * whole, mean / whole)
        rows.append({**compared, "points": difference.points, "half_interval": difference.half})
    return rows


def _full_graph(config: Any) -> float:
    from benchmarks.engine.in_turn import train_in_turn

    (score,) = (_score(run.summary) for run in train_in_turn([config]))  # read before its folder goes
    return score


def _score(summary: Mapping[str, Any]) -> float:
    return float(summary.get("test_accuracy") or summary.get("test_f1_micro") or 0.0)
