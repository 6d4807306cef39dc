"""Memory by purpose: SAR's peaks compared with Vanilla's, and for every recipe predicted and counted bytes.

Each worker counts its own bytes, see :mod:`gnnqlab.train.records.memory_tracker`; a line is the worst
worker of the last epoch. The partition is random, so that each worker needs rows of nearly all nodes.
Bound for attention: of H_k rows of one owner, Vanilla holds 9 H_k at the peak of three layers and four workers (two
whole halos, and one of gradients); SAR holds ``1 + depth`` times H_k, and an eighth of H_k gradients in flight.

Seconds are from other runs, without counting: SAR and Vanilla interleaved, three of each, comparing the least of each.
Live matrices of 3 layers are counted in this process, see :mod:`gnnqlab.course.experiments.kept_bytes`; so are the
tensors that each layer saves for backward, with the seconds of recomputing them, see :func:`saved_rows_by_layer`.
Every part can be measured separately, for some models or recipes, and its rows merged with stored ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.engine.rows import row
from gnnqlab.systems import make_system

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph import Graph
    from gnnqlab.launch import Run
    from gnnqlab.nn import ModelSettings
    from gnnqlab.systems.system import System

T = TypeVar("T")

__all__ = ["GOALS", "PARTS", "saved_rows_by_layer", "memory", "peaks"]

GOALS = {"graphsage": 2.0, "gat": 4.0}
"""Goal: model -> least factor by which SAR reduces the bytes of halo rows."""
SLOWER = 1.5
"""Goal: largest factor of SAR's seconds per epoch over Vanilla's, over loopback."""
MOST_LIVE = {("gcn", 1, "none"): 9.0, ("gcn", 1, "full"): 5.0}
"""Goal: (model, workers, ``recompute``) -> most live matrices of nodes × hidden at the peak, for 3 layers."""
LIVE = (20_000, 64)
"""Number of nodes, and columns of features and hidden layers, of the graph for live matrices."""
WORKERS = 4
_EPOCHS, _REPEATS = 10, 3
GRAPH = "rmat:12,30"
"""Default graph: every worker needs nearly every row."""
SHAPE: Mapping[str, Any] = {"layers": 3, "hidden": 128}
WITHIN = 0.9
"""Goal: least ratio of the smaller to the larger of predicted and counted bytes."""
PARTS = ("peaks", "seconds", "foreseen", "live", "kept")
"""Parts of the table: SAR's peaks and Vanilla's; their seconds; predictions for every recipe; live matrices; tensors
saved for backward by layer."""


def memory(
    *,
    graph: str | None = None,
    models: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    parts: Sequence[str] = PARTS,
    epochs: int | None = None,
) -> list[dict[str, Any]]:
    """Compare SAR with depth 0 and 1 with Vanilla; predict the memory of recipes; count saved tensors of models.

    Args:
        graph: name or path of the graph of trainings; by default ``GRAPH``.
        models: by default those of ``GOALS`` for SAR, ``gcn`` for predictions, else all.
        systems: recipes whose memory is predicted; by default all.
        parts: some of ``PARTS``.
        epochs: epochs of each run with counted bytes, at least 2.

    Raises:
        ValueError: if there is no such part, model or recipe, or there are fewer epochs.
    """
    from gnnqlab.nn.models.registry import MODELS
    from gnnqlab.systems.registry import SYSTEMS

    for name, names, known in (("parts", parts, PARTS), ("models", models, MODELS), ("systems", systems, SYSTEMS)):
        strange = [each for each in names or () if each not in known]
        if strange:
            raise ValueError(f"{name} must be among {list(known)}, got {strange}")
    if epochs is not None and epochs < 2:
        raise ValueError(f"epochs must be at least 2, the first of which is not counted, got {epochs}")
    source, rows = graph or GRAPH, []
    in_turn = list(GOALS) if models is None else list(models)
    if "peaks" in parts:
        rows += [each for model in in_turn for each in _peaks(model, source, epochs)]
    if "seconds" in parts:
        rows += [each for model in in_turn for each in _time_recomputation(model, source)]
    if "foreseen" in parts:
        recipes = list(SYSTEMS if systems is None else systems)
        rows += [_predicted(name, model, source, epochs) for model in models or ("gcn",) for name in recipes]
    if "live" in parts:
        rows += live_rows(models)
    if "kept" in parts:
        rows += saved_rows(models)
    return rows


def live_rows(models: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return rows of live matrices at the peak by model and ``recompute``; the rival is ``none``."""
    from gnnqlab.compute.recompute import LEVELS
    from gnnqlab.course.experiments.kept_bytes import live_matrices
    from gnnqlab.graph.generate import sbm
    from gnnqlab.nn import ModelSettings
    from gnnqlab.nn.models.registry import MODELS

    nodes, columns = LIVE
    graph, rows = sbm(nodes, 8, 10, features=columns), []
    whole = 0.0
    for model in sorted(MODELS) if models is None else models:
        shape = ModelSettings(name=model, layers=3, hidden=columns)
        for workers, keep in [*((1, keep) for keep in LEVELS), (2, "none"), (2, "selective")]:
            found = live_matrices(graph, shape, keep, workers=workers)
            whole = found if keep == "none" else whole
            most = MOST_LIVE.get((model, workers, keep))
            case = f"{model}, {workers} worker{'s' * (workers > 1)}, {keep}"
            figure = "live matrices at the peak" + (f" (at most {most:g})" if most else "")
            rival, ratio, goal = ("goal", most / found, 1.0) if most else ("none", whole / found, None)
            rows.append(row(case, figure, found, "nodes x hidden", rival, most or whole, ratio, goal))
    return rows


