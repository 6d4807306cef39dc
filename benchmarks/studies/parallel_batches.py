"""Mini-batches on several workers: int8 rows and gradients compared with float32, ours and DGL's (TANGO Fig. 9).

Contestants train on the same nodes in the same batches with the same owners of features, in interleaved epochs. TANGO
measures two to six GPUs on a bus; here workers are processes, over the loopback and, each on its own host, over a link.
A worker has one thread for products, and a second one if batches are prefetched; DGL's loop does not prefetch.

Binary features, such as words of a document, have codes without error at any bit-width, so the default graphs have
others: seconds are measured on a planted partition with 256 normal features, scores on ``digits``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import require_among, row, score_row, seed_count_text

if TYPE_CHECKING:
    from benchmarks.studies.parallel_batches_run import Found
    from gnnqlab.graph.graph import Graph
    from gnnqlab.train.batches import MiniBatchSettings

__all__ = ["minibatch", "score_rows", "speed_rows"]

SCORED_GRAPH, MODELS, WORKERS, LINK = "digits", ("gcn", "gat"), (1, 2, 4), "1gbit"
SHAPE: Mapping[str, Any] = {"layers": 2, "hidden": 256, "dropout": 0.5, "lr": 0.01}
FANOUTS = (5, 5)
DGL, FLOAT32, INT8 = "DGL float32", "float32", "int8"
CODES: Mapping[str, Any] = {"feature_bits": 8, "gradients": "int8"}
CONTESTANTS: Mapping[str, Mapping[str, Any]] = {
    DGL: {},
    FLOAT32: {},
    INT8: CODES,
    "float32, nothing ahead": {"overlap": False},
    "int8, nothing ahead": {**CODES, "overlap": False},
    "int8 features alone": {"feature_bits": 8},
}
"""Name -> settings of rows and gradients; those with "nothing ahead" do not prefetch batches."""
RIVALS: Mapping[str, tuple[str, ...]] = {
    FLOAT32: (DGL, "float32, nothing ahead"),
    "float32, nothing ahead": (DGL,),
    INT8: (DGL, FLOAT32, "int8, nothing ahead"),
    "int8, nothing ahead": ("float32, nothing ahead",),
}
"""Contestant -> rivals for its seconds."""
ALONE = (DGL, FLOAT32, "float32, nothing ahead")
TIMED = (*ALONE, INT8, "int8, nothing ahead")
SCORED = (FLOAT32, INT8, "int8 features alone")


def minibatch(
    repeats: int = 3,
    *,
    graph: str | None = None,
    models: Sequence[str] = MODELS,
    workers: Sequence[int] = WORKERS,
    link: str = LINK,
    batch_size: int = 512,
    epochs: int = 30,
    seeds: int = 5,
    first_seed: int = 0,
) -> list[dict[str, Any]]:
    """Measure epochs by number of workers and link, and test scores with codes.

    Args:
        repeats: timed epochs of each contestant, after a first one.
        graph: name or path; by default a planted partition, and for scores ``digits``.
        models: some of ``gcn``, ``graphsage`` and ``gat``.
        workers: numbers of workers.
        link: rate of each worker's link; emulated, or paced if the machine does not allow emulation.
        batch_size: training nodes per step, over all workers.
        epochs, seeds: numbers of epochs and seeds of the trainings whose scores are compared, on two workers; 0 seeds
            skip them.
        first_seed: first of the consecutive seeds.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if a number is too small, or a model has no mini-batches.
    """
    from benchmarks.engine.graphs import find_graph
    from benchmarks.engine.link_run import usual_graph
    from gnnqlab.nn.blocks import MODELS as KNOWN
    from gnnqlab.train.config.configure import configure

    require_among("models", models, KNOWN)
    if repeats < 1 or epochs < 1 or seeds < 0 or not workers or min(workers) < 1:
        values = f"{repeats}, {epochs}, {seeds} and {tuple(workers)}"
        raise ValueError(f"repeats, epochs and workers must be at least 1, seeds 0, got {values}")
    timed_graph = usual_graph() if graph is None else find_graph(graph) or graph
    scored_graph = SCORED_GRAPH if graph is None else timed_graph
    rows: list[dict[str, Any]] = []
    for model in models:
        label = f"{model} {SHAPE['layers']} x {SHAPE['hidden']}, batches of {batch_size}, fan-outs {FANOUTS}"
        shared_settings: dict[str, Any] = {"model": model, **SHAPE, "threads_per_worker": 1}
        for number in workers:
            for host_link in (None, link) if number > 1 else (None,):
                hosts: dict[str, Any] = {} if host_link is None else {"hosts": number, "link": host_link}
                config = configure(timed_graph, workers=number, epochs=repeats + 1, **shared_settings, **hosts)
                contestants = _contestants(TIMED if number > 1 else ALONE, batch_size)
                results = _run(config, contestants, seeds=[first_seed])
                rows += speed_rows(f"{_name(timed_graph)}, {label}, {_place(number, results)}", results)
        if seeds:
            config = configure(scored_graph, workers=2, epochs=epochs, **shared_settings)
            seed_range = range(first_seed, first_seed + seeds)
            results = _run(config, _contestants(SCORED, batch_size), seeds=seed_range, evaluate_every=5)
            case = f"{_name(scored_graph)}, {label}, 2 workers, {epochs} epochs, {seed_count_text(seeds, first_seed)}"
            rows += score_rows(case, results)
    return rows


def _name(graph: Graph | str) -> str:
    return Path(graph).stem if isinstance(graph, str) else graph.name


def _contestants(names: Sequence[str], batch_size: int) -> dict[str, MiniBatchSettings]:
    """Return the settings of the contestants, without DGL's loop if DGL is not installed."""
    import importlib.util

    from gnnqlab.train.batches import MiniBatchSettings

    if DGL in names and importlib.util.find_spec("dgl") is None:
        print("bench minibatch: DGL is not installed, so its lines are omitted", file=sys.stderr)
        names = tuple(name for name in names if name != DGL)
    return {name: MiniBatchSettings(fanouts=FANOUTS, batch_size=batch_size, **CONTESTANTS[name]) for name in names}


