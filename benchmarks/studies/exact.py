"""EXACT's savings and costs: bytes saved for backward by purpose, peak memory, time and accuracy.

Each graph is trained as a whole, in one process, with a model of three layers, in float32 and with quantized
activations, from the same weights with the same dropout. The peak is the growth of resident memory in a new process
from before its first epoch, when parameters, graph and features are already loaded.
"""

from __future__ import annotations

import gc
import re
import statistics
from pathlib import Path
from typing import Any

from benchmarks.engine.graphs import find_graphs
from benchmarks.engine.rows import paired_difference, row, seed_count_text
from benchmarks.engine.trained import scores_of, train_each, train_here
from benchmarks.kernels.pinned import Pair, interleaved, next_epochs, pair_rows, run_each
from benchmarks.studies.accuracy import BESIDE
from gnnqlab.course.experiments.kept_bytes import PURPOSES, saved_bytes_by_purpose

__all__ = ["exact", "measure_peak"]

GRAPHS = ("cora", "coauthor_physics", "amazon_computers")
LAYERS, HIDDEN = 3, 256  # model of every case
EPOCHS = 200
"""Enough epochs for scores to converge: amazon_computers has half of its score after 40."""
SETTINGS: dict[str, dict[str, Any] | None] = {
    "8 bits": {"bits": 8},
    "2 bits": {"bits": 2},
    "2 bits, an eighth of the columns": {"bits": 2, "ratio": 0.125},
}
_EPOCHS_OF_PEAK = 3  # the first epoch allocates, the others show the steady state


def exact(
    repeats: int = 5,
    *,
    graph: str | None = None,
    models: tuple[str, ...] = ("gcn",),
    epochs: int = EPOCHS,
    seeds: int = 3,
    first_seed: int = 0,
    trainings: str = "runs/bench-exact",
) -> list[dict[str, Any]]:
    """Compare quantized activations with float32.

    Args:
        repeats: interleaved epochs of each contestant.
        graph: name or path; by default those of three real graphs that exist here, or ``digits`` if none does.
        models: names of models.
        epochs, seeds: numbers of epochs and seeds of the trainings whose test scores are compared; 0 seeds skip them.
        first_seed: first of the consecutive seeds.
        trainings: folder of stored trainings; those in it are not repeated.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if a number is too small, or there is no model.
    """
    if repeats < 1 or epochs < 1 or seeds < 0 or not models:
        raise ValueError(f"repeats and epochs must be at least 1, seeds 0, got {repeats}, {epochs} and {seeds}")
    sources, seed_range = find_graphs(graph, GRAPHS, between=";"), range(first_seed, first_seed + seeds)
    return [  # every graph and model
        line
        for source in sources
        for model in models
        for line in _rows(source, model, repeats, epochs, seed_range, trainings)
    ]


def measure_peak(source: str, model: str, settings: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the growth of resident memory over some epochs, ``[{"bytes": ...}]``; call it in a new process."""
    from gnnqlab.graph import load

    trainer = _trainer(load(source), model, settings, 0)
    gc.collect()  # garbage of the set-up would count as available memory
    start_bytes = _resident("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5")  # reset the high-water mark of resident memory
    except OSError:
        start_bytes = _resident("VmHWM")  # without permission the mark is that of the whole process
    for epoch in range(_EPOCHS_OF_PEAK):
        trainer.epoch(epoch)
    return [{"bytes": _resident("VmHWM") - start_bytes}]


def _rows(source: str, model: str, repeats: int, epochs: int, seeds: range, trainings: str) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.graph import load

    loaded_graph = load(source)
    # one trainer per contestant
    trainers = {name: _trainer(loaded_graph, model, settings, 0) for name, settings in _contestants().items()}
    seconds = interleaved(next_epochs(trainers), repeats)
    saved_bytes = {
        name: saved_bytes_by_purpose(loaded_graph, _shape(model), _products(settings))
        for name, settings in _contestants().items()
    }
    peaks = {
        # a new process, because the high-water mark includes earlier work
        name: run_each(__name__ + ":measure_peak", threads=(1,), source=source, model=model, settings=settings)[0]
        for name, settings in _contestants().items()
    }
    scores = _scores(loaded_graph, source, model, epochs, seeds, trainings) if seeds else {}
    rows, base = [], "float32"
    for name in SETTINGS:
        case = f"{Path(source).stem}, {model} {LAYERS} x {HIDDEN}, {name}"
        for purpose in (*PURPOSES, "others"):
            size, base_size = saved_bytes[name][purpose], saved_bytes[base][purpose]
            if base_size or size:
                ratio = base_size / size if size else None
                rows.append(row(case, f"kept for the backward pass: {purpose}", size, "B", base, base_size, ratio))
        size, base_size = (sum(saved_bytes[contestant].values()) for contestant in (name, base))
        rows.append(row(case, "kept for the backward pass, all", size, "B", base, base_size, base_size / size))
        size, base_size = (peaks[contestant]["bytes"] for contestant in (name, base))
        rows.append(
            row(case, "peak above the first epoch's start", size, "B", base, base_size, base_size / max(size, 1))
        )
        rows += pair_rows(case, seconds, [Pair(f"epoch, {torch.get_num_threads()} thread(s)", name, base)])
        if seeds:
            metric = f"test score, {epochs} epochs, {seed_count_text(len(seeds), seeds.start)}"
            detail = f", {paired_difference(scores[name], scores[base])}"
            mean, rival = (100 * statistics.fmean(scores[contestant]) for contestant in (name, base))
            rows.append(row(case, metric, mean, "%", base, rival, mean / rival, detail=detail))
    return rows


def _contestants() -> dict[str, dict[str, Any] | None]:
    return {"float32": None, **SETTINGS}  # None: float32


def _products(settings: dict[str, Any] | None) -> Any:
    from gnnqlab.compute import ExactActivations, Float32Products

    return Float32Products().build() if settings is None else ExactActivations(**settings).build()


def _shape(model: str) -> Any:
    from gnnqlab.nn import ModelSettings

    return ModelSettings(name=model, layers=LAYERS, hidden=HIDDEN)


def _trainer(graph: Any, model: str, settings: dict[str, Any] | None, seed: int) -> Any:
    from gnnqlab.simulation.whole_graph import exact_trainer

    return exact_trainer(graph, _shape(model), seed=seed, lr=BESIDE["lr"], products=_products(settings))


def _scores(graph: Any, source: str, model: str, epochs: int, seeds: range, trainings: str) -> dict[str, list[float]]:
    """Return the test scores after the last epoch, by contestant."""
    contestants = _contestants()
    (results,) = train_each(
        dict.fromkeys(contestants, "vanilla"),
        graphs=[source],
        models=[_shape(model)],
        workers=1,
        seeds=len(seeds),
        first_seed=seeds.start,
        folder=trainings,
        train=lambda cell, _: train_here(_trainer(graph, model, contestants[cell.contestant.name], cell.seed), cell),
        epochs=epochs,
        evaluate_every=0,
        lr=BESIDE["lr"],
    ).values()
    return {name: scores_of(each) for name, each in results.items()}


def _resident(field: str) -> int:
    """Return the bytes of a field of this process's status, ``VmRSS`` or ``VmHWM``."""
    match = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024  # kB -> bytes
