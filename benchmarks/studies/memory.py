"""Live tensors by purpose, SAR's beside Vanilla's: halo rows at their peak, and all purposes together; and for every
recipe what a trial foresees beside what launched workers count.

Bytes are counted by each worker itself, see :mod:`gnnqlab.train.records.memory_tracker`; a line is the worst worker of the last
epoch. The graph is cut at random, so that each worker needs rows of nearly all nodes. What bounds attention's: of H_k
rows of one owner, Vanilla holds 9 H_k at the peak of three layers and four workers (two whole halos, and one of
gradients); SAR ``1 + depth`` times H_k, and an eighth of H_k gradients on their way to the places of their rows.
Seconds are those of other runs, in which nothing is counted: SAR and Vanilla in turn, three of each, the least of each
beside the other's. Live matrices of 3 layers are counted in this process, see
:mod:`gnnqlab.course.experiments.kept_bytes`; so is what each layer keeps for the backward pass, and seconds beside
what is made again, see :func:`kept_layers`. Every part can be measured by itself, for some models or
recipes, and its rows joined to those kept.
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

__all__ = ["GOALS", "PARTS", "kept_layers", "memory", "peaks"]

GOALS = {"graphsage": 2.0, "gat": 4.0}
"""How many times fewer bytes of halo rows SAR is to hold than Vanilla, by model."""
SLOWER = 1.5
"""How many times Vanilla's seconds an epoch of SAR may take, over loopback."""
MOST_LIVE = {("gcn", 1, "all"): 9.0, ("gcn", 1, "nothing"): 5.0}
"""The most matrices of nodes × hidden that 3 layers may hold at the peak of an epoch."""
LIVE = (20_000, 64)
"""Nodes, and columns of features and hidden rows, of the graph on which they are counted."""
WORKERS = 4
_EPOCHS, _REPEATS = 10, 3
GRAPH = "rmat:12,30"
"""By default: nearly every row is needed everywhere."""
SHAPE: Mapping[str, Any] = {"layers": 3, "hidden": 128}
WITHIN = 0.9
"""How near what is foreseen is to come to what is counted: the smaller of both over the larger, at least."""
PARTS = ("peaks", "seconds", "foreseen", "live", "kept")
"""SAR's peaks beside Vanilla's; its seconds; what is foreseen of every recipe; live matrices; what layers keep."""


def memory(
    *,
    graph: str | None = None,
    models: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    parts: Sequence[str] = PARTS,
    epochs: int | None = None,
) -> list[dict[str, Any]]:
    """Return rows of SAR with depth 0 and 1 beside Vanilla; of recipes what is foreseen; of models what they keep.

    Args:
        graph: of trainings, its name or path; by default ``GRAPH``.
        models: by default of SAR those of ``GOALS``, of what is foreseen ``gcn``, else all.
        systems: recipes whose memory is foreseen; by default all.
        parts: some of ``PARTS``.
        epochs: of each run in which bytes are counted, at least 2.

    Raises:
        ValueError: if there is no such part, model or recipe, or there are fewer epochs.
    """
    from gnnqlab.nn.models.registry import MODELS
    from gnnqlab.systems.system import SYSTEMS

    for name, asked, known in (("parts", parts, PARTS), ("models", models, MODELS), ("systems", systems, SYSTEMS)):
        strange = [each for each in asked or () if each not in known]
        if strange:
            raise ValueError(f"{name} must be among {list(known)}, got {strange}")
    if epochs is not None and epochs < 2:
        raise ValueError(f"epochs must be at least 2, the first of which is not counted, got {epochs}")
    source, rows = graph or GRAPH, []
    in_turn = list(GOALS) if models is None else list(models)
    if "peaks" in parts:
        rows += [each for model in in_turn for each in _peaks(model, source, epochs)]
    if "seconds" in parts:
        rows += [each for model in in_turn for each in _timed(model, source)]
    if "foreseen" in parts:
        recipes = list(SYSTEMS if systems is None else systems)
        rows += [_foreseen(name, model, source, epochs) for model in models or ("gcn",) for name in recipes]
    if "live" in parts:
        rows += live(models)
    if "kept" in parts:
        rows += kept(models)
    return rows


