"""TANGO's Figs. 7 and 8: whole trainings with codes compared with float32, DGL and EXACT.

Every contestant trains on a whole graph, in one process, from the same weights with the same dropout (DGL from its own
weights), with dense features. Seconds are those of training, with quantization and without evaluation; total time, time
to accuracy and score of a line come from the same trainings. The target accuracy is that of float32 with the same seed:
its best validation score, less half a point.

Each training is stored, so a table of an hour can be interrupted and resumed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import find_graphs
from benchmarks.engine.rows import half_interval, paired_difference, require_among, row, score_row
from benchmarks.engine.trained import mean_of, scores_of, study_rows, train_here
from gnnqlab.study.result import MARGIN

if TYPE_CHECKING:
    from gnnqlab.graph import Graph
    from gnnqlab.study import Cell, RunResult

__all__ = ["CODES", "SHAPE", "make_dgl", "make_trainer", "lines", "compare_rows", "tango"]

GRAPH, MODELS = "amazon_computers", ("gcn", "gat")
SHAPE: Mapping[str, Mapping[str, Any]] = {"gcn": {"layers": 3, "dropout": 0.3}, "gat": {"layers": 2, "dropout": 0.3}}
HIDDEN, LR = 256, 0.01
SHAPED = "{graph}, {model} {layers} x {hidden}"
EPOCHS, EVERY = 200, 5
"""Epochs of a training, enough for both models to converge, and epochs between evaluations."""

FLOAT32, DGL, EXACT = "float32", "DGL", "EXACT, 8 bits"
CODES: Mapping[str, dict[str, Any]] = {"int8": {}, "int8, scale by tensor": {"scale": "tensor"}}
"""Timed lines: one scale per row, and the paper's one scale per tensor."""
ABLATED: Mapping[str, dict[str, Any]] = {
    "Test1, scale by tensor, the layer before the loss on codes too": {"scale": "tensor", "exact_classifier": False},
    "Test2, scale by tensor, rounded to nearest": {"scale": "tensor", "rounding": "nearest"},
}
"""Ablations of TANGO's Fig. 7."""
LOGITS = "int8, scale by tensor, edge logits on codes"
ROUNDED = "int8, scale by tensor, weights rounded to codes after every update"
"""Ablation of section 3.2, which stores weights in float32 (Eqs. 5, 6)."""
GOALS: Mapping[str, Mapping[str, float]] = {
    "gcn": {FLOAT32: 1.1, DGL: 1.5, EXACT: 2.9},
    "gat": {FLOAT32: 1.1, DGL: 2.0, EXACT: 4.1},
}
"""Goal: model -> rival -> least speed-up, of the whole training over float32 and DGL, of the time to accuracy over
EXACT."""


def tango(
    *,
    graph: str | None = None,
    models: Sequence[str] = MODELS,
    epochs: int = EPOCHS,
    seeds: int = 5,
    first_seed: int = 0,
    trainings: str = "runs/bench-tango",
) -> list[dict[str, Any]]:
    """Train every line once per seed, and compare those with codes with the others.

    Args:
        graph: names or paths, separated by semicolons; by default ``amazon_computers``, or ``digits`` if it is missing.
        models: some of ``gcn`` and ``gat``.
        epochs: epochs of each training.
        seeds: trainings of each line.
        first_seed: first of the consecutive seeds.
        trainings: folder of stored trainings; those in it are not repeated.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if a model is unknown, or epochs or seeds are below 1.
    """
    import torch

    from gnnqlab.graph import load
    from gnnqlab.kernels.dense.int8_mm import int8_instructions

    require_among("models", models, sorted(SHAPE), least=1)
    if epochs < 1 or seeds < 1:
        raise ValueError(f"epochs and seeds must be at least 1, got {epochs} and {seeds}")
    rows, threads_text = [], f"{torch.get_num_threads()} thread(s), {int8_instructions()}"
    for source in find_graphs(graph, [GRAPH], between=";"):
        loaded_graph = load(source)
        for model in models:
            makers = lines(model)
            rows += study_rows(
                partial(compare_rows, model=model),
                dict.fromkeys(makers, "vanilla"),  # the name of a contestant chooses its trainer
                case=f"{SHAPED}, dense features, {{epochs}} epochs, {threads_text}, {{seeds}}",
                graphs=[source],
                models=[model],
                workers=1,
                seeds=seeds,
                first_seed=first_seed,
                folder=trainings,
                train=partial(_train, makers, loaded_graph),
                threads_per_worker=torch.get_num_threads(),
                **{**SHAPE[model], "hidden": HIDDEN, "lr": LR, "epochs": epochs, "evaluate_every": EVERY},
            )
    return rows


def _train(makers: Mapping[str, Callable[[Graph, int], Any]], graph: Graph, cell: Cell, folder: Path) -> RunResult:
    return train_here(makers[cell.contestant.name](graph, cell.seed), cell)


def lines(model: str) -> dict[str, Callable[[Graph, int], Any]]:
    """Return line -> function that makes its trainer from a graph and a seed; without DGL if it does not import."""
    trainings: dict[str, Callable[[Graph, int], Any]] = {FLOAT32: _of(model, None)}
    try:
        import dgl  # noqa: F401
    except ImportError as error:
        print(f"bench tango: DGL does not import ({error}), so its rows are omitted", flush=True)
    else:
        trainings[DGL] = lambda graph, seed: make_dgl(graph, model, seed)
    trainings[EXACT] = _of(model, {}, exact=True)
    for name, settings in {**CODES, **ABLATED}.items():
        trainings[name] = _of(model, settings)
    trainings[ROUNDED] = lambda graph, seed: _with_rounded_weights(
        make_trainer(graph, model, {"scale": "tensor"}, seed)
    )
    if model == "gat":
        trainings[LOGITS] = _of(model, {"scale": "tensor", "exact_logits": False})
    return trainings


