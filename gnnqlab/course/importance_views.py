"""Whether SYLVIE's importance helps at equal bytes: variance with its widths moved to other rows, graph by graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.course.experiments.importance_ablation import MASKS
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_importance_ablation"]

_COLORS = dict(zip(MASKS[1:], ("blue", "vermillion", "green"), strict=True))


def draw_importance_ablation(tables: Mapping[str, DataFrame], *, dark: bool = False) -> Bundle:
    """Draw the variance of each mask over that of importance, with intervals; above 1 importance is better.

    Args:
        tables: of :func:`gnnqlab.course.experiments.importance_ablation.importance_ablation`, by what was measured.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is none.
    """
    import pandas as pd
    import plotly.graph_objects as go

    if not tables:
        raise ValueError("a table of importance_ablation is needed, got none")
    names, figure = list(tables), go.Figure()
    for mask, color in _COLORS.items():
        ratios = [float(table.loc[mask, "ratio"]) for table in tables.values()]
        halves = [float(table.loc[mask, "±"]) for table in tables.values()]
        figure.add_scatter(
            x=names,
            y=ratios,
            mode="markers",
            name=mask,
            error_y={"type": "data", "array": halves},
            marker={"color": OKABE_ITO[color], "size": 9},
            customdata=halves,
            hovertemplate=f"{mask} on %{{x}}: %{{y:.2f}} ± %{{customdata:.2f}}<extra></extra>",
        )
    figure.add_hline(y=1.0, line={"color": OKABE_ITO["grey"], "dash": "dot"})
    figure.update_xaxes(title_text="graph and model")
    figure.update_yaxes(title_text="gradient variance / that with importance", type="log")
    figure.update_layout(scattermode="group")
    words = "; ".join(
        f"{name} "
        + ", ".join(f"{mask} {table.loc[mask, 'ratio']:.2f} ± {table.loc[mask, '±']:.2f}" for mask in _COLORS)
        for name, table in tables.items()
    )
    caption = f"Gradient variance at equal bytes over that with importance (95 % intervals): {words}."
    finish(figure, title="The same widths on other rows", caption=caption, dark=dark, height=400)
    return Bundle(figure, pd.concat(tables, names=["measured", "mask"]))
