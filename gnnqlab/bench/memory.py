"""Live tensors by purpose, SAR's beside Vanilla's: halo rows at their peak, and all purposes together; and for every
recipe what a trial foresees beside what launched workers count.

Bytes are counted by each worker itself, see :mod:`gnnqlab.train.ledger`; a line is the worst worker of the last epoch.
The graph is cut at random, so that each worker needs rows of nearly all nodes. What bounds attention's: of H_k rows of
one owner, Vanilla holds 9 H_k at the peak of three layers and four workers (two whole halos, and one of gradients); SAR
``1 + depth`` times H_k, and an eighth of H_k gradients on their way to the places of their rows. Seconds are those of
other runs, in which nothing is counted: SAR and Vanilla in turn, three of each, the least of each beside the other's.
Live matrices of 3 layers are counted in this process, see :mod:`gnnqlab.measure.live_matrices`; so is what each layer
keeps for the backward pass, and seconds beside what is made again, see :mod:`gnnqlab.bench.kept_layers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from gnnqlab.bench.kept_layers import kept_layers
from gnnqlab.bench.rows import row

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.launch import Run

T = TypeVar("T")

__all__ = ["GOALS", "memory", "peaks"]

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
RECIPES = (
    "vanilla", "fixed-bits", "random-bits", "adaqp", "sylvie", "pipegcn", "bns-gcn", "cdfgnn", "varco", "cagnet",
    "sancus", "sancus-q", "sar",
)  # fmt: skip
"""Systems whose memory is foreseen and counted, with GCN on their own cuts."""


def memory(*, graph: str | None = None, epochs: int | None = None) -> list[dict[str, Any]]:
    """Return rows of SAR with depth 0 and 1 beside Vanilla, for both models; of all recipes what is foreseen.

    Args:
        graph: name or path; by default a generated one with a heavy halo.
        epochs: of each run, at least 2.
    """
    rows = []
    for model, goal in GOALS.items():
        whole = _counted("vanilla", {}, model, graph, epochs)
        for depth in (0, 1):
            ours, case = _counted("sar", {"depth": depth}, model, graph, epochs), f"{model}, depth {depth}"
            for figure, wanted in (("halo", goal), ("all purposes", None)):
                value, rival = ours[figure], whole[figure]
                ratio = rival / value if value else None
                rows.append(row(case, f"{figure} at the peak", value, "MB", "vanilla", rival, ratio, wanted))
        rows += _timed(model, graph)
    return rows + [_foreseen(name, graph, epochs) for name in RECIPES] + live() + kept()


def live() -> list[dict[str, Any]]:
    """Return rows of live matrices at the peak by model and by what is kept; the rival is what ``all`` takes."""
    from gnnqlab.compute.remade import KEEPS
    from gnnqlab.graph.generate import sbm
    from gnnqlab.measure.live_matrices import live_matrices
    from gnnqlab.nn import ModelSettings
    from gnnqlab.nn.models.registry import MODELS

    nodes, columns = LIVE
    graph, rows = sbm(nodes, 8, 10, features=columns), []
    whole = 0.0
    for model in sorted(MODELS):
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


def kept() -> list[dict[str, Any]]:
    """Return rows of what each layer of every model keeps for the backward pass, and what making it again costs."""
    from gnnqlab.graph.generate import sbm
    from gnnqlab.nn import ModelSettings
    from gnnqlab.nn.models.registry import MODELS

    nodes, columns = LIVE
    shapes = [ModelSettings(name=model, layers=3, hidden=columns) for model in sorted(MODELS)]
    return kept_layers(sbm(nodes, 8, 10, features=columns), shapes)


def peaks(found: DataFrame) -> dict[str, float]:
    """Return megabytes by purpose, and ``all purposes`` together, of the worst worker in the last epoch counted."""
    last = found[found["epoch"] == found["epoch"].max()]
    by_purpose = {str(name): float(count) / 1e6 for name, count in last.groupby("purpose")["peak_bytes"].max().items()}
    return {**by_purpose, "all purposes": float(last.groupby("rank")["bytes"].sum().max()) / 1e6}


def _foreseen(system: str, graph: str | None, epochs: int | None) -> dict[str, Any]:
    from gnnqlab.launch.start import launch
    from gnnqlab.systems import make_system
    from gnnqlab.tune.memory import foreseen_memory

    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = launch(
            graph or "rmat:12,30",
            system=make_system(system),
            workers=WORKERS,
            epochs=epochs or 2,
            layers=3,
            hidden=128,
            memory_every=1,
            timeline_every=0,
            out=Path(folder),
            wait=True,
        )
        counted = peaks(run.memory)["all purposes"]
        config = run.config
        found = foreseen_memory(
            config.graph, config.model, config.system, workers=config.workers, settings=config.train
        )
    foreseen = sum(found.values()) / 1e6
    return row(f"gcn, {system}", "all purposes, foreseen", foreseen, "MB", "counted", counted, foreseen / counted, None)


def _timed(model: str, graph: str | None) -> list[dict[str, Any]]:
    """Rows of SAR's seconds beside Vanilla's: epochs but for the first two, the mean of a run, the least of runs."""
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "vanilla": ("vanilla", {}),
        **{f"depth {depth}": ("sar", {"depth": depth}) for depth in (0, 1)},
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(_REPEATS):
        for way, (system, settings) in ways.items():
            seconds[way].append(_run(system, settings, model, graph, _EPOCHS, _epoch_s, memory_every=0))
    rival = min(seconds["vanilla"])
    return [
        row(
            f"{model}, {way}",
            f"epoch over loopback ({min(spent):.3g} to {max(spent):.3g} s; vanilla to {max(seconds['vanilla']):.3g} s)",
            min(spent),
            "s",
            "vanilla",
            rival,
            rival / min(spent),
            1 / SLOWER,
        )
        for way, spent in seconds.items()
        if way != "vanilla"
    ]


def _epoch_s(run: Run) -> float:
    """Mean seconds of an epoch's slowest worker, the first two left out."""
    slowest = run.records.groupby("epoch")["epoch_s"].max()
    return float(slowest[slowest.index >= 2].mean())


def _counted(
    system: str, settings: dict[str, Any], model: str, graph: str | None, epochs: int | None
) -> dict[str, float]:
    return _run(system, settings, model, graph, epochs or 2, lambda run: peaks(run.memory), memory_every=1)


def _run(
    system: str,
    settings: dict[str, Any],
    model: str,
    graph: str | None,
    epochs: int,
    look: Callable[[Run], T],
    *,
    memory_every: int,
) -> T:
    """Train on a random cut and return what is looked at before the run's folder goes."""
    from gnnqlab.launch.start import launch
    from gnnqlab.partition import Random
    from gnnqlab.systems import make_system

    recipe = replace(make_system(system, **settings), partition=Random())
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = launch(
            graph or "rmat:12,30",
            model=model,
            system=recipe,
            workers=WORKERS,
            epochs=epochs,
            layers=3,
            hidden=128,
            memory_every=memory_every,
            timeline_every=0,
            out=Path(folder),
            wait=True,
        )
        return look(run)
