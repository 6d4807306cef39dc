"""Seven models over one exchange: what few bits do to output and gradient at every depth, and to a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame


__all__ = ["draw_depth"]

_LOOKS = {
    "gcn": (OKABE_ITO["vermillion"], "solid", "circle"),
    "graphsage": (OKABE_ITO["orange"], "dash", "square"),
    "gat": (OKABE_ITO["purple"], "dashdot", "diamond"),
    "jknet": (OKABE_ITO["grey"], "dot", "triangle-up"),
    "gcnii": (OKABE_ITO["green"], "solid", "x"),
    "sgc": (OKABE_ITO["sky"], "dash", "cross"),
    "dagnn": (OKABE_ITO["blue"], "dot", "star"),
}


def draw_depth(table: DataFrame, *, bits: int = 2, dark: bool = False) -> Bundle:
    """Draw `depth_error`: output left, gradient right, a line a model, one colour, dash and marker each."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=2, subplot_titles=["output", "gradient"], horizontal_spacing=0.12)
    models = list(dict.fromkeys(table.index.get_level_values("model")))
    for column, what in enumerate(("output (%)", "gradient (%)"), start=1):
        for model in models:
            values = table.loc[model, what]
            color, dash, symbol = _LOOKS.get(model, (OKABE_ITO["grey"], "solid", "circle"))
            figure.add_scatter(
                x=values.index.tolist(),
                y=values.tolist(),
                mode="lines+markers",
                name=model,
                legendgroup=model,
                showlegend=column == 1,
                line={"color": color, "dash": dash, "width": 2},
                marker={"symbol": symbol, "size": 9, "color": color},
                hovertemplate=f"{model}: %{{y:.1f}} % at depth %{{x}}<extra></extra>",
                row=1,
                col=column,
            )
    depths = sorted(set(table.index.get_level_values("depth")))
    figure.update_xaxes(title_text="layers or hops", type="log", tickvals=depths)
    figure.update_yaxes(type="log", tickvals=[1, 2, 5, 10, 20, 50, 100, 200, 500])
    figure.update_yaxes(title_text="distance from exact messages (%)", row=1, col=1)
    low, high = depths[0], depths[-1]
    words = ", ".join(
        f"{model} {table.loc[(model, low), 'output (%)']:.2g} → {table.loc[(model, high), 'output (%)']:.2g} %"
        for model in models
    )
    caption = (
        f"By how much {human_bits(bits)} change{'s' if bits == 1 else ''} the output, at depth {low} → {high}: {words}."
    )
    finish(figure, title=f"Error against depth, {human_bits(bits)}", caption=caption, dark=dark, height=420)
    figure.update_layout(legend={"y": -0.2, "yanchor": "top"}, margin={"t": 76, "b": 100})
    return Bundle(figure, table.reset_index("depth"))
