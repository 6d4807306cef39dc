"""What the CUDA compiler says of each kernel, drawn: registers, and how many warps that leaves room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.course.gpu_views import Notice
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines, scatter
from gnnqlab.lab.figures.theme import OKABE_ITO

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_compiled"]

_STEPS = {32: 100, 40: 75, 48: 62.5, 64: 50}
"""Registers a thread -> warps that fit (%), for blocks of eight warps."""


def draw_compiled(table: DataFrame, *, architecture: str = "90", dark: bool = False) -> Bundle | Notice:
    """Draw the registers of each kernel, a line a kernel, a mark a variant of types and sizes, a colour a source file.

    Dotted lines say up to where how many warps fit.

    Args:
        table: of ``benchmarks.kernels.compiled.compiled_kernels``.
        architecture: for the title.
        dark: colours for a dark page.
    """
    import pandas as pd

    if table.empty:
        return Notice(
            "No kernel was compiled: nvcc or the sources in cuda_ext are not here. The CUDA toolkit brings nvcc; "
            "no GPU is needed."
        )
    words = [
        f"{kernel}, {share:g} % of the warps, {spilled} B spilled"
        for kernel, share, spilled in zip(table.index, table["occupancy (%)"], table["spilled (B)"])
    ]
    rows = table.assign(line=table.index.str.partition("<").get_level_values(0), words=words)
    ends = rows.groupby(["file", "line"], sort=False)["registers"].agg(["min", "max"]).reset_index()
    spans = pd.concat([ends.assign(at=ends["min"]), ends.assign(at=ends["max"]), ends.assign(at=None)]).sort_index()
    figure = lines(spans, x="at", y="line", by="file", mode="lines", hover="%{y}")
    figure.update_traces(showlegend=False)
    count, spilling = rows["line"].nunique(), int((table["spilled (B)"] > 0).sum())
    for registers, share in _STEPS.items():
        figure.add_vline(
            x=registers + 0.5, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1},
            annotation={"text": f"{share:g} %", "font": {"size": 10}}, annotation_position="top",
        )  # fmt: skip
    least = table["occupancy (%)"].idxmin()
    caption = (
        f"{len(table)} kernels compiled for sm_{architecture}: {spilling or 'none'} spill{'' if spilling else 's'} "
        f"registers; the fewest warps, {table.loc[[least], 'occupancy (%)'].iloc[0]:g} %, fit for {least}."
    )
    registers_axis = {
        "title_text": "registers a thread; dotted: up to here this share of all warps fits",
        "range": [0, 1.05 * max(table["registers"].max(), *_STEPS)],
    }
    kernels_axis = {"type": "category", "autorange": "reversed", "dtick": 1, "tickfont": {"size": 11}}
    scatter(
        rows,
        x="registers",
        y="line",
        by="file",
        size=10,
        details="words",
        hover="%{x} registers, %{customdata}",
        figure=figure,
        x_axis=registers_axis,
        y_axis={"title_text": "kernel", **kernels_axis},
        legend_below=True,
        title=f"Registers of the CUDA kernels, sm_{architecture}",
        caption=caption,
        dark=dark,
        height=240 + 18 * count,
    )
    return Bundle(figure, table)