def live(models: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return rows of live matrices at the peak by model and by what is kept; the rival is what ``all`` takes."""
    from gnnqlab.compute.recompute import KEEPS
    from gnnqlab.course.experiments.kept_bytes import live_matrices
    from gnnqlab.graph.generate import sbm
    from gnnqlab.nn import ModelSettings
    from gnnqlab.nn.models.registry import MODELS

    nodes, columns = LIVE
    graph, rows = sbm(nodes, 8, 10, features=columns), []
    whole = 0.0
    for model in sorted(MODELS) if models is None else models:
        shape = ModelSettings(name=model, layers=3, hidden=columns)
        for workers, keep in [*((1, keep) for keep in KEEPS), (2, "all"), (2, "sums")]:
            found = live_matrices(graph, shape, keep, workers=workers)
            whole = found if keep == "all" else whole
            most = MOST_LIVE.get((model, workers, keep))
            case = f"{model}, {workers} worker{'s' * (workers > 1)}, {keep}"
            figure = "live matrices at the peak" + (f" (at most {most:g})" if most else "")
            rival, ratio, goal = ("goal", most / found, 1.0) if most else ("all", whole / found, None)
            rows.append(row(case, figure, found, "nodes x hidden", rival, most or whole, ratio, goal))
    return rows


def kept(models: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of :func:`kept_layers` for models, by default for all."""
    from gnnqlab.graph.generate import sbm
    from gnnqlab.nn import ModelSettings
    from gnnqlab.nn.models.registry import MODELS

    nodes, columns = LIVE
    names = sorted(MODELS) if models is None else models
    shapes = [ModelSettings(name=model, layers=3, hidden=columns) for model in names]
    return kept_layers(sbm(nodes, 8, 10, features=columns), shapes)


def kept_layers(graph: Graph, shapes: list[ModelSettings], *, epochs: int = 5) -> list[dict[str, Any]]:
    """Return the rows of what each layer keeps for the backward pass, by kind, and of what making it again costs.

    Matrices of nodes × hidden, of one process: under ``keep_for_backward="all"``, beside what ``"sums"`` keeps of the
    same; then all layers together and seconds of an epoch, the median of epochs that take turns, ``"sums"`` and
    ``"nothing"`` beside ``"all"`` of the same run.
    """
    from gnnqlab.compute.recompute import KEEPS
    from gnnqlab.course.experiments.kept_by_layer import kept_by_layer, remade_seconds

    rows = []
    for shape in shapes:
        unit, matrix = "nodes x hidden", 4 * graph.num_nodes * shape.hidden
        kept = {keep: kept_by_layer(graph, shape, keep) for keep in KEEPS}
        for (layer, kind), count in kept["all"].items():
            case, less = f"{shape.name}, layer {layer}", kept["sums"].get((layer, kind), 0)
            rows.append(row(case, f"kept: {kind}", count / matrix, unit, "sums", less / matrix, None))
        whole = {keep: sum(found.values()) / matrix for keep, found in kept.items()}
        seconds = remade_seconds(graph, shape, epochs=epochs)
        spent = {keep: median(of) for keep, of in seconds.items()}
        for keep in KEEPS[1:]:
            case, range_ = f"{shape.name}, {keep}", f"{min(seconds[keep]):.3g} to {max(seconds[keep]):.3g} s"
            ratio = whole["all"] / whole[keep] if whole[keep] else None
            rows.append(row(case, "kept by all layers", whole[keep], unit, "all", whole["all"], ratio))
            ratio = spent["all"] / spent[keep]
            rows.append(row(case, "epoch", spent[keep], "s", "all", spent["all"], ratio, detail=f" ({range_})"))
    return rows


def peaks(found: DataFrame) -> dict[str, float]:
    """Return megabytes by purpose, and ``all purposes`` together, of the worst worker in the last epoch counted."""
    last = found[found["epoch"] == found["epoch"].max()]
    by_purpose = {str(name): float(count) / 1e6 for name, count in last.groupby("purpose")["peak_bytes"].max().items()}
    return {**by_purpose, "all purposes": float(last.groupby("rank")["bytes"].sum().max()) / 1e6}


def _peaks(model: str, graph: str, epochs: int | None) -> list[dict[str, Any]]:
    """Rows of SAR's bytes beside Vanilla's."""
    whole, rows = _counted("vanilla", {}, model, graph, epochs), []
    for depth in (0, 1):
        ours, case = _counted("sar", {"depth": depth}, model, graph, epochs), _case(graph, model, f"depth {depth}")
        for figure, wanted in (("halo", GOALS.get(model)), ("all purposes", None)):
            value, rival = ours[figure], whole[figure]
            ratio = rival / value if value else None
            rows.append(row(case, f"{figure} at the peak", value, "MB", "vanilla", rival, ratio, wanted))
    return rows


def _foreseen(system: str, model: str, graph: str, epochs: int | None) -> dict[str, Any]:
    """Row of what a trial foresees of a recipe on its own cut, beside what launched workers count."""
    from gnnqlab.tune.memory import foreseen_memory

    def look(run: Run) -> tuple[float, float]:
        config = run.config
        found = foreseen_memory(
            config.graph, config.model, config.system, workers=config.workers, settings=config.train
        )
        return sum(found.values()) / 1e6, peaks(run.memory)["all purposes"]

    foreseen, counted = _run(make_system(system), model, graph, epochs or 2, look, memory_every=1)
    ratio = min(foreseen, counted) / max(foreseen, counted)
    case = _case(graph, model, system)
    return row(case, "all purposes, foreseen", foreseen, "MB", "counted", counted, ratio, WITHIN)


def _timed(model: str, graph: str) -> list[dict[str, Any]]:
    """Rows of SAR's seconds beside Vanilla's: epochs but for the first two, the mean of a run, the least of runs."""
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
    """Mean seconds of an epoch's slowest worker, the first two left out."""
    slowest = run.records.groupby("epoch")["epoch_s"].max()
    return float(slowest[slowest.index >= 2].mean())


def _counted(system: str, settings: dict[str, Any], model: str, graph: str, epochs: int | None) -> dict[str, float]:
    return _run(_at_random(system, settings), model, graph, epochs or 2, lambda run: peaks(run.memory), memory_every=1)


def _at_random(system: str, settings: dict[str, Any]) -> System:
    """A recipe on a random cut."""
    from gnnqlab.partition import Random

    return replace(make_system(system, **settings), partition=Random())


def _case(graph: str, model: str, what: str) -> str:
    return f"{Path(graph).stem}, {model}, {what}"


def _run(system: System, model: str, graph: str, epochs: int, look: Callable[[Run], T], *, memory_every: int) -> T:
    """Train and return what is looked at before the run's folder goes."""
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
        return look(run)
