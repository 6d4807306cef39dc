"""Always fresh, always a day behind, or what the training asks for: the three modes of SYLVIE's Table XI, trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline, Pipelined
from gnnqlab.exchange.schedules.schedule import Overlapped, Schedule
from gnnqlab.launch.start import launch
from gnnqlab.study.result import stale_share
from gnnqlab.theory.intervals import interval

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph
    from gnnqlab.systems.system import System

__all__ = ["MODES", "compare_modes"]

MODES: dict[str, Schedule] = {
    "always-sync": Overlapped(),
    "always-async": Pipelined(),
    "adaptive": AdaptivePipeline(bound=10),
}
"""The lines of SYLVIE's Table XI: schedules by name."""


def compare_modes(
    graph: Graph, system: System, *, seeds: Sequence[int] = (0,), epochs: int = 40, **settings: Any
) -> DataFrame:
    """Train a system always synchronously, always a day behind, and adaptively (SYLVIE's Table XI).

    Args:
        graph: the graph.
        system: whose schedule is replaced.
        seeds: one run of every mode for each; modes take turns, so that a busy machine disturbs all alike.
        epochs: of every run.
        **settings: of ``gq.launch``: ``workers``, ``hidden``, ``link`` and so on.

    Returns:
        By ``mode``: median ``epoch (ms)``, mean ``final loss`` and ``accuracy (%)``, ``± (points)`` the half width of
        its 95 % interval (Student; NaN with one seed), ``stale epochs (%)``.
    """
    import pandas as pd

    lines = []
    for seed in seeds:
        for mode, schedule in MODES.items():
            made = replace(system, schedule=schedule, name=f"{system.name} {mode}")
            run = launch(graph, system=made, epochs=epochs, seed=seed, **settings).wait()
            summary = run.summary
            score = float(summary.get("test_accuracy", summary.get("test_f1_micro", float("nan"))))
            stale = stale_share(run)
            lines.append((mode, 1e3 * summary["epoch_s"], summary["final_loss"], 100 * score, 100 * stale))
    columns = ["mode", "epoch (ms)", "final loss", "accuracy (%)", "stale epochs (%)"]
    groups = pd.DataFrame(lines, columns=columns).groupby("mode", sort=False)
    table = groups.mean()
    table["epoch (ms)"] = groups["epoch (ms)"].median()
    halves = [interval(group["accuracy (%)"].tolist())[1] if len(seeds) > 1 else float("nan") for _, group in groups]
    table.insert(3, "± (points)", halves)
    return table
