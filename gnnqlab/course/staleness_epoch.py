"""One whole epoch of one worker: what it does, and when the bytes that it uses travel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

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
    from plotly.subplots import make_subplots

    frames = {label: _one_epoch(timeline, rank) for label, timeline in timelines.items()}
    height = 130 + sum(60 + 26 * frame["line"].nunique() for frame in frames.values())
    gap = 64 / (height - 176)  # room for the numbers of one panel and the title of the next
    figure = make_subplots(
        rows=len(frames), cols=1, shared_xaxes=True, subplot_titles=list(frames),
        vertical_spacing=min(gap, 0.9 / max(len(frames) - 1, 1)),
    )  # fmt: skip
    looks = {
        "rows, encode, decode": (OKABE_ITO["green"], ""),
        "wait": (OKABE_ITO["vermillion"], "x"),
        "bytes forward": (OKABE_ITO["sky"], "/"),
        "bytes backward": (OKABE_ITO["orange"], "\\"),
    }
    for row, frame in enumerate(frames.values(), start=1):
        for name, (color, pattern) in looks.items():
            some = frame[frame["part"] == name]
            figure.add_bar(
                y=some["line"].tolist(),
                x=(some["end (ms)"] - some["start (ms)"]).clip(lower=0.15).tolist(),
                base=some["start (ms)"].tolist(),
                orientation="h",
                width=0.7,
                name=name,
                legendgroup=name,
                showlegend=row == 1,
                marker={
                    "color": color,
                    "pattern": {"shape": pattern, "size": 5, "solidity": 0.25},
                    "line": {"width": 0},
                },
                customdata=some["layer"].tolist(),
                hovertemplate=f"{name}, layer %{{customdata}}: %{{x:.1f}} ms from %{{base:.1f}} ms<extra></extra>",
                row=row,
                col=1,
            )
        layers = sorted(set(frame["layer"]))  # in the order in which an epoch needs them
        lines = ["worker", *(f"layer {layer + 1} →" for layer in layers), *(f"layer {n + 1} ←" for n in layers[::-1])]
        lines = [line for line in lines if line in set(frame["line"])]
        figure.update_yaxes(categoryorder="array", categoryarray=lines, autorange="reversed", showgrid=False, row=row)
        figure.add_vline(x=0, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1}, row=row, col=1)
        figure.update_xaxes(showticklabels=True, row=row, col=1)
    figure.update_xaxes(title_text="milliseconds since the epoch's first layer began", row=len(frames), col=1)
    words = []
    for label, frame in frames.items():
        waited = frame[frame["part"] == "wait"]
        waits = float((waited["end (ms)"] - waited["start (ms)"]).sum())
        length = float(frame[frame["line"] == "worker"]["end (ms)"].max())
        words.append(f"{label} takes {length:.3g} ms to the end of its last layer and waits {waits:.3g} ms of them")
    caption = f"One epoch of worker {rank}, without the sum of weight gradients: {'; '.join(words)}."
    title = f"An epoch of worker {rank}: what it does, what travels"
    finish(figure, title=title, caption=caption, dark=dark, height=height)
    legend = {"traceorder": "normal", "y": -60 / (height - 160), "yanchor": "top"}
    figure.update_layout(barmode="overlay", legend=legend, margin={"t": 76, "b": 100})
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
