"""Live tensors by purpose, SAR's beside Vanilla's: halo rows at their peak, and all purposes together; and for every
recipe what a trial foresees beside what launched workers count.

Bytes are counted by each worker itself, see :mod:`gnnqlab.train.ledger`; a line is the worst worker of the last epoch.
The graph is cut at random, so that each worker needs rows of nearly all nodes. No time is measured.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gnnqlab.bench.rows import row

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["GOALS", "memory", "peaks"]

GOALS = {"graphsage": 2.0, "gat": 4.0}
"""How many times fewer bytes of halo rows SAR is to hold than Vanilla, by model."""
WORKERS = 4
RECIPES = (
    "vanilla", "fixed-bits", "random-bits", "adaqp", "sylvie", "pipegcn", "bns-gcn", "cdfgnn", "varco", "cagnet",
    "sancus", "sancus-q", "sar",
)  # fmt: skip
"""Systems whose memory is foreseen and counted, with GCN on their own cuts."""


def memory(*, graph: str | None = None, epochs: int | None = None) -> list[dict[str, Any]]:
    """Return rows of SAR with depth 0 and 1 beside Vanilla, for both models, and of what is foreseen for all recipes.

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
    return rows + [_foreseen(name, graph, epochs) for name in RECIPES]


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


def _counted(
    system: str, settings: dict[str, Any], model: str, graph: str | None, epochs: int | None
) -> dict[str, float]:
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
            epochs=epochs or 2,
            layers=3,
            hidden=128,
            memory_every=1,
            timeline_every=0,
            out=Path(folder),
            wait=True,
        )
        return peaks(run.memory)
