"""Yesterday's rows, to be looked at: how wrong it makes them that they are old."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame


__all__ = ["draw_old_rows"]


def draw_old_rows(frames: Mapping[str, DataFrame], *, dark: bool = False) -> Bundle:
    """Draw `old_rows`, a panel a frame: solid blue for age, dashed green for smoothed, grey dots for few bits."""
    import pandas as pd
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1, cols=len(frames), shared_yaxes=True, subplot_titles=list(frames), horizontal_spacing=0.05
    )
    shown: set[str] = set()
    for column, frame in enumerate(frames.values(), start=1):
        for kind, color, dash, names in _families(frame):
            for place, name in enumerate(names):
                figure.add_scatter(
                    x=frame.index.tolist(),
                    y=(100 * frame[name]).tolist(),
                    mode="lines",
                    name=name,
                    legendgroup=name,
                    showlegend=name not in shown,
                    line={"color": color[place % len(color)], "dash": dash, "width": 2.5},
                    hovertemplate=f"{name}: %{{y:.1f}} % · epoch %{{x}}<extra>{kind}</extra>",
                    row=1,
                    col=column,
                )
                shown.add(name)
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(type="log", tickvals=[0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200])
    figure.update_yaxes(title_text="distance from the fresh row (% of its length)", row=1, col=1)
    words = [
        f"{label}: " + ", ".join(f"{name} {_percent(100 * frame[name].iloc[-10:].mean())}" for name in frame)
        for label, frame in frames.items()
    ]
    caption = f"By how much rows are wrong, mean of the last ten epochs. {'; '.join(words)}."
    finish(figure, title="How wrong is an old row?", caption=caption, dark=dark, height=420)
    figure.update_layout(legend={"y": -0.2, "yanchor": "top"}, margin={"t": 76, "b": 110})
    return Bundle(figure, pd.concat(frames, axis=1))


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"


def _families(frame: DataFrame) -> list[tuple[str, list[str], str, list[str]]]:
    blues, greens = ["#9ecae1", "#4292c6", "#08519c", "#08306b"], ["#7fceb9", "#009e73", "#00523c"]
    return [
        ("old", blues, "solid", [name for name in frame if name.endswith(" old")]),
        ("smoothed", greens, "dash", [name for name in frame if name.startswith("γ")]),
        ("fresh", [OKABE_ITO["vermillion"], OKABE_ITO["orange"]], "dot", [n for n in frame if n.startswith("fresh")]),
    ]
