"""The critical path drawn: a lane for each worker, the chain in colour over all that was done, messages as lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.activities import ACTIVITY_NAMES, ACTIVITY_STYLES, BETWEEN
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lanes, lines

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["STYLES", "WORDS", "draw_path"]

STYLES = {what: ACTIVITY_STYLES[what] for what in ("central", "marginal", "encode", "decode", "post", "wait", BETWEEN)}
"""Colour and pattern of what a worker did."""
WORDS = {**{what: ACTIVITY_NAMES[what] for what in STYLES}, "message": "messages"}
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
    import pandas as pd

    some = timeline[timeline["what"] != "transfer"]
    recorded = some.assign(lane=_workers(some["rank"]), kind="beside the path")
    recorded[["start", "end"]] = 1e3 * (some[["start_s", "end_s"]] - some["start_s"].min())
    figure = lanes(
        recorded,
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
        senders = messages["sender"].where(messages["sender"] >= 0, messages["worker"])
        ends = [
            pd.DataFrame({"at": messages["start (ms)"], "message": _workers(senders)}),
            pd.DataFrame({"at": messages["end (ms)"], "message": _workers(messages["worker"])}),
            pd.DataFrame({"at": None, "message": None}, index=messages.index),
        ]
        ways = pd.concat(ends).sort_index(kind="stable")
        lines(ways, x="at", y="message", styles=["vermillion"], size=5, hover="%{x:.2f} ms, %{y}", figure=figure)
    names = _workers(sorted(set(some["rank"])))
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
        title=f"Epoch {epoch}: the chain that makes it as long as it is",
        caption=words,
        legend_below=True,
    )
    return Bundle(figure.update_xaxes(rangemode="tozero"), segments.set_index("worker"))


def _workers(ranks: Iterable[int]) -> list[str]:
    return [f"worker {rank}" for rank in ranks]
