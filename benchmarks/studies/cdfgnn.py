"""CDFGNN's two optimizations one by one: seconds of an epoch (Fig. 6) and accuracy (Fig. 8), over seeds.

``baseline`` sends every sum as float32 over EBV with γ = 0.1; ``cache`` sends those that moved, ``quantize`` 8 bits of
all, ``both`` is the recipe, whose ε follows the accuracy as the prose says, ``both as printed`` by Eq. 6 as it stands
(erratum CD-3). In ``baseline meeting`` and ``both meeting`` copies of a node meet on their host first
(:class:`gnnqlab.exchange.vertex_cut.exchange.Replicas`, ``meet``; not in the paper). All start from the same weights on
the same cut, once a seed. Communication holds the quantization and the choice of rows, as in the paper; the sum of
weight gradients in it, which no line makes smaller, is also said by itself. ``full batch`` is one process on the whole
graph, ``mini-batch`` sampled neighbours in one process, a step for each batch.

Over a link that carries an epoch's messages sooner than the workers can be woken for them, fewer bytes gain nothing and
choosing rows costs: Cora's 1.1 MB over 200 Mbit are such a case. Hence the rate of ``LINK``.

Differs: the paper draws accuracy over epochs and names no numbers; here it is the test score in the epoch with the best
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
from benchmarks.engine.trained import Options, mean_of, scores_of, study_rows, train_each, train_mini_batches
from gnnqlab.study import Cell, RunResult
from gnnqlab.study.study import launch_cell

if TYPE_CHECKING:
    from gnnqlab.systems.system import System

__all__ = ["SETTINGS", "cdfgnn", "lines", "table"]

SETTINGS: Mapping[str, Any] = {"layers": 2, "hidden": 64, "epochs": 100, "evaluate_every": 4, "timeline_every": 0}
FANOUT, BATCH = 10, 1024
HOSTS = 2
LINK = "50mbit"


def lines() -> dict[str, System]:
    """Return the systems of Fig. 6's right half, by its words.

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

    both = make_system("cdfgnn")
    plain: dict[str, Any] = {"codec": Float32(), "bits": Fixed()}
    baseline, met = replace(both, cache=NoCache(), **plain), Replicas(meet=True)
    return {
        "baseline": baseline,
        "cache": replace(both, **plain),
        "quantize": replace(both, cache=NoCache()),
        "both": both,
        "both as printed": replace(both, cache=AdaptiveCache(rule="equation")),
        "baseline meeting": replace(baseline, exchange=met),
        "both meeting": replace(both, exchange=met),
    }


def cdfgnn(
    *,
    link: str | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train every line of Figs. 6 and 8.

    Args:
        link: between the hosts.
        **options: see :class:`benchmarks.engine.trained.Options`; by default amazon_computers, or ``digits`` where it
            is not here, and 4 workers.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them; those of scores also have ``points`` and
        ``half_interval``.

    Raises:
        ValueError: if there is no seed, or a number of workers that two hosts cannot share.
    """
    given = Options(**{"workers": (4,), "trainings": "runs/bench-cdfgnn", **options})
    grid = {"graphs": [graph_or_digits(given.graph, "amazon_computers")], **given.over(SETTINGS)}
    alone = _alone(grid["graphs"][0], {**grid, "workers": 1})
    grid |= {"hosts": HOSTS, "link": link or LINK}
    where = "{workers} workers on {hosts} hosts over {link}"
    case = f"{{graph}}, {{model}} {{layers}} x {{hidden}}, {{epochs}} epochs, {where}, {{seeds}}"
    return study_rows(lambda name, found: table(name, {**alone, **found}), lines(), case=case, **grid)


def table(case: str, found: Mapping[str, Sequence[RunResult]]) -> list[dict[str, Any]]:
    """Return seconds and bytes beside the baseline's, and scores beside those of the whole graph in one process.

    Args:
        case: first column.
        found: trainings of the same seeds in the same order; ``baseline`` and ``full batch`` among them. What was not
            measured is NaN and has no row.

    Example:
        >>> one = RunResult(score=0.9, computation_s=1.0, communication_s=3.0, bytes_sent=8e6)
        >>> both = RunResult(score=0.91, computation_s=1.0, communication_s=1.5, bytes_sent=1e6)
        >>> rows = table("made up", {"full batch": [RunResult(score=0.9)], "baseline": [one], "both": [both]})
        >>> [(each["figure"], each["ratio"]) for each in rows if "both: communication" in each["figure"]]
        [('both: communication of an epoch', 2.0)]
    """
    words = {
        "computation_s": ("computation of an epoch", "s", 1.0),
        "communication_s": ("communication of an epoch", "s", 1.0),
        "gradients_s": ("of it the sum of weight gradients", "s", 1.0),
        "train_s": ("all epochs of a training", "s", 1.0),
        "bytes_sent": ("sent an epoch", "MB", 1e-6),
    }
    rows = []
    for name, trainings in found.items():
        for what, (said, unit, scale) in words.items():
            here, plain = (scale * mean_of(each, what) for each in (trainings, found["baseline"]))
            if not math.isnan(here):
                ratio = plain / here if here else None
                rows.append(row(case, said, here, unit, "baseline", plain, ratio, contestant=name))
    whole = scores_of(found["full batch"])
    scored = {name: scores_of(trainings) for name, trainings in found.items() if name != "full batch"}
    return rows + [score_row(case, name, scores, "full batch", whole) for name, scores in scored.items()]


def _alone(source: str, grid: Mapping[str, Any]) -> dict[str, list[RunResult]]:
    """Train in one process what can be trained there: the whole graph and mini-batches; return their scores."""
    from gnnqlab.train.config.configure import configure
    from gnnqlab.train.dgl_mini_batch import why_not

    def train(cell: Cell, folder: Path) -> RunResult:
        if cell.contestant.name == "full batch":
            return launch_cell(cell, folder)
        return train_mini_batches(cell, fanout=FANOUT, batch_size=BATCH)

    names = ["full batch", "mini-batch"]
    if reason := why_not(configure(source, workers=1, **SETTINGS)):
        print(f"bench cdfgnn: no mini-batches, so their rows are left out: {reason}", file=sys.stderr, flush=True)
        names.remove("mini-batch")
    (found,) = train_each(dict.fromkeys(names, "vanilla"), train=train, **grid).values()
    return {name: [RunResult(score=one.score) for one in trainings] for name, trainings in found.items()}
