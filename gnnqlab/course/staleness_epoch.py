"""One whole epoch of one worker: what it does, and when the bytes that it uses travel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lanes, panels
from gnnqlab.lab.figures.theme import OKABE_ITO

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_epoch"]


def draw_epoch(timelines: Mapping[str, DataFrame], *, rank: int = 0, dark: bool = False) -> Bundle:
    """Draw one whole epoch of one worker, a panel a run: what it does, and when the bytes that it uses travel.

    Bytes left of 0 travelled before the epoch began.

    Args:
        timelines: ``run.timeline`` by label; of the recorded epochs the one whose length is the median.
        rank: the worker.
        dark: colours for a dark page.

    Raises:
        ValueError: if a timeline has nothing of that worker.
    """
    import pandas as pd

    frames = {label: _one_epoch(timeline, rank) for label, timeline in timelines.items()}
    height = 130 + sum(60 + 26 * frame["line"].nunique() for frame in frames.values())
    gap = 64 / (height - 176)  # room for the numbers of one panel and the title of the next
    styles = {"rows, encode, decode": "green", "wait": "vermillion x", "bytes forward": "sky /"}
    styles |= {"bytes backward": "orange \\"}
    charts, words = {}, []
    for label, frame in frames.items():
        layers = sorted(set(frame["layer"]))  # in the order in which an epoch needs them
        order = ["worker", *(f"layer {layer + 1} →" for layer in layers), *(f"layer {n + 1} ←" for n in layers[::-1])]
        charts[label] = lanes(
            frame.assign(end=frame["end (ms)"].clip(lower=frame["start (ms)"] + 0.15)),
            lane="line",
            start="start (ms)",
            end="end",
            by="part",
            styles=styles,
            width=0.7,
            details="layer",
            hover="layer %{customdata}, %{x:.1f} ms from %{base:.1f} ms",
            order=[line for line in order if line in set(frame["line"])],
            x_axis="milliseconds since the epoch's first layer began",
        )
        charts[label].add_vline(x=0, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1})
        waited = frame[frame["part"] == "wait"]
        waits = float((waited["end (ms)"] - waited["start (ms)"]).sum())
        length = float(frame[frame["line"] == "worker"]["end (ms)"].max())
        words.append(f"{label} takes {length:.3g} ms to the end of its last layer and waits {waits:.3g} ms of them")
    figure = panels(
        charts,
        rows=len(charts),
        share_x=True,
        gap=min(gap, 0.9 / max(len(frames) - 1, 1)),
        title=f"An epoch of worker {rank}: what it does, what travels",
        caption=f"One epoch of worker {rank}, without the sum of weight gradients: {'; '.join(words)}.",
        dark=dark,
        height=height,
        legend_below=True,
    )
    return Bundle(figure, pd.concat(frames, names=["run"]).reset_index(level=0).set_index("run"))


def _one_epoch(timeline: DataFrame, rank: int) -> DataFrame:
    mine = timeline[timeline["rank"] == rank]
    if mine.empty:
        raise ValueError(f"nothing was recorded of worker {rank}; launch with timeline_every=5")
    own = mine[mine["what"] != "transfer"].groupby("epoch")
    took = (own["end_s"].max() - own["start_s"].min()).iloc[1:]  # the first epoch also sets things up
    epoch = int(took.sort_values(kind="stable").index[(len(took) - 1) // 2])
    found = mine[mine["epoch"] == epoch].copy()
    begin = found[found["what"] != "transfer"]["start_s"].min()
    found["start (ms)"], found["end (ms)"] = 1e3 * (found["start_s"] - begin), 1e3 * (found["end_s"] - begin)
    way = {"forward": "→", "backward": "←"}
    travels = found["what"] == "transfer"
    found["line"] = [
        f"layer {layer + 1} {way[direction]}" if moves else "worker"
        for layer, direction, moves in zip(found["layer"], found["direction"], travels)
    ]
    found["part"] = [
        f"bytes {direction}" if moves else "wait" if what == "wait" else "rows, encode, decode"
        for what, direction, moves in zip(found["what"], found["direction"], travels)
    ]
    return found[["epoch", "line", "part", "layer", "start (ms)", "end (ms)"]].sort_values("start (ms)")
