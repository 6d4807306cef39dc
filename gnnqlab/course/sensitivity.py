"""How much a knob matters: means of several seeds with intervals, by value of one setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines, panels, scatter
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

    missing = [name for name in (knob, *values) if name not in frame]
    if missing or frame.empty:
        raise ValueError(f"a line for each run needs columns {(knob, *values)}, missing {missing}; see sweep_table")
    settings = sorted(frame[knob].unique())
    names = [f"{value:g}" for value in settings]
    called = _KNOBS.get(knob, knob)
    along = {"title_text": called, "type": "category", "categoryarray": names}
    shown, charts = pd.DataFrame(index=pd.Index(settings, name=knob)), []
    for name in values:
        label, unit = _VALUES.get(name, (name, 1.0))
        both = [interval((unit * frame.loc[frame[knob] == value, name]).tolist()) for value in settings]
        table = pd.DataFrame(both, columns=["mean", "half"], index=names)
        plain = label.replace("<br>", " ")
        shown[plain], shown[f"{plain} ±"] = table["mean"].tolist(), table["half"].tolist()
        runs = pd.DataFrame({"at": [f"{value:g}" for value in frame[knob]], "one": unit * frame[name]})
        figure = scatter(runs, x="at", y={"one": "one run"}, styles=["grey circle-open"], size=7, x_axis=along)
        exponents = 0 < (table["mean"] + table["half"]).max() < 1e-2  # those of powers are too small to read
        lines(
            table,
            y={"mean": "mean, 95 % interval"},
            styles=["blue solid square"],
            size=9,
            error="half",
            y_axis={
                "title_text": label,
                "tickformat": "~e" if exponents else None,
                "rangemode": "normal" if name == "accuracy" else "tozero",  # a hundredth of the bytes is no trend
            },
            figure=figure,
        )
        if baseline is not None:
            level = table.assign(level=unit * float(baseline[name].mean()))
            named = {"level": "baseline, mean"}
            lines(level, y=named, styles=["vermillion dash"], mode="lines", figure=figure)
        charts.append(figure)
    words = "; ".join(
        f"{label} " + ", ".join(f"{mean:.4g} ± {half:.2g}" for mean, half in zip(shown[label], shown[f"{label} ±"]))
        for label in shown
        if not label.endswith(" ±")
    )
    caption = (
        f"For {called} {', '.join(names)}, {frame.groupby(knob).size().min()} runs each, "
        f"mean and 95 % interval: {words}."
    )
    figure = panels(charts, gap=0.14, title=f"What {called} changes", caption=caption, dark=dark, height=350)
    return Bundle(figure, shown)
