"""Memory by purpose: SAR's peaks compared with Vanilla's, for every recipe predicted and counted bytes, and the traffic
and memory of a worker of feature parallelism.

Each worker counts its own bytes, see :mod:`gnnqlab.train.records.memory_tracker`; a line is the worst
worker of the last epoch. The partition is random, so that each worker needs rows of nearly all nodes.
Bound for attention: of H_k rows of one owner, Vanilla holds 9 H_k at the peak of three layers and four workers (two
whole halos, and one of gradients); SAR holds ``1 + depth`` times H_k, and an eighth of H_k gradients in flight.

Seconds are from other runs, without counting: SAR and Vanilla interleaved, three of each, comparing the least of each.
Live matrices of 3 layers are counted in this process, see :mod:`gnnqlab.course.experiments.kept_bytes`; so are the
tensors that each layer saves for backward, with the seconds of recomputing them, see :func:`saved_rows_by_layer`.
Traffic is counted in this process too: bytes of an epoch over the number of workers, of feature parallelism compared
with its formula, and with Vanilla on METIS; a worker's memory is the one of a trial.
Every part can be measured separately, for some models or recipes, and its rows merged with stored ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.engine.rows import require_among, row
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
MAX_LIVE = {("gcn", 1, "none"): 9.0, ("gcn", 1, "full"): 5.0}
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
PARTS = ("peaks", "seconds", "foreseen", "live", "kept", "workers")
"""Parts of the table: SAR's peaks and Vanilla's; their seconds; predictions for every recipe; live matrices; tensors
saved for backward by layer; traffic and memory by number of workers."""
BY_WORKERS = (2, 4, 8)
"""Numbers of workers of the part ``workers``."""
BYTES_WITHIN = 0.95
"""Goal: least ratio of the smaller to the larger of bytes by formula and counted bytes."""


def memory(
    *,
    graph: str | None = None,
    models: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    parts: Sequence[str] = PARTS,
    epochs: int | None = None,
) -> list[dict[str, Any]]:
    """Compare SAR and feature parallelism with Vanilla; predict the memory of recipes; count saved tensors of models.

    Args:
        graph: name or path of the graph of trainings; by default ``GRAPH``.
        models: by default those of ``GOALS`` for SAR, ``gcn`` for predictions and by workers, else all.
        systems: recipes whose memory is predicted; by default all.
        parts: some of ``PARTS``.
        epochs: epochs of each run with counted bytes, at least 2.

    Raises:
        ValueError: if there is no such part, model or recipe, or there are fewer epochs.
    """
    from gnnqlab.nn.models.registry import MODELS
    from gnnqlab.systems.registry import SYSTEMS

    for name, names, choices in (("parts", parts, PARTS), ("models", models, MODELS), ("systems", systems, SYSTEMS)):
        require_among(name, names or (), choices)
    if epochs is not None and epochs < 2:
        raise ValueError(f"epochs must be at least 2, the first of which is not counted, got {epochs}")
    source, rows = graph or GRAPH, []
    sar_models = list(GOALS) if models is None else list(models)
    if "peaks" in parts:
        rows += [each for model in sar_models for each in _peaks(model, source, epochs)]
    if "seconds" in parts:
        rows += [each for model in sar_models for each in _time_recomputation(model, source)]
    if "foreseen" in parts:
        recipes = list(SYSTEMS if systems is None else systems)
        rows += [_predicted(name, model, source, epochs) for model in models or ("gcn",) for name in recipes]
    if "live" in parts:
        rows += live_rows(models)
    if "kept" in parts:
        rows += saved_rows(models)
    if "workers" in parts:
        rows += [each for model in models or ("gcn",) for each in rows_by_workers(model, source)]
    return rows


def rows_by_workers(model: str, graph: str, *, workers: Sequence[int] = BY_WORKERS) -> list[dict[str, Any]]:
    """Return the bytes that a worker of feature parallelism sends in an epoch, and its memory, by number of workers.

    Bytes are means over workers, counted in one epoch of workers in this process, with those of the formula and of
    Vanilla on METIS as rivals. Memory is that of the worker that needs the most.

    Args:
        model: name of a model, in the shape of ``SHAPE``.
        graph: name or path.
        workers: numbers of workers.
    """
    from gnnqlab.exchange.traffic_model import PartitionSizes
    from gnnqlab.graph.sources import load
    from gnnqlab.nn import ModelSettings
    from gnnqlab.tune.memory import predict_memory
    from gnnqlab.tune.predicted_volume import epoch_bytes

    loaded_graph, shape, rows = load(graph), ModelSettings(name=model, **SHAPE), []
    own, vanilla = make_system("feature-parallel"), make_system("vanilla")
    facts = {"features": loaded_graph.num_features, "classes": loaded_graph.num_classes}
    for count in workers:
        sent, rival_sent = (_counted_bytes(loaded_graph, system, shape, count) / count for system in (own, vanilla))
        sizes = PartitionSizes(num_nodes=loaded_graph.num_nodes, workers=count)
        formula = epoch_bytes(own, shape, sizes, **facts) / count
        memory_mb, rival_mb = (
            sum(predict_memory(loaded_graph, shape, system, workers=count).values()) / 1e6 for system in (own, vanilla)
        )
        ratio = min(sent, formula) / max(sent, formula)
        case = _case(graph, model, f"feature-parallel, {count} workers")
        rows += [
            row(case, "sent by a worker", sent / 1e6, "MB", "formula", formula / 1e6, ratio, BYTES_WITHIN),
            row(case, "sent by a worker", sent / 1e6, "MB", "vanilla", rival_sent / 1e6, rival_sent / sent),
            row(case, "memory of a worker", memory_mb, "MB", "vanilla", rival_mb, rival_mb / memory_mb),
        ]
    return rows


def _counted_bytes(graph: Graph, system: System, shape: ModelSettings, workers: int) -> int:
    """Return the bytes of messages by all workers in one epoch, counted by their channels."""
    from gnnqlab.partition.parts import cut_graph
    from gnnqlab.simulation.threaded_workers import ThreadedWorkers
    from gnnqlab.train.config.run_config import TrainSettings

    threads = ThreadedWorkers(graph, cut_graph(graph, system.partition, workers), system, shape, TrainSettings())
    threads.step(0)
    exchanges = [trainer.exchange for trainer in threads.trainers if trainer.exchange is not None]
    channels = [channel for exchange in exchanges for channel in exchange.channels]
    return sum(channel.bytes_payload + channel.bytes_params for channel in channels)


def live_rows(models: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return rows of live matrices at the peak by model and ``recompute``; the rival is ``none``."""
    from gnnqlab.compute.recompute import LEVELS
    from gnnqlab.course.experiments.kept_bytes import live_matrices
    from gnnqlab.graph.generate import sbm
    from gnnqlab.nn import ModelSettings
    from gnnqlab.nn.models.registry import MODELS

    nodes, columns = LIVE
    graph, rows = sbm(nodes, 8, 10, features=columns), []
    base_count = 0.0
    for model in sorted(MODELS) if models is None else models:
        shape = ModelSettings(name=model, layers=3, hidden=columns)
        for workers, level in [*((1, level) for level in LEVELS), (2, "none"), (2, "selective")]:
            count = live_matrices(graph, shape, level, workers=workers)
            base_count = count if level == "none" else base_count
            limit = MAX_LIVE.get((model, workers, level))
            case = f"{model}, {workers} worker{'s' * (workers > 1)}, {level}"
            figure = "live matrices at the peak" + (f" (at most {limit:g})" if limit else "")
            rival, ratio, goal = ("goal", limit / count, 1.0) if limit else ("none", base_count / count, None)
            rows.append(row(case, figure, count, "nodes x hidden", rival, limit or base_count, ratio, goal))
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
        saved_bytes = {level: saved_bytes_by_layer(graph, shape, level) for level in LEVELS}
        for (layer, kind), count in saved_bytes["none"].items():
            case, selective_bytes = f"{shape.name}, layer {layer}", saved_bytes["selective"].get((layer, kind), 0)
            rows.append(row(case, f"kept: {kind}", count / matrix, unit, "selective", selective_bytes / matrix, None))
        totals = {level: sum(counts.values()) / matrix for level, counts in saved_bytes.items()}
        seconds = recompute_seconds(graph, shape, epochs=epochs)
        median_s = {level: median(values) for level, values in seconds.items()}
        for level in LEVELS[1:]:
            case, range_ = f"{shape.name}, {level}", f"{min(seconds[level]):.3g} to {max(seconds[level]):.3g} s"
            ratio = totals["none"] / totals[level] if totals[level] else None
            rows.append(row(case, "kept by all layers", totals[level], unit, "none", totals["none"], ratio))
            ratio = median_s["none"] / median_s[level]
            rows.append(
                row(case, "epoch", median_s[level], "s", "none", median_s["none"], ratio, detail=f" ({range_})")
            )
    return rows


