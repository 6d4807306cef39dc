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

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.paired import counted, paired
from benchmarks.engine.rows import row

if TYPE_CHECKING:
    from gnnqlab.systems.system import System
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["SETTINGS", "Outcome", "cdfgnn", "lines", "table"]

SETTINGS: Mapping[str, Any] = {"layers": 2, "hidden": 64, "epochs": 100, "evaluate_every": 4, "timeline_every": 0}
FANOUT, BATCH = 10, 1024
HOSTS = 2
LINK = "50mbit"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one training came to; NaN where nobody measured. Seconds are means over workers of a median epoch, but for
    those of a training."""

    score: float
    """In [0, 1]."""
    computation_s: float = float("nan")
    communication_s: float = float("nan")
    """Waiting, the sum of gradients, encoding and decoding, with the choice of rows."""
    gradients_s: float = float("nan")
    """Of it the sum of weight gradients."""
    training_s: float = float("nan")
    """All epochs, without evaluations."""
    megabytes: float = float("nan")
    """Payload and parameters of a mean epoch, all workers."""


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
    graph: str | None = None,
    seeds: int = 5,
    first_seed: int = 0,
    epochs: int | None = None,
    workers: tuple[int, ...] = (4,),
    link: str | None = None,
) -> list[dict[str, Any]]:
    """Train every line of Figs. 6 and 8.

    Args:
        graph: name or path; by default amazon_computers, or ``digits`` where it is not here.
        seeds: trainings of each line.
        first_seed: of the first of them.
        epochs: of each training.
        workers: numbers of workers, on two hosts.
        link: between the hosts.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them; those of scores also have ``points`` and
        ``half_interval``.

    Raises:
        ValueError: if there is no seed, or a number of workers that two hosts cannot share.
    """
    from benchmarks.engine.graphs import find_graph
    from gnnqlab.graph.sources.catalogue import load
    from gnnqlab.train.config.configure import configure

    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    source = find_graph(graph or "amazon_computers") or graph or "digits"
    settings: dict[str, Any] = {**SETTINGS, **({} if epochs is None else {"epochs": epochs})}
    whole, alone = load(source), _alone(source)
    found: dict[int, dict[str, list[Outcome]]] = {number: {} for number in workers}
    for seed in range(first_seed, first_seed + seeds):
        once = configure(source, workers=1, seed=seed, **settings)
        here = {name: train(whole, once) for name, train in alone.items()}
        for number in workers:
            over: dict[str, Any] = {"workers": number, "hosts": HOSTS, "link": link or LINK}
            here_too = {name: configure(source, system=system, seed=seed, **over, **settings)
                        for name, system in lines().items()}  # fmt: skip
            outcomes = {**here, **_in_turn(here_too)}
            for name, outcome in outcomes.items():
                found[number].setdefault(name, []).append(outcome)
            said = ", ".join(f"{name} {100 * outcome.score:.2f} %" for name, outcome in outcomes.items())
            print(f"{Path(source).stem}, {number} workers, seed {seed}: {said}", file=sys.stderr, flush=True)
    shape = f"gcn {settings['layers']} x {settings['hidden']}, {settings['epochs']} epochs"
    rows = []
    for number, of_lines in found.items():
        on = f"{number} workers on {HOSTS} hosts over {link or LINK}"
        rows += table(f"{Path(source).stem}, {shape}, {on}, {counted(seeds, first_seed)}", of_lines)
    return rows


def table(case: str, found: Mapping[str, Sequence[Outcome]]) -> list[dict[str, Any]]:
    """Return seconds and bytes beside the baseline's, and scores beside those of the whole graph in one process.

    Args:
        case: first column.
        found: outcomes of the same seeds in the same order; ``baseline`` and ``full batch`` among them.

    Example:
        >>> one = Outcome(score=0.9, computation_s=1.0, communication_s=3.0, megabytes=8.0)
        >>> both = Outcome(score=0.91, computation_s=1.0, communication_s=1.5, megabytes=1.0)
        >>> rows = table("made up", {"full batch": [Outcome(score=0.9)], "baseline": [one], "both": [both]})
        >>> [(each["figure"], each["ratio"]) for each in rows if "both: communication" in each["figure"]]
        [('both: communication of an epoch', 2.0)]
    """

    def mean(name: str, what: str) -> float:
        return statistics.fmean(getattr(outcome, what) for outcome in found[name])

    rows = []
    words = {
        "computation_s": ("computation of an epoch", "s"),
        "communication_s": ("communication of an epoch", "s"),
        "gradients_s": ("of it the sum of weight gradients", "s"),
        "training_s": ("all epochs of a training", "s"),
        "megabytes": ("sent an epoch", "MB"),
    }
    for name in found:
        for what, (said, unit) in words.items():
            here, plain = mean(name, what), mean("baseline", what)
            if here != here:  # nobody measured
                continue
            rows.append(row(case, f"{name}: {said}", here, unit, "baseline", plain, plain / here if here else None))
    whole = [outcome.score for outcome in found["full batch"]]
    for name, outcomes in found.items():
        scores = [outcome.score for outcome in outcomes]
        difference, score, truth = paired(scores, whole), statistics.fmean(scores), statistics.fmean(whole)
        compared = row(
            case, f"{name}: test score, {difference}", 100 * score, "%", "full batch", 100 * truth, score / truth
        )
        if name != "full batch":
            rows.append({**compared, "points": difference.points, "half_interval": difference.half})
    return rows


def _alone(source: str) -> dict[str, Any]:
    """What trains in one process: the name of a line -> ``(graph, config) -> outcome``; those that can be."""
    from gnnqlab.train.config.configure import configure
    from gnnqlab.train.dgl_mini_batch import MiniBatch, why_not

    def mini_batch(graph: Any, config: RunConfig) -> Outcome:
        return Outcome(score=_score(MiniBatch(fanout=FANOUT, batch_size=BATCH).train(graph, config).summary))

    def full_batch(graph: Any, config: RunConfig) -> Outcome:
        return Outcome(score=_in_turn({"": config})[""].score)

    reason = why_not(configure(source, workers=1, **SETTINGS))
    if reason:
        print(f"bench cdfgnn: no mini-batches, so their rows are left out: {reason}", file=sys.stderr, flush=True)
        return {"full batch": full_batch}
    return {"full batch": full_batch, "mini-batch": mini_batch}


def _in_turn(configs: Mapping[str, RunConfig]) -> dict[str, Outcome]:
    """Train all in the same workers, one after another."""
    from benchmarks.engine.in_turn import train_in_turn

    found = {}
    for name, run in zip(configs, train_in_turn(list(configs.values())), strict=True):
        summary, records = run.summary, run.records  # read before its folder goes
        sent = float(records[["bytes_payload", "bytes_params"]].to_numpy().sum()) / summary["epochs"]
        found[name] = Outcome(
            score=_score(summary),
            computation_s=summary["comp_s"],
            communication_s=summary["comm_s"] + summary["quant_s"],
            gradients_s=float(records.groupby("epoch")["reduce_s"].mean().median()),
            training_s=summary["train_s"],
            megabytes=sent / 1e6,
        )
    return found


def _score(summary: Mapping[str, Any]) -> float:
    return float(summary.get("test_accuracy") or summary.get("test_f1_micro") or 0.0)
