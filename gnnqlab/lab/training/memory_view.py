"""Stacked figure of live bytes by purpose, at the peak of each system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.charts import bars
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["memory_figure"]

_PURPOSES = {
    "weights": ("weights, gradients, moments", "grey"),
    "adjacency": ("matrices of the graph", "purple ."),
    "kept": ("own rows saved for backward", "blue /"),
    "rows": ("own rows", "sky"),
    "halo": ("halo rows, gradients, caches", "vermillion x"),
    "buffers": ("bytes of messages", "orange \\"),
}
"""Purpose -> label, colour and pattern; patterns distinguish bars in grey."""


def memory_figure(memories: Mapping[str, DataFrame]) -> Figure:
    """Return one stacked bar per run: live tensors by purpose at the peak of its largest worker and epoch (MB).

    Args:
        memories: name -> ``run.memory``.

    Raises:
        ValueError: if a run has not recorded the memory of any epoch.
    """
    import pandas as pd

    # (runs, purposes), bytes -> MB.
    at_peak = pd.DataFrame({name: _worst(name, memory) for name, memory in memories.items()}).T / 1e6
    totals = "; ".join(f"{name} {human_bytes(1e6 * total)}" for name, total in at_peak.sum(axis=1).items())
    return bars(
        at_peak.reindex(columns=list(_PURPOSES), fill_value=0.0).fillna(0.0),
        stacked=True,
        y={purpose: words for purpose, (words, _) in _PURPOSES.items()},
        styles={purpose: style for purpose, (_, style) in _PURPOSES.items()},
        x_axis="run",
        y_axis="live tensors at the peak (MB)",
        title="Memory at the peak, by purpose",
        legend_rows=3,
        caption=f"Live tensors of the worker with the most, at the moment with the most, by purpose: {totals}.",
    )


def _worst(name: str, memory: DataFrame) -> dict[str, int]:
    if memory.empty:
        raise ValueError(f"memory must be recorded to be drawn, got none for {name}; launch it with memory_every=1")
    totals = memory.groupby(["epoch", "rank"])["bytes"].sum()  # bytes of all purposes
    epoch, rank = totals.idxmax()  # the run's peak
    peak_rows = memory[(memory["epoch"] == epoch) & (memory["rank"] == rank)]
    return {str(purpose): int(count) for purpose, count in zip(peak_rows["purpose"], peak_rows["bytes"], strict=True)}
