"""Live bytes by purpose as a stacked figure: what each system holds at its peak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["memory_figure"]

_PURPOSES = {
    "weights": ("weights, gradients, moments", "grey", ""),
    "adjacency": ("matrices of the graph", "purple", "."),
    "kept": ("own rows kept for backward", "blue", "/"),
    "rows": ("own rows", "sky", ""),
    "halo": ("halo rows, gradients, caches", "vermillion", "x"),
    "buffers": ("bytes of messages", "orange", "\\"),
}
"""Purpose -> words, colour and hatch; hatches keep them apart in grey."""


def memory_figure(memories: Mapping[str, DataFrame]) -> Figure:
    """Return a stacked bar a run: bytes of live tensors by purpose, at the peak of its worst worker and epoch.

    Args:
        memories: name -> ``run.memory``.

    Raises:
        ValueError: if a run counted no epoch.
    """
    import plotly.graph_objects as go

    at_peak = {name: _worst(name, memory) for name, memory in memories.items()}
    figure = go.Figure()
    for purpose, (words, color, hatch) in _PURPOSES.items():
        figure.add_bar(
            x=list(at_peak),
            y=[found.get(purpose, 0) / 1e6 for found in at_peak.values()],
            name=words,
            marker={"color": OKABE_ITO[color], "pattern": {"shape": hatch}},
            hovertemplate="%{x}<br>" + words + ": %{y:.2f} MB<extra></extra>",
        )
    figure.update_layout(barmode="stack", yaxis_title="live tensors at the peak (MB)", xaxis_title="run")
    totals = "; ".join(f"{name} {sum(found.values()) / 1e6:.2f} MB" for name, found in at_peak.items())
    caption = f"Live tensors of the worker with the most, at the moment with the most, by purpose: {totals}."
    return finish(figure, title="Memory at the peak, by purpose", caption=caption, legend_rows=3)


def _worst(name: str, memory: DataFrame) -> dict[str, int]:
    if memory.empty:
        raise ValueError(f"{name} counted no epoch's memory; launch it with memory_every=1")
    totals = memory.groupby(["epoch", "rank"])["bytes"].sum()
    epoch, rank = totals.idxmax()
    there = memory[(memory["epoch"] == epoch) & (memory["rank"] == rank)]
    return {str(purpose): int(count) for purpose, count in zip(there["purpose"], there["bytes"], strict=True)}
