"""Boundary sampling, to be looked at: which rows an epoch leaves out, what sums are then, what training so costs.

Letters: V owned rows of a worker, H its halo rows, D columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame


__all__ = ["draw_shares", "draw_sums"]


def draw_sums(frame: DataFrame, *, node: int | None = None, dark: bool = False) -> Bundle:
    """Draw `sampled_sums`: a point an epoch, their mean so far, and the sum over all rows."""
    import plotly.graph_objects as go

    figure = go.Figure()
    looks = {
        "sum": ("sum of an epoch", {"mode": "markers", "marker": {"color": OKABE_ITO["sky"], "size": 6}}),
        "mean so far": (
            "mean of the epochs so far",
            {"mode": "lines", "line": {"color": OKABE_ITO["blue"], "width": 3}},
        ),
        "all rows": (
            "sum over all rows",
            {"mode": "lines", "line": {"color": OKABE_ITO["vermillion"], "width": 2, "dash": "dash"}},
        ),
    }
    for column, (name, look) in looks.items():
        figure.add_scatter(
            x=frame.index.tolist(),
            y=frame[column].tolist(),
            name=name,
            customdata=frame["kept"].tolist(),
            hovertemplate=f"{name}: %{{y:.3g}} · epoch %{{x}}, kept: %{{customdata}}<extra></extra>",
            **look,
        )
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(title_text="sum over the neighbours (unit of a row)")
    exact, mean = float(frame["all rows"].iloc[-1]), float(frame["mean so far"].iloc[-1])
    which = "" if node is None else f" of node {node}"
    caption = (
        f"The sum{which} in {len(frame)} epochs lies between {frame['sum'].min():.3g} and {frame['sum'].max():.3g}; "
        f"its mean is {mean:.3g}, over all rows it is {exact:.3g}."
    )
    finish(figure, title=f"A sum{which} of sampled rows", caption=caption, dark=dark, height=340)
    return Bundle(figure, frame)


def draw_shares(frame: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw `compare_shares`: accuracy, final loss and bytes against p, every run a point, and their means.

    Raises:
        ValueError: if there is no run.
    """
    from plotly.subplots import make_subplots

    if frame.empty:
        raise ValueError("a line for each run is needed, got none; see compare_shares")
    values = {
        "accuracy (%)": ("test accuracy (%)", OKABE_ITO["blue"], "circle"),
        "final loss": ("training loss at the end", OKABE_ITO["vermillion"], "diamond"),
        "MB an epoch": ("sent (MB an epoch)", OKABE_ITO["green"], "square"),
    }
    means = frame.groupby("p")[list(values)].mean()
    names = [f"{share:g}" for share in means.index]
    figure = make_subplots(rows=1, cols=len(values), horizontal_spacing=0.1)
    for column, (value, (label, color, symbol)) in enumerate(values.items(), start=1):
        at = {"row": 1, "col": column}
        figure.add_scatter(
            x=[f"{share:g}" for share in frame["p"]],
            y=frame[value].tolist(),
            mode="markers",
            marker={"symbol": f"{symbol}-open", "size": 7, "color": OKABE_ITO["grey"]},
            name="one run",
            legendgroup="run",
            showlegend=column == 1,
            **at,
        )
        figure.add_scatter(
            x=names,
            y=means[value].tolist(),
            mode="markers",  # shares stand side by side, not to scale: no line between them
            marker={"symbol": symbol, "size": 11, "color": color},
            name="mean",
            legendgroup="mean",
            showlegend=column == 1,
            **at,
        )
        figure.update_xaxes(title_text="share p of rows", type="category", categoryarray=names, **at)
        figure.update_yaxes(title_text=label, **at)
    words = "; ".join(
        f"p = {name}: {line['accuracy (%)']:.1f} %, loss {line['final loss']:.3g}, {line['MB an epoch']:.2g} MB"
        for name, (_, line) in zip(names, means.iterrows())
    )
    runs = int(frame.groupby("p").size().min())
    caption = f"Accuracy, loss and bytes by share of boundary rows, {runs} run{'s' if runs > 1 else ''} each: {words}."
    finish(figure, title="What a share of the boundary rows buys", caption=caption, dark=dark, height=360)
    figure.update_layout(legend={"y": -0.25, "yanchor": "top"}, margin={"t": 50, "b": 90})
    return Bundle(figure, means)
