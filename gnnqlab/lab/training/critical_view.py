"""The critical path drawn: a lane for each worker, the chain in colour over all that was done, messages as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, PHASES, finish, hatched

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["BETWEEN", "LOOKS", "WORDS", "draw_path"]

BETWEEN = "between"
"""What a worker does between recorded parts: dense layers, loss, sums of weight gradients."""

_OF_PHASE = {phase.column.removesuffix("_s"): (phase.label, phase.color) for phase in PHASES}
LOOKS = {
    "central": (*_OF_PHASE["central"], "/"),
    "marginal": (*_OF_PHASE["marginal"], "\\"),
    "encode": (*_OF_PHASE["encode"], ""),
    "decode": (*_OF_PHASE["decode"], "."),
    "post": ("post", "#555555", ""),
    "wait": ("wait", OKABE_ITO["vermillion"], "x"),
    BETWEEN: ("between exchanges", OKABE_ITO["sky"], "-"),
}
"""Name, colour and pattern of what a worker did."""
WORDS = {**{what: name for what, (name, _, _) in LOOKS.items()}, "message": "messages"}
"""What they are in sentences."""


def draw_path(segments: DataFrame, timeline: DataFrame, *, epoch: int, words: str, dark: bool = False) -> Bundle:
    """Draw a lane for each worker: in grey all that was recorded of it, in colour what the chain passes through.

    Args:
        segments: the chain, a row a link.
        timeline: rows of ``run.timeline`` of that epoch.
        epoch: its number.
        words: what the figure shows, for who cannot see it.
        dark: colours for a dark page.
    """
    import plotly.graph_objects as go

    some = timeline[timeline["what"] != "transfer"]
    begin = some["start_s"].min()
    ranks = sorted(set(some["rank"]))
    figure = go.Figure()
    figure.add_bar(
        y=[f"worker {rank}" for rank in some["rank"]],
        x=(1e3 * (some["end_s"] - some["start_s"])).tolist(),
        base=(1e3 * (some["start_s"] - begin)).tolist(),
        orientation="h",
        width=0.8,
        name="beside the path",
        marker={"color": OKABE_ITO["grey"], "opacity": 0.25, "line": {"width": 0}},
        customdata=some["what"].tolist(),
        hovertemplate="%{customdata}: %{x:.2f} ms, not on the path<extra>%{y}</extra>",
    )
    for what, (label, color, shape) in LOOKS.items():
        here = segments[segments["what"] == what]
        if here.empty:
            continue
        figure.add_bar(
            y=[f"worker {rank}" for rank in here["worker"]],
            x=here["ms"].tolist(),
            base=here["start (ms)"].tolist(),
            orientation="h",
            width=0.46,
            name=label,
            marker=hatched(color, shape),
            customdata=[f"layer {layer + 1}, {way}" for layer, way in zip(here["layer"], here["direction"])],
            hovertemplate=f"{label}, %{{customdata}}: %{{x:.2f}} ms from %{{base:.2f}} ms<extra>%{{y}}</extra>",
        )
    messages = segments[segments["what"] == "message"]
    if len(messages):
        lines = [
            (x, f"worker {rank if sender < 0 else sender}", f"worker {rank}", end)
            for x, end, rank, sender in zip(
                messages["start (ms)"], messages["end (ms)"], messages["worker"], messages["sender"]
            )
        ]
        figure.add_scatter(
            x=[at for start, _, _, end in lines for at in (start, end, None)],
            y=[at for _, sender, receiver, _ in lines for at in (sender, receiver, None)],
            mode="lines+markers",
            name="message",
            line={"color": OKABE_ITO["vermillion"], "width": 2},
            marker={"size": 5},
            hovertemplate="message: %{x:.2f} ms<extra>%{y}</extra>",
        )
    height = 190 + 64 * len(ranks)
    names = [f"worker {rank}" for rank in ranks]
    figure.update_yaxes(categoryorder="array", categoryarray=names, autorange="reversed", showgrid=False)
    figure.update_xaxes(title_text="milliseconds since the epoch's first exchange began", rangemode="tozero")
    title = f"Epoch {epoch}: the chain that makes it as long as it is"
    finish(figure, title=title, caption=words, dark=dark, height=height)
    legend = {"traceorder": "normal", "y": -60 / (height - 130), "yanchor": "top"}
    figure.update_layout(barmode="overlay", legend=legend, margin={"t": 50, "b": 90})
    return Bundle(figure, segments.set_index("worker"))
