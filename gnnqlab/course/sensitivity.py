"""How much a knob matters: means of several seeds with intervals, by value of one setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish
from gnnqlab.theory.intervals import interval

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["sensitivity_chart"]

_KNOBS = {
    "lam": "λ", "group_size": "group size (rows)", "period": "period (epochs)", "bits": "bits of an element",
    "delta": "δ (epochs)",
}  # fmt: skip
_VALUES = {
    "accuracy": ("test accuracy (%)", 100.0),
    "epoch_s": ("epoch (ms)", 1e3),
    "variance": ("gradient variance<br>(squared unit of it)", 1.0),
    "bytes_sent": ("bytes an epoch (kB)", 1e-3),
}


def sensitivity_chart(
    frame: DataFrame,
    *,
    knob: str,
    values: Sequence[str] = ("accuracy", "epoch_s"),
    baseline: DataFrame | None = None,
    dark: bool = False,
) -> Bundle:
    """Draw what a knob changes: a panel a quantity, the mean with its 95 % interval, every run as a faint point.

    Args:
        frame: one line a run: the knob's column and one for each quantity, see
        `gnnqlab.course.experiments.repeated.sweep_table`.
        knob: the column that was varied.
        values: quantities, ``accuracy``, ``epoch_s``, ``variance`` or ``bytes_sent``.
        baseline: runs of another system with the same quantities; their mean is a dashed line.
        dark: colours for a dark page.

    Raises:
        ValueError: if a column is missing or there is no run.
    """
    import pandas as pd
    from plotly.subplots import make_subplots

    missing = [name for name in (knob, *values) if name not in frame]
    if missing or frame.empty:
        raise ValueError(f"a line for each run needs columns {(knob, *values)}, missing {missing}; see sweep_table")
    figure = make_subplots(rows=1, cols=len(values), horizontal_spacing=0.14)
    settings = sorted(frame[knob].unique())
    names = [f"{value:g}" for value in settings]
    table: dict[str, list[float]] = {}
    for column, name in enumerate(values, start=1):
        label, unit = _VALUES.get(name, (name, 1.0))
        both = [interval((unit * frame.loc[frame[knob] == value, name]).tolist()) for value in settings]
        plain = label.replace("<br>", " ")
        largest = max(mean + half for mean, half in both)
        table[plain], table[f"{plain} ±"] = [mean for mean, _ in both], [half for _, half in both]
        at = {"row": 1, "col": column}
        figure.add_scatter(
            x=[f"{value:g}" for value in frame[knob]],
            y=(unit * frame[name]).tolist(),
            mode="markers",
            marker={"symbol": "circle-open", "size": 7, "color": OKABE_ITO["grey"]},
            name="one run",
            legendgroup="run",
            showlegend=column == 1,
            **at,
        )
        figure.add_scatter(
            x=names,
            y=[mean for mean, _ in both],
            error_y={"type": "data", "array": [half for _, half in both], "thickness": 2, "width": 6},
            mode="lines+markers",
            line={"color": OKABE_ITO["blue"], "width": 2},
            marker={"symbol": "square", "size": 9, "color": OKABE_ITO["blue"]},
            name="mean, 95 % interval",
            legendgroup="mean",
            showlegend=column == 1,
            **at,
        )
        if baseline is not None:
            level = unit * float(baseline[name].mean())
            figure.add_scatter(
                x=names,
                y=[level] * len(names),
                mode="lines",
                line={"color": OKABE_ITO["vermillion"], "width": 2, "dash": "dash"},
                name="baseline, mean",
                legendgroup="baseline",
                showlegend=column == 1,
                **at,
            )
        figure.update_xaxes(title_text=_KNOBS.get(knob, knob), type="category", categoryarray=names, **at)
        figure.update_yaxes(
            title_text=label,
            tickformat="~e" if 0 < largest < 1e-2 else None,  # exponents of powers are too small to read
            rangemode="normal" if name == "accuracy" else "tozero",  # a hundredth of the bytes is no trend
            **at,
        )
    shown = pd.DataFrame(table, index=pd.Index(settings, name=knob))
    runs = frame.groupby(knob).size()
    words = "; ".join(
        f"{label} " + ", ".join(f"{mean:.4g} ± {half:.2g}" for mean, half in zip(shown[label], shown[f"{label} ±"]))
        for label in table
        if not label.endswith(" ±")
    )
    called = _KNOBS.get(knob, knob)
    caption = f"For {called} {', '.join(names)}, {runs.min()} runs each, mean and 95 % interval: {words}."
    finish(figure, title=f"What {called} changes", caption=caption, dark=dark, height=350)
    return Bundle(figure, shown)
