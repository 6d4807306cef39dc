"""Yesterday's rows, to be looked at: how wrong it makes them that they are old."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines, panels

if TYPE_CHECKING:
    from pandas import DataFrame


__all__ = ["draw_old_rows"]


def draw_old_rows(frames: Mapping[str, DataFrame], *, dark: bool = False) -> Bundle:
    """Draw `old_rows`, a panel a frame: solid blue for age, dashed green for smoothed, grey dots for few bits."""
    import pandas as pd

    distance = {
        "title_text": "distance from the fresh row (% of its length)",
        "tickvals": [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200],
    }
    charts = {
        label: lines(
            100 * frame, y=list(_styles(frame)), styles=_styles(frame), mode="lines", log="y", x_axis="epoch",
            y_axis=distance,
        )
        for label, frame in frames.items()
    }  # fmt: skip
    words = [
        f"{label}: " + ", ".join(f"{name} {_percent(100 * frame[name].iloc[-10:].mean())}" for name in frame)
        for label, frame in frames.items()
    ]
    caption = f"By how much rows are wrong, mean of the last ten epochs. {'; '.join(words)}."
    title = "How wrong is an old row?"
    figure = panels(
        charts, share_y=True, gap=0.05, title=title, caption=caption, dark=dark, height=420, legend_below=True
    )
    return Bundle(figure, pd.concat(frames, axis=1))


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"


def _styles(frame: DataFrame) -> dict[str, str]:
    old, smoothed, fresh = (
        [name for name in frame if kind(name)]
        for kind in (
            lambda name: name.endswith(" old"),
            lambda name: name.startswith("γ"),
            lambda name: name.startswith("fresh"),
        )
    )
    return {
        **dict(zip(old, cycle(("#9ecae1", "#4292c6", "#08519c", "#08306b")))),
        **dict(zip(smoothed, cycle(("#7fceb9 dash", "#009e73 dash", "#00523c dash")))),
        **dict(zip(fresh, cycle(("vermillion dot", "orange dot")))),
    }