def peaks(found: DataFrame) -> dict[str, float]:
    """Return megabytes by purpose, and of ``all purposes``, of the worst worker in the last counted epoch."""
    last_records = found[found["epoch"] == found["epoch"].max()]
    peaks_by_purpose = {
        str(name): float(count) / 1e6 for name, count in last_records.groupby("purpose")["peak_bytes"].max().items()
    }
    return {**peaks_by_purpose, "all purposes": float(last_records.groupby("rank")["bytes"].sum().max()) / 1e6}


def _peaks(model: str, graph: str, epochs: int | None) -> list[dict[str, Any]]:
    """Return the rows of SAR's bytes compared with Vanilla's."""
    vanilla_peaks, rows = _measured_peaks("vanilla", {}, model, graph, epochs), []
    for depth in (0, 1):
        sar_peaks, case = (
            _measured_peaks("sar", {"depth": depth}, model, graph, epochs),
            _case(graph, model, f"depth {depth}"),
        )
        for figure, goal in (("halo", GOALS.get(model)), ("all purposes", None)):
            value, rival = sar_peaks[figure], vanilla_peaks[figure]
            ratio = rival / value if value else None
            rows.append(row(case, f"{figure} at the peak", value, "MB", "vanilla", rival, ratio, goal))
    return rows


