"""Boundary sampling, to be looked at: which rows an epoch leaves out, what sums are then, what training so costs.

Letters: V owned rows of a worker, H its halo rows, D columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines, panels, scatter

if TYPE_CHECKING:
    from pandas import DataFrame


__all__ = ["draw_shares", "draw_sums"]


def draw_sums(frame: DataFrame, *, node: int | None = None, dark: bool = False) -> Bundle:
    """Draw `sampled_sums`: a point an epoch, their mean so far, and the sum over all rows."""
    exact, mean = float(frame["all rows"].iloc[-1]), float(frame["mean so far"].iloc[-1])
    which = "" if node is None else f" of node {node}"
    caption = (
        f"The sum{which} in {len(frame)} epochs lies between {frame['sum'].min():.3g} and {frame['sum'].max():.3g}; "
        f"its mean is {mean:.3g}, over all rows it is {exact:.3g}."
    )
    figure = scatter(frame, y={"sum": "sum of an epoch"}, styles=["sky"], size=6, details="kept")
    lines(
        frame,
        y={"mean so far": "mean of the epochs so far", "all rows": "sum over all rows"},
        mode="lines",
        styles=["blue", "vermillion dash"],
        details="kept",
        figure=figure,
        x_axis="epoch",
        y_axis="sum over the neighbours (unit of a row)",
        title=f"A sum{which} of sampled rows",
        caption=caption,
        dark=dark,
        height=340,
    )
    return Bundle(figure, frame)


def draw_shares(frame: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw `compare_shares`: accuracy, final loss and bytes against p, every run a point, and their means.

    Raises:
        ValueError: if there is no run.
    """
    if frame.empty:
        raise ValueError("a line for each run is needed, got none; see compare_shares")
    values = {
        "accuracy (%)": ("test accuracy (%)", "blue circle"),
        "final loss": ("training loss at the end", "vermillion diamond"),
        "MB an epoch": ("sent (MB an epoch)", "green square"),
    }
    means = frame.groupby("p")[list(values)].mean()
    names = [f"{share:g}" for share in means.index]
    charts = []
    for value, (label, style) in values.items():
        chart = scatter(
            frame.assign(p=[f"{share:g}" for share in frame["p"]]),
            x="p",
            y={value: "one run"},
            size=7,
            styles=[f"grey {style.split()[1]}-open"],
            y_axis=label,
            x_axis={"title_text": "share p of rows", "type": "category", "categoryarray": names},
        )
        # Shares stand side by side, not to scale: no line between them.
        charts.append(scatter(means.set_axis(names), y={value: "mean"}, styles=[style], size=11, figure=chart))
    words = "; ".join(
        f"p = {name}: {line['accuracy (%)']:.1f} %, loss {line['final loss']:.3g}, {line['MB an epoch']:.2g} MB"
        for name, (_, line) in zip(names, means.iterrows())
    )
    runs = int(frame.groupby("p").size().min())
    caption = f"Accuracy, loss and bytes by share of boundary rows, {runs} run{'s' if runs > 1 else ''} each: {words}."
    title = "What a share of the boundary rows buys"
    return Bundle(panels(charts, gap=0.1, title=title, caption=caption, dark=dark, legend_below=True), means)
