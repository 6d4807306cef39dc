"""Ablation of CDFGNN's two optimizations: seconds of an epoch (Fig. 6) and accuracy (Fig. 8), over seeds.

``baseline`` sends every sum as float32 over EBV with γ = 0.1; ``cache`` sends those that changed, ``quantize`` all in
8 bits; ``both`` is the recipe, with ε adapted to the accuracy as in the prose, ``both as printed`` by Eq. 6 (erratum
CD-3). ``baseline meeting`` and ``both meeting`` use hierarchical aggregation on each host
(:class:`gnnqlab.exchange.vertex_cut.exchange.Replicas`, ``hierarchical``; not in the paper). All start from the same
weights on the same vertex-cut, once per seed. Communication includes quantization and the choice of rows, as in the
paper; the gradient all-reduce in it, which no line reduces, also has its own row. ``full batch`` is one process on the
whole graph, ``mini-batch`` one process with sampled neighbours.

Over a link that transfers an epoch's messages faster than the workers can wake up for them, fewer bytes save no time
and choosing rows costs some: Cora's 1.1 MB over 200 Mbit are such a case. Hence the rate of ``LINK``.

Differs: the paper draws accuracy over epochs without numbers; here it is the test score in the epoch with the best
validation score.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import graph_or_digits
from benchmarks.engine.rows import row, score_row
from benchmarks.engine.trained import TrainingOptions, mean_of, scores_of, study_rows, train_each, train_mini_batches
from gnnqlab.study import Cell, RunResult
from gnnqlab.study.study import launch_cell

if TYPE_CHECKING:
    from gnnqlab.systems.system import System

__all__ = ["SETTINGS", "cdfgnn", "lines", "table"]

SETTINGS: Mapping[str, Any] = {"layers": 2, "hidden": 64, "epochs": 100, "evaluate_every": 4, "timeline_every": 0}
FANOUT, BATCH = 10, 1024  # fan-out and batch size of the mini-batches
HOSTS = 2
LINK = "50mbit"


def lines() -> dict[str, System]:
    """Return the systems of Fig. 6's right half, with the names of the figure.

    Example:
        >>> list(lines()), type(lines()["quantize"].cache).__name__
        (['baseline', 'cache', 'quantize', 'both', 'both as printed', 'baseline meeting', 'both meeting'], 'NoCache')
    """
    from gnnqlab.bits.policy import Fixed
    from gnnqlab.exchange.vertex_cut.exchange import Replicas
    from gnnqlab.message.caches.adaptive_cache import AdaptiveCache
    from gnnqlab.message.caches.cache import NoCache
    from gnnqlab.message.codecs.codec import Float32
    from gnnqlab.systems import make_system

    cdfgnn_system = make_system("cdfgnn")
    float32_messages: dict[str, Any] = {"codec": Float32(), "bits": Fixed()}
    baseline, replicas = replace(cdfgnn_system, cache=NoCache(), **float32_messages), Replicas(hierarchical=True)
    return {
        "baseline": baseline,
        "cache": replace(cdfgnn_system, **float32_messages),
        "quantize": replace(cdfgnn_system, cache=NoCache()),
        "both": cdfgnn_system,
        "both as printed": replace(cdfgnn_system, cache=AdaptiveCache(rule="equation")),
        "baseline meeting": replace(baseline, exchange=replicas),
        "both meeting": replace(cdfgnn_system, exchange=replicas),
    }


def cdfgnn(
    *,
    link: str | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train every line of Figs. 6 and 8.

    Args:
        link: rate of the link between the hosts.
        **options: see :class:`benchmarks.engine.trained.TrainingOptions`; by default amazon_computers, or ``digits``
            if it is missing, and 4 workers.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`; those of scores also have ``points`` and ``half_interval``.

    Raises:
        ValueError: if there is no seed, or an odd number of workers.
    """
    run_options = TrainingOptions(**{"workers": (4,), "trainings": "runs/bench-cdfgnn", **options})
    grid = {"graphs": [graph_or_digits(run_options.graph, "amazon_computers")], **run_options.merge_into(SETTINGS)}
    single_results = _train_in_one_process(grid["graphs"][0], {**grid, "workers": 1})  # one process, without a link
    grid |= {"hosts": HOSTS, "link": link or LINK}
    place = "{workers} workers on {hosts} hosts over {link}"
    case = f"{{graph}}, {{model}} {{layers}} x {{hidden}}, {{epochs}} epochs, {place}, {{seeds}}"
    return study_rows(lambda name, results: table(name, {**single_results, **results}), lines(), case=case, **grid)


def table(case: str, found: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    """Compare seconds and bytes with the baseline, and scores with those of the whole graph in one process.

    Args:
        case: first column.
        found: line -> trainings of the same seeds in the same order, with ``baseline`` and ``full batch``. Values that
            were not measured are NaN and have no row.

    Example:
        >>> one = RunResult(score=0.9, computation_s=1.0, communication_s=3.0, bytes_sent=8e6)
        >>> both = RunResult(score=0.91, computation_s=1.0, communication_s=1.5, bytes_sent=1e6)
        >>> rows = table("made up", {"full batch": [RunResult(score=0.9)], "baseline": [one], "both": [both]})
        >>> [(each["figure"], each["ratio"]) for each in rows if "both: communication" in each["figure"]]
        [('both: communication of an epoch', 2.0)]
    """
    # Field of a result -> metric, unit and factor.
    words = {
        "computation_s": ("computation of an epoch", "s", 1.0),
        "communication_s": ("communication of an epoch", "s", 1.0),
        "gradients_s": ("of it the sum of weight gradients", "s", 1.0),
        "train_s": ("all epochs of a training", "s", 1.0),
        "bytes_sent": ("sent an epoch", "MB", 1e-6),
    }
    rows = []
    for name, trainings in found.items():
        for field, (metric, unit, scale) in words.items():
            value, baseline = (scale * mean_of(each, field) for each in (trainings, found["baseline"]))
            if not math.isnan(value):  # NaN: not measured for this line
                ratio = baseline / value if value else None
                rows.append(row(case, metric, value, unit, "baseline", baseline, ratio, contestant=name))
    whole_scores = scores_of(found["full batch"])
    # scores are compared with one process on the whole graph
    scores_by_line = {name: scores_of(trainings) for name, trainings in found.items() if name != "full batch"}
    return rows + [score_row(case, name, scores, "full batch", whole_scores) for name, scores in scores_by_line.items()]


def _train_in_one_process(source: str, grid: Mapping[str, Any]) -> dict[str, list[RunResult]]:
    """Train the lines of one process, the whole graph and mini-batches; return their scores."""
    from gnnqlab.train.config.configure import configure
    from gnnqlab.train.dgl_mini_batch import unavailable_reason

    def train(cell: Cell, folder: Path) -> RunResult:
        if cell.contestant.name == "full batch":
            return launch_cell(cell, folder)
        return train_mini_batches(cell, fanout=FANOUT, batch_size=BATCH)

    names = ["full batch", "mini-batch"]
    if reason := unavailable_reason(
        configure(source, workers=1, **SETTINGS)
    ):  # None if mini-batches can be trained here
        print(f"bench cdfgnn: no mini-batches, so their rows are omitted: {reason}", file=sys.stderr, flush=True)
        names.remove("mini-batch")
    (results,) = train_each(dict.fromkeys(names, "vanilla"), train=train, **grid).values()
    # scores only: seconds of one process are no rival
    return {name: [RunResult(score=training.score) for training in trainings] for name, trainings in results.items()}
