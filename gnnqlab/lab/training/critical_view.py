"""Figures of critical paths: of one epoch over all recorded activities, of two epochs worker by worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lanes, lines
from gnnqlab.lab.figures.theme import ACTIVITY_NAMES, ACTIVITY_STYLES, UNRECORDED

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["STYLES", "WORDS", "draw_path", "draw_path_pair"]

STYLES = {
    what: ACTIVITY_STYLES[what] for what in ("central", "marginal", "encode", "decode", "post", "wait", UNRECORDED)
}
"""Colour and pattern of a worker's activities."""
WORDS = {**{what: ACTIVITY_NAMES[what] for what in STYLES}, "message": "messages"}
"""Names of the activities in sentences."""


def draw_path(segments: DataFrame, timeline: DataFrame, *, epoch: int, words: str, dark: bool = False) -> FigureData:
    """Draw one lane per worker: all its recorded activities in grey, those on the critical path in colour.

    Args:
        segments: the critical path, one row per link.
        timeline: rows of ``run.timeline`` of that epoch.
        epoch: number of the epoch.
        words: description of the figure for screen readers.
        dark: colours for a dark page.
    """
    import pandas as pd

    activities = timeline[timeline["what"] != "transfer"]
    spans = activities.assign(lane=_workers(activities["rank"]), kind="not on the path")
    # Seconds -> ms since the first activity.
    spans[["start", "end"]] = 1e3 * (activities[["start_s", "end_s"]] - activities["start_s"].min())
    figure = lanes(
        spans,
        lane="lane",
        start="start",
        end="end",
        by="kind",
        styles=["grey"],
        opacity=0.25,
        details="what",
        hover="%{x:.2f} ms, not on the path: %{customdata}",
    )
    place = [f"layer {layer + 1}, {way}" for layer, way in zip(segments["layer"], segments["direction"])]
    lanes(
        segments.assign(lane=_workers(segments["worker"]), place=place),
        lane="lane",
        start="start (ms)",
        end="end (ms)",
        by="what",
        names=WORDS,
        styles=STYLES,
        width=0.46,
        details="place",
        x_axis="",
        figure=figure,
    )
    messages = segments[segments["what"] == "message"]
    if len(messages):
        # A message of an unknown sender (-1) is drawn at its receiver only. The third row of each message is empty, so
        # that its line ends before the next one.
        senders = messages["sender"].where(messages["sender"] >= 0, messages["worker"])
        ends = [
            pd.DataFrame({"at": messages["start (ms)"], "message": _workers(senders)}),
            pd.DataFrame({"at": messages["end (ms)"], "message": _workers(messages["worker"])}),
            pd.DataFrame({"at": None, "message": None}, index=messages.index),
        ]
        ways = pd.concat(ends).sort_index(kind="stable")
        lines(ways, x="at", y="message", styles=["vermillion"], size=5, hover="%{x:.2f} ms, %{y}", figure=figure)
    names = _workers(sorted(set(activities["rank"])))
    # Without rows: only the axes, the order of lanes and the title of the finished figure.
    lanes(
        segments.iloc[:0],
        lane="worker",
        start="start (ms)",
        end="end (ms)",
        by="what",
        order=names,
        figure=figure,
        x_axis="milliseconds since the epoch's first exchange began",
        dark=dark,
        height=190 + 64 * len(names),
        title=f"Critical path of epoch {epoch}",
        caption=words,
        legend_below=True,
    )
    return FigureData(figure.update_xaxes(rangemode="tozero"), segments.set_index("worker"))


def _workers(ranks: Iterable[int]) -> list[str]:
    return [f"worker {rank}" for rank in ranks]


_LANES = 2.6
"""Distance of two workers in lanes."""


def draw_path_pair(
    sides: Sequence[tuple[str, DataFrame, DataFrame]], table: DataFrame, *, words: str, dark: bool = False
) -> FigureData:
    """Draw one lane per worker and epoch: its activities, above them transfers to it, below them the critical path.

    Args:
        sides: label, rows of ``run.timeline`` of one epoch, and its critical path, of two runs with the same workers.
        table: milliseconds by worker and phase, the figure's numbers.
        words: description of the figure for screen readers.
        dark: colours for a dark page.
    """
    import pandas as pd

    ranks = sorted(set(sides[0][1]["rank"]))
    places = {(rank, side): _LANES * row + side for row, rank in enumerate(ranks) for side in range(len(sides))}
    parts = []
    for side, (label, timeline, segments) in enumerate(sides):
        # Seconds -> ms since the epoch's first activity.
        spans = 1e3 * (timeline[["start_s", "end_s"]] - timeline.loc[timeline["what"] != "transfer", "start_s"].min())
        keys = zip(timeline["rank"], timeline["layer"], timeline["direction"], strict=True)
        activity_rows = timeline[["rank", "what"]].assign(
            details=[f"{label}, worker {rank}, layer {layer + 1}, {way}" for rank, layer, way in keys],
            start=spans["start_s"].clip(lower=0.0),  # a transfer may begin before the first activity
            end=spans["end_s"].clip(lower=0.0),
        )
        chain = segments[["start (ms)", "end (ms)"]].set_axis(["start", "end"], axis=1)
        chain = chain.assign(rank=segments["worker"], what="chain", details=f"{label}, critical path")
        side_rows = pd.concat([activity_rows, chain])
        parts.append(side_rows.assign(lane=[places[rank, side] for rank in side_rows["rank"]]))
    rows = pd.concat(parts)
    columns: dict[str, Any] = {"start": "start", "end": "end", "lane": "lane", "by": "what", "details": "details"}
    figure = lanes(rows, names=WORDS, styles=STYLES, width=0.56, **columns)
    names = {lane: f"worker {rank}, {sides[side][0]}" for (rank, side), lane in places.items()}
    # Lanes are numbers, so their labels are set here.
    ticks = {"tickvals": list(names), "ticktext": list(names.values()), "range": [max(names) + 0.7, -0.7]}
    ink = "#e6e8ea" if dark else "#1f2328"
    # Transfers just above a worker's lane, the critical path just below it.
    thin_bars = rows.assign(lane=rows["lane"] + rows["what"].map({"transfer": -0.37, "chain": 0.37}).fillna(0.0))
    lanes(
        thin_bars,
        names={"transfer": "bytes under way", "chain": "critical path"},
        width=0.12,
        figure=figure,
        styles={"transfer": "grey", "chain": ink},
        x_axis="milliseconds since the epoch's first exchange began",
        y_axis=" ",
        title=f"An epoch of {sides[0][0]} compared with one of {sides[1][0]}",
        caption=words,
        dark=dark,
        height=200 + 84 * len(ranks),
        legend_below=True,
        **columns,
    )
    figure.update_yaxes(autorange=None, title_text=None, **ticks)
    return FigureData(figure.update_xaxes(rangemode="tozero"), table)