def _run(config: Any, contestants: Mapping[str, MiniBatchSettings], **settings: Any) -> list[Found]:
    from benchmarks.studies.parallel_batches_run import run_in_turn

    results = run_in_turn(config, contestants, [DGL], **settings)
    for result in results:
        score = "" if result.score is None else f", {100 * result.score:.2f} %"
        place = f"{config.model.name}, {config.workers} worker(s), {result.link}, seed {result.seed}"
        print(f"{place}: {result.name} {result.epoch_s:.3f} s per epoch{score}", file=sys.stderr, flush=True)
    return results


def _place(workers: int, results: Sequence[Found]) -> str:
    cores = len(os.sched_getaffinity(0))
    return f"{workers} worker(s) on {cores} cores, {results[0].link}"


def speed_rows(case: str, found: Sequence[Found]) -> list[dict[str, Any]]:
    """Compare epochs with those of ``RIVALS``, and bytes with float32.

    Example:
        >>> from benchmarks.studies.parallel_batches_run import Found
        >>> shared = {"seed": 0, "score": None}
        >>> ours = Found(name="int8", epochs_s=(9.0, 2.0, 3.0, 2.0), sent_bytes=10.0, **shared)
        >>> other = Found(name="float32", epochs_s=(9.0, 3.0, 3.0, 4.0), sent_bytes=40.0, **shared)
        >>> [(row["figure"], row["value"], row["rival"], row["ratio"]) for row in speed_rows("made up", [ours, other])]
        [('int8: epoch, median', 2.0, 'float32', 1.5), ('int8: bytes an epoch', 10.0, 'float32', 4.0)]
    """
    results_by_name = {each.name: each for each in found}
    rows = []
    for name, rivals in RIVALS.items():
        for rival in rivals:
            result, rival_result = results_by_name.get(name), results_by_name.get(rival)
            if result is None or rival_result is None:
                continue
            rival_columns = (rival, rival_result.epoch_s, rival_result.epoch_s / result.epoch_s)
            rows.append(row(case, "epoch, median", result.epoch_s, "s", *rival_columns, contestant=name))
            if rival == FLOAT32:
                rival_columns = (rival, rival_result.sent_bytes, rival_result.sent_bytes / result.sent_bytes)
                rows.append(row(case, "bytes an epoch", result.sent_bytes, "B", *rival_columns, contestant=name))
    return rows


def score_rows(case: str, found: Sequence[Found]) -> list[dict[str, Any]]:
    """Compare test scores with those of float32 with the same seeds, in per cent.

    Example:
        >>> from benchmarks.studies.parallel_batches_run import Found
        >>> scores = {"float32": (0.90, 0.92), "int8": (0.91, 0.91)}
        >>> found = [
        ...     Found(name=name, seed=seed, epochs_s=(1.0,), sent_bytes=0.0, score=score)
        ...     for name, several in scores.items()
        ...     for seed, score in enumerate(several)
        ... ]
        >>> [(row["figure"], round(row["value"], 6)) for row in score_rows("made up", found)]
        [('int8: test score, +0.00 ± 12.71 points', 91.0)]
    """
    scores: dict[str, list[float]] = {}
    for result in sorted(found, key=lambda result: result.seed):
        assert result.score is not None
        scores.setdefault(result.name, []).append(result.score)
    compared_names = [name for name in scores if name != FLOAT32]
    return [score_row(case, name, scores[name], FLOAT32, scores[FLOAT32]) for name in compared_names]
