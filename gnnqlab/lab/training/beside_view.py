"""Two epochs drawn below each other, worker by worker, with what is under way and the critical path of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lanes
from gnnqlab.lab.training.critical_view import STYLES, WORDS

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_beside"]

_LANES = 2.6
"""From one worker to the next, in lanes."""


def draw_beside(
    sides: Sequence[tuple[str, DataFrame, DataFrame]], table: DataFrame, *, words: str, dark: bool = False
) -> Bundle:
    """Draw for each worker a lane of either epoch: what it did, above it bytes under way to it, below it the chain.

    Args:
        sides: label, rows of ``run.timeline`` of one epoch, and its critical path, of two runs of the same workers.
        table: milliseconds by worker and phase, the figure's numbers.
        words: what the figure shows, for who cannot see it.
        dark: colours for a dark page.
    """
    import pandas as pd

    ranks = sorted(set(sides[0][1]["rank"]))
    places = {(rank, side): _LANES * row + side for row, rank in enumerate(ranks) for side in range(len(sides))}
    parts = []
    for side, (label, timeline, segments) in enumerate(sides):
        spans = 1e3 * (timeline[["start_s", "end_s"]] - timeline.loc[timeline["what"] != "transfer", "start_s"].min())
        where = zip(timeline["rank"], timeline["layer"], timeline["direction"], strict=True)
        own = timeline[["rank", "what"]].assign(
            said=[f"{label}, worker {rank}, layer {layer + 1}, {way}" for rank, layer, way in where],
            start=spans["start_s"].clip(lower=0.0),
            end=spans["end_s"].clip(lower=0.0),
        )
        chain = segments[["start (ms)", "end (ms)"]].set_axis(["start", "end"], axis=1)
        chain = chain.assign(rank=segments["worker"], what="chain", said=f"{label}, critical path")
        both = pd.concat([own, chain])
        parts.append(both.assign(lane=[places[rank, side] for rank in both["rank"]]))
    every = pd.concat(parts)
    look: dict[str, Any] = {"start": "start", "end": "end", "lane": "lane", "by": "what", "details": "said"}
    figure = lanes(every, names=WORDS, styles=STYLES, width=0.56, **look)
    names = {lane: f"worker {rank}, {sides[side][0]}" for (rank, side), lane in places.items()}
    ticks = {"tickvals": list(names), "ticktext": list(names.values()), "range": [max(names) + 0.7, -0.7]}
    ink = "#e6e8ea" if dark else "#1f2328"
    thin = every.assign(lane=every["lane"] + every["what"].map({"transfer": -0.37, "chain": 0.37}).fillna(0.0))
    lanes(
        thin,
        names={"transfer": "bytes under way", "chain": "critical path"},
        width=0.12,
        figure=figure,
        styles={"transfer": "grey", "chain": ink},
        x_axis="milliseconds since the epoch's first exchange began",
        y_axis=" ",
        title=f"An epoch of {sides[0][0]} beside one of {sides[1][0]}",
        caption=words,
        dark=dark,
        height=200 + 84 * len(ranks),
        legend_below=True,
        **look,
    )
    figure.update_yaxes(autorange=None, title_text=None, **ticks)
    return Bundle(figure.update_xaxes(rangemode="tozero"), table)