def _of(model: str, settings: Mapping[str, Any] | None, *, exact: bool = False) -> Callable[[Graph, int], Any]:
    return lambda graph, seed: make_trainer(graph, model, settings, seed, exact=exact)


def make_trainer(
    graph: Graph, model: str, settings: Mapping[str, Any] | None, seed: int, *, exact: bool = False
) -> Any:
    """Return the trainer of a line: float32 without settings, codes or EXACT with them; features are dense."""
    from gnnqlab.compute import ExactActivations, Float32Products, Int8Products
    from gnnqlab.nn import ModelSettings
    from gnnqlab.simulation.whole_graph import exact_trainer

    shape = ModelSettings(name=model, hidden=HIDDEN, **SHAPE[model])
    part = Float32Products() if settings is None else (ExactActivations if exact else Int8Products)(**settings)
    return exact_trainer(graph, shape, seed=seed, lr=LR, products=part.build(), dense=True)


def _with_rounded_weights(trainer: Any) -> Any:
    """Make a trainer round its weight matrices to the nearest 8-bit codes after every update, and return it."""
    update = trainer.optimizer.step

    def step(epoch: int = 0) -> None:
        update(epoch)
        # A symmetric scale per weight matrix; vectors (biases, norms) stay float32.
        for weight in trainer.model.parameters():
            if weight.dim() > 1:
                scale = weight.data.abs().max() / 127
                weight.data.div_(scale).round_().mul_(scale)

    trainer.optimizer.step = step
    return trainer


def make_dgl(graph: Graph, model: str, seed: int) -> Any:
    """Return the trainer of DGL's layers, with the optimizer, the loss and the scores of the others."""
    from benchmarks.kernels.dgl_rival import DglTraining
    from gnnqlab.nn import ModelSettings

    return DglTraining(graph, ModelSettings(name=model, hidden=HIDDEN, **SHAPE[model]), seed=seed, lr=LR)


def compare_rows(case: str, found: Mapping[str, Sequence[RunResult]], *, model: str) -> list[dict[str, Any]]:
    """Return the rows of one graph and model: lines with codes compared with the others, all scores with float32.

    Seconds to accuracy are the mean over the seeds with which both reach it; their number is in the detail.

    Args:
        case: first column.
        found: line -> trainings of the same seeds in the same order, with ``float32``.
        model: model whose goals apply.
    """
    rivals = [name for name in (FLOAT32, DGL, EXACT) if name in found]
    targets = [training.best - MARGIN for training in found[FLOAT32]]
    rows = []
    for name in (name for name in CODES if name in found):
        for rival in rivals:
            seconds, rival_seconds = (mean_of(found[each], "train_s") for each in (name, rival))
            goal = None if rival == EXACT else GOALS[model][rival]
            rows.append(
                row(
                    case,
                    "whole training",
                    seconds,
                    "s",
                    rival,
                    rival_seconds,
                    rival_seconds / seconds,
                    goal,
                    contestant=name,
                )
            )
        for rival in rivals:
            goal = GOALS[model][rival] if rival == EXACT else None
            rows.append(_to_accuracy(case, name, rival, found, targets, goal))
    scores = {name: scores_of(trainings) for name, trainings in found.items()}
    for name in (name for name in found if name != FLOAT32):
        half_width, difference = 100 * half_interval(scores[name]), paired_difference(scores[name], scores[FLOAT32])
        goal = 0.99 if name in CODES else None
        detail = f", ± {half_width:.2f}, {difference}"
        rows.append(score_row(case, name, scores[name], FLOAT32, scores[FLOAT32], goal=goal, detail=detail))
    if DGL in found:
        code_names = [name for name in CODES if name in found]
        rows += [score_row(case, name, scores[name], DGL, scores[DGL], goal=0.99) for name in code_names]
    return rows


def _to_accuracy(
    case: str,
    name: str,
    rival: str,
    trainings: Mapping[str, Sequence[RunResult]],
    targets: Sequence[float],
    goal: float | None,
) -> dict[str, Any]:
    """Compare seconds to the accuracy with a rival's; the row has no value if they reach it with no common seed."""
    pairs = [
        (training.seconds_to(target), rival_training.seconds_to(target))
        for training, rival_training, target in zip(trainings[name], trainings[rival], targets, strict=True)
    ]
    common_pairs = [pair for pair in pairs if not any(map(math.isnan, pair))]
    metric = f"to float32's accuracy less {100 * MARGIN:g} points"
    columns: dict[str, Any] = {"contestant": name, "detail": f" ({len(common_pairs)} of {len(pairs)} seeds, both)"}
    if not common_pairs:
        return row(case, metric, None, "s", rival, None, None, **columns)
    seconds, rival_seconds = (statistics.fmean(each) for each in zip(*common_pairs, strict=True))
    return row(case, metric, seconds, "s", rival, rival_seconds, rival_seconds / seconds, goal, **columns)
