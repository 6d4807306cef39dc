"""Two epochs drawn below each other, worker by worker, with what is under way and the critical path of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish, hatched
from gnnqlab.lab.training.critical_view import LOOKS

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
    import plotly.graph_objects as go

    ranks = sorted(set(sides[0][1]["rank"]))
    lanes = {(rank, side): _LANES * row + side for row, rank in enumerate(ranks) for side in range(len(sides))}
    parts, chain = [], []
    for side, (label, timeline, segments) in enumerate(sides):
        begin = timeline.loc[timeline["what"] != "transfer", "start_s"].min()
        parts.append(
            pd.DataFrame(
                {
                    "what": timeline["what"],
                    "lane": [lanes[rank, side] for rank in timeline["rank"]],
                    "start": (1e3 * (timeline["start_s"] - begin)).clip(lower=0.0),
                    "end": (1e3 * (timeline["end_s"] - begin)).clip(lower=0.0),
                    "said": [
                        f"{label}, worker {rank}, layer {layer + 1}, {way}"
                        for rank, layer, way in zip(
                            timeline["rank"], timeline["layer"], timeline["direction"], strict=True
                        )
                    ],
                }
            )
        )
        chain.append(segments.assign(lane=[lanes[rank, side] for rank in segments["worker"]]))
    every, path = pd.concat(parts), pd.concat(chain)
    figure = go.Figure()
    for what, (name, color, shape) in LOOKS.items():
        here = every[every["what"] == what]
        if len(here):
            figure.add_bar(
                y=here["lane"].tolist(),
                x=(here["end"] - here["start"]).tolist(),
                base=here["start"].tolist(),
                orientation="h",
                width=0.56,
                name=name,
                marker=hatched(color, shape),
                customdata=here["said"].tolist(),
                hovertemplate=f"{name}: %{{x:.2f}} ms from %{{base:.2f}} ms<extra>%{{customdata}}</extra>",
            )
    ink = "#e6e8ea" if dark else "#1f2328"
    way = every[every["what"] == "transfer"]
    for name, color, lane, starts, ends in (
        ("bytes under way", OKABE_ITO["grey"], way["lane"] - 0.37, way["start"], way["end"]),
        ("critical path", ink, path["lane"] + 0.37, path["start (ms)"], path["end (ms)"]),
    ):
        figure.add_bar(
            y=lane.tolist(),
            x=(ends - starts).tolist(),
            base=starts.tolist(),
            orientation="h",
            width=0.12,
            name=name,
            marker={"color": color, "line": {"width": 0}},
            hovertemplate=f"{name}: %{{x:.2f}} ms from %{{base:.2f}} ms<extra></extra>",
        )
    height = 200 + 84 * len(ranks)
    names = {lane: f"worker {rank}, {sides[side][0]}" for (rank, side), lane in lanes.items()}
    figure.update_yaxes(
        tickvals=list(names),
        ticktext=list(names.values()),
        range=[max(names) + 0.7, -0.7],
        showgrid=False,
    )
    figure.update_xaxes(title_text="milliseconds since the epoch's first exchange began", rangemode="tozero")
    title = f"An epoch of {sides[0][0]} beside one of {sides[1][0]}"
    finish(figure, title=title, caption=words, dark=dark, height=height)
    legend = {"traceorder": "normal", "y": -60 / (height - 150), "yanchor": "top"}
    figure.update_layout(barmode="overlay", legend=legend, margin={"t": 50, "b": 100})
    return Bundle(figure, table)