def saved_rows(models: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of :func:`saved_rows_by_layer` for some models, by default for all."""
    from gnnqlab.graph.generate import sbm
    from gnnqlab.nn import ModelSettings
    from gnnqlab.nn.models.registry import MODELS

    nodes, columns = LIVE
    names = sorted(MODELS) if models is None else models
    shapes = [ModelSettings(name=model, layers=3, hidden=columns) for model in names]
    return saved_rows_by_layer(sbm(nodes, 8, 10, features=columns), shapes)


def saved_rows_by_layer(graph: Graph, shapes: list[ModelSettings], *, epochs: int = 5) -> list[dict[str, Any]]:
    """Return rows of the tensors that each layer saves for backward, by kind, and of the cost of recomputing them.

    The unit is a matrix of nodes × hidden, in one process: ``recompute="none"`` compared with ``"selective"`` per
    layer and kind; then all layers together and seconds per epoch (median of interleaved epochs) of
    ``"selective"`` and ``"full"`` compared with ``"none"``.
    """
    from gnnqlab.compute.recompute import LEVELS
    from gnnqlab.course.experiments.kept_by_layer import recompute_seconds, saved_bytes_by_layer

    rows = []
    for shape in shapes:
        unit, matrix = "nodes x hidden", 4 * graph.num_nodes * shape.hidden
        saved = {keep: saved_bytes_by_layer(graph, shape, keep) for keep in LEVELS}
        for (layer, kind), count in saved["none"].items():
            case, less = f"{shape.name}, layer {layer}", saved["selective"].get((layer, kind), 0)
            rows.append(row(case, f"kept: {kind}", count / matrix, unit, "selective", less / matrix, None))
        whole = {keep: sum(found.values()) / matrix for keep, found in saved.items()}
        seconds = recompute_seconds(graph, shape, epochs=epochs)
        spent = {keep: median(of) for keep, of in seconds.items()}
        for keep in LEVELS[1:]:
            case, range_ = f"{shape.name}, {keep}", f"{min(seconds[keep]):.3g} to {max(seconds[keep]):.3g} s"
            ratio = whole["none"] / whole[keep] if whole[keep] else None
            rows.append(row(case, "kept by all layers", whole[keep], unit, "none", whole["none"], ratio))
            ratio = spent["none"] / spent[keep]
            rows.append(row(case, "epoch", spent[keep], "s", "none", spent["none"], ratio, detail=f" ({range_})"))
    return rows


def peaks(found: DataFrame) -> dict[str, float]:
    """Return megabytes by purpose, and of ``all purposes``, of the worst worker in the last counted epoch."""
    last = found[found["epoch"] == found["epoch"].max()]
    by_purpose = {str(name): float(count) / 1e6 for name, count in last.groupby("purpose")["peak_bytes"].max().items()}
    return {**by_purpose, "all purposes": float(last.groupby("rank")["bytes"].sum().max()) / 1e6}


def _peaks(model: str, graph: str, epochs: int | None) -> list[dict[str, Any]]:
    """Return the rows of SAR's bytes compared with Vanilla's."""
    whole, rows = _measured_peaks("vanilla", {}, model, graph, epochs), []
    for depth in (0, 1):
        ours, case = (
            _measured_peaks("sar", {"depth": depth}, model, graph, epochs),
            _case(graph, model, f"depth {depth}"),
        )
        for figure, wanted in (("halo", GOALS.get(model)), ("all purposes", None)):
            value, rival = ours[figure], whole[figure]
            ratio = rival / value if value else None
            rows.append(row(case, f"{figure} at the peak", value, "MB", "vanilla", rival, ratio, wanted))
    return rows


def _predicted(system: str, model: str, graph: str, epochs: int | None) -> dict[str, Any]:
    """Return the row of a recipe's predicted memory, compared with that of launched workers."""
    from gnnqlab.tune.memory import predict_memory

    def predicted_and_counted(run: Run) -> tuple[float, float]:
        config = run.config
        found = predict_memory(config.graph, config.model, config.system, workers=config.workers, settings=config.train)
        return sum(found.values()) / 1e6, peaks(run.memory)["all purposes"]

    foreseen, counted = _run(make_system(system), model, graph, epochs or 2, predicted_and_counted, memory_every=1)
    ratio = min(foreseen, counted) / max(foreseen, counted)
    case = _case(graph, model, system)
    return row(case, "all purposes, foreseen", foreseen, "MB", "counted", counted, ratio, WITHIN)


def _time_recomputation(model: str, graph: str) -> list[dict[str, Any]]:
    """Return rows of SAR's seconds compared with Vanilla's: mean of a run's epochs, minimum over runs."""
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "vanilla": ("vanilla", {}),
        **{f"depth {depth}": ("sar", {"depth": depth}) for depth in (0, 1)},
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(_REPEATS):
        for way, (system, settings) in ways.items():
            seconds[way].append(_run(_at_random(system, settings), model, graph, _EPOCHS, _epoch_s, memory_every=0))
    rival = min(seconds["vanilla"])
    return [
        row(
            _case(graph, model, way),
            "epoch over loopback",
            min(spent),
            "s",
            "vanilla",
            rival,
            rival / min(spent),
            1 / SLOWER,
            detail=f" ({min(spent):.3g} to {max(spent):.3g} s; vanilla to {max(seconds['vanilla']):.3g} s)",
        )
        for way, spent in seconds.items()
        if way != "vanilla"
    ]


def _epoch_s(run: Run) -> float:
    """Return the mean seconds of an epoch on the slowest worker, without the first two epochs."""
    slowest = run.records.groupby("epoch")["epoch_s"].max()
    return float(slowest[slowest.index >= 2].mean())


def _measured_peaks(
    system: str, settings: dict[str, Any], model: str, graph: str, epochs: int | None
) -> dict[str, float]:
    return _run(_at_random(system, settings), model, graph, epochs or 2, lambda run: peaks(run.memory), memory_every=1)


def _at_random(system: str, settings: dict[str, Any]) -> System:
    """Return a recipe with a random partition."""
    from gnnqlab.partition import Random

    return replace(make_system(system, **settings), partition=Random())


def _case(graph: str, model: str, what: str) -> str:
    return f"{Path(graph).stem}, {model}, {what}"


def _run(system: System, model: str, graph: str, epochs: int, read: Callable[[Run], T], *, memory_every: int) -> T:
    """Train and return the result of ``read(run)``, called before the run's folder is deleted."""
    from gnnqlab.launch.start import launch

    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = launch(
            graph,
            model=model,
            system=system,
            workers=WORKERS,
            epochs=epochs,
            **SHAPE,
            memory_every=memory_every,
            timeline_every=0,
            out=Path(folder),
            wait=True,
        )
        return read(run)