def _predicted(system: str, model: str, graph: str, epochs: int | None) -> dict[str, Any]:
    """Return the row of a recipe's predicted memory, compared with that of launched workers."""
    from gnnqlab.tune.memory import predict_memory

    def predicted_and_counted(run: Run) -> tuple[float, float]:
        config = run.config
        prediction = predict_memory(
            config.graph, config.model, config.system, workers=config.workers, settings=config.train
        )
        return sum(prediction.values()) / 1e6, peaks(run.memory)["all purposes"]

    predicted_mb, counted_mb = _run(
        make_system(system), model, graph, epochs or 2, predicted_and_counted, memory_every=1
    )
    ratio = min(predicted_mb, counted_mb) / max(predicted_mb, counted_mb)
    case = _case(graph, model, system)
    return row(case, "all purposes, foreseen", predicted_mb, "MB", "counted", counted_mb, ratio, WITHIN)


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
            min(way_seconds),
            "s",
            "vanilla",
            rival,
            rival / min(way_seconds),
            1 / SLOWER,
            detail=f" ({min(way_seconds):.3g} to {max(way_seconds):.3g} s; vanilla to {max(seconds['vanilla']):.3g} s)",
        )
        for way, way_seconds in seconds.items()
        if way != "vanilla"
    ]


def _epoch_s(run: Run) -> float:
    """Return the mean seconds of an epoch on the slowest worker, without the first two epochs."""
    slowest_s = run.records.groupby("epoch")["epoch_s"].max()
    return float(slowest_s[slowest_s.index >= 2].mean())


def _measured_peaks(
    system: str, settings: dict[str, Any], model: str, graph: str, epochs: int | None
) -> dict[str, float]:
    return _run(_at_random(system, settings), model, graph, epochs or 2, lambda run: peaks(run.memory), memory_every=1)


def _at_random(system: str, settings: dict[str, Any]) -> System:
    """Return a recipe with a random partition."""
    from gnnqlab.partition import Random

    return replace(make_system(system, **settings), partition=Random())


def _case(graph: str, model: str, words: str) -> str:
    return f"{Path(graph).stem}, {model}, {words}"


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
