"""Seven models over one exchange: what few bits do to output and gradient at every depth, and to a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines, panels

if TYPE_CHECKING:
    from pandas import DataFrame


__all__ = ["draw_depth"]

_LOOKS = {
    "gcn": "vermillion solid circle",
    "graphsage": "orange dash square",
    "gat": "purple dashdot diamond",
    "jknet": "grey dot triangle-up",
    "gcnii": "green solid x",
    "sgc": "sky dash cross",
    "dagnn": "blue dot star",
}


def draw_depth(table: DataFrame, *, bits: int = 2, dark: bool = False) -> Bundle:
    """Draw `depth_error`: output left, gradient right, a line a model, one colour, dash and marker each."""
    rows = table.reset_index()
    depths = sorted(set(rows["depth"]))
    error = {"title_text": "distance from exact messages (%)", "tickvals": [1, 2, 5, 10, 20, 50, 100, 200, 500]}
    charts = {
        what: lines(
            rows, x="depth", y=f"{what} (%)", by="model", styles=_LOOKS, size=9, log="xy",
            x_axis={"title_text": "layers or hops", "tickvals": depths}, y_axis=error,
        )
        for what in ("output", "gradient")
    }  # fmt: skip
    low, high = depths[0], depths[-1]
    words = ", ".join(
        f"{model} {table.loc[(model, low), 'output (%)']:.2g} → {table.loc[(model, high), 'output (%)']:.2g} %"
        for model in rows["model"].unique()
    )
    caption = (
        f"By how much {human_bits(bits)} change{'s' if bits == 1 else ''} the output, at depth {low} → {high}: {words}."
    )
    title = f"Error against depth, {human_bits(bits)}"
    figure = panels(charts, gap=0.12, title=title, caption=caption, dark=dark, height=420, legend_below=True)
    return Bundle(figure, table.reset_index("depth"))
