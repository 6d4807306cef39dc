"""How much a knob matters: one setting varied, several seeds each, means with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.bundle import Bundle
from gnnqlab.lab.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.launch.run import Run

__all__ = ["interval", "repeated", "sensitivity_chart", "sweep_table"]

_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""97.5 % points of Student's t for 1, 2, … 9 degrees of freedom."""
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


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and half the width of its 95 % interval (Student's t); 0 wide for a single value.

    Example:
        >>> mean, half = interval([1.0, 2.0, 3.0])
        >>> mean, round(half, 3)  # 4.303 · 1 / sqrt(3)
        (2.0, 2.484)
    """
    if not values:
        raise ValueError("an interval needs at least one value, got none")
    count = len(values)
    mean = sum(values) / count
    if count == 1:
        return mean, 0.0
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    factor = _T[count - 2] if count - 2 < len(_T) else 1.96
    return mean, factor * spread / math.sqrt(count)


def repeated(graph: Any, *, seeds: Sequence[int] = (0, 1, 2), **settings: Any) -> list[Run]:
    """Launch the same training once a seed, one after another, and wait for each.

    Args:
        graph: as for :func:`gnnqlab.launch`.
        seeds: of weights, dropout and noise.
        **settings: as for :func:`gnnqlab.launch`.
    """
    from gnnqlab.launch.start import launch

    return [launch(graph, seed=seed, wait=True, **settings) for seed in seeds]


def sweep_table(runs: dict[Any, Sequence[Run]], *, knob: str) -> DataFrame:
    """Return a line for each run: ``knob, seed, accuracy, epoch_s, bytes_sent``.

    Args:
        runs: by value of the knob.
        knob: its name, for the first column.
    """
    import pandas as pd

    rows = []
    for value, some in runs.items():
        for run in some:
            summary = run.summary
            score = summary.get("test_accuracy", summary.get("test_f1_micro"))
            rows.append(
                {
                    knob: value,
                    "seed": run.config.train.seed,
                    "accuracy": float("nan") if score is None else float(score),
                    "epoch_s": summary["epoch_s"],
                    "bytes_sent": summary["bytes_sent"],
                }
            )
    return pd.DataFrame(rows)


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
        frame: one line a run: the knob's column and one for each quantity, see `sweep_table`.
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
        figure.update_yaxes(title_text=label, exponentformat="power", **at)
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
