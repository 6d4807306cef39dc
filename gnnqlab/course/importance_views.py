"""Whether SYLVIE's importance helps at equal bytes: variance with its widths moved to other rows, graph by graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.course.experiments.importance_ablation import MASKS
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import scatter

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_importance_ablation"]

_STYLES = dict(zip(MASKS[1:], ("blue circle", "vermillion square", "green diamond"), strict=True))


def draw_importance_ablation(tables: Mapping[str, DataFrame], *, dark: bool = False) -> Bundle:
    """Draw the variance of each mask over that of importance, with intervals; above 1 importance is better.

    Args:
        tables: of :func:`gnnqlab.course.experiments.importance_ablation.importance_ablation`, by what was measured.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is none.
    """
    import pandas as pd

    if not tables:
        raise ValueError("a table of importance_ablation is needed, got none")
    words = "; ".join(
        f"{name} "
        + ", ".join(f"{mask} {table.loc[mask, 'ratio']:.2f} ± {table.loc[mask, '±']:.2f}" for mask in _STYLES)
        for name, table in tables.items()
    )
    shown = pd.concat(tables, names=["measured", "mask"])
    rows = shown.reset_index()
    figure = scatter(
        rows[rows["mask"].isin(list(_STYLES))],
        x="measured",
        y="ratio",
        by="mask",
        styles=_STYLES,
        size=9,
        error="±",
        details="±",
        hover="%{x}: %{y:.2f} ± %{customdata:.2f}",
        levels={"": 1.0},
        log="y",
        x_axis="graph and model",
        y_axis="gradient variance / that with importance",
        title="The same widths on other rows",
        caption=f"Gradient variance at equal bytes over that with importance (95 % intervals): {words}.",
        dark=dark,
        height=400,
    )
    return Bundle(figure.update_layout(scattermode="group"), shown)
