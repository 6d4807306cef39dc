"""What the CUDA compiler says of each kernel, drawn: registers, and how many warps that leaves room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.course.gpu_views import Notice
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_compiled"]

_STEPS = {32: 100, 40: 75, 48: 62.5, 64: 50}
"""Registers a thread -> warps that fit (%), for blocks of eight warps."""


def draw_compiled(table: DataFrame, *, architecture: str = "90", dark: bool = False) -> Bundle | Notice:
    """Draw the registers of each kernel, a colour a source file; lines say up to where how many warps fit.

    Args:
        table: of ``gnnqlab.bench.compiled.compiled_kernels``.
        architecture: for the title.
        dark: colours for a dark page.
    """
    import plotly.graph_objects as go

    if table.empty:
        return Notice(
            "No kernel was compiled: nvcc or the sources in cuda_ext are not here. The CUDA toolkit brings nvcc; "
            "no GPU is needed."
        )
    figure = go.Figure()
    colors = list(OKABE_ITO.values())
    for number, (file, some) in enumerate(table.groupby("file", sort=False)):
        figure.add_bar(
            y=some.index.tolist(),
            x=some["registers"].tolist(),
            orientation="h",
            name=str(file),
            marker={"color": colors[(number + 1) % len(colors)], "line": {"width": 0}},
            customdata=some[["occupancy (%)", "spilled (B)"]].to_numpy().tolist(),
            hovertemplate="%{y}: %{x} registers, %{customdata[0]:g} % of the warps, %{customdata[1]} B spilled"
            f"<extra>{file}</extra>",
        )
    for registers, share in _STEPS.items():
        figure.add_vline(
            x=registers + 0.5,
            line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1},
            annotation={"text": f"{share:g} %", "font": {"size": 10}},
            annotation_position="top",
        )
    figure.update_xaxes(
        title_text="registers a thread; dotted: up to here this share of all warps fits", rangemode="tozero"
    )
    figure.update_yaxes(title_text="kernel", autorange="reversed", tickfont={"size": 10})
    spilling = int((table["spilled (B)"] > 0).sum())
    least = table["occupancy (%)"].idxmin()
    caption = (
        f"{len(table)} kernels compiled for sm_{architecture}: {spilling or 'none'} spill{'' if spilling else 's'} "
        f"registers; the fewest warps, {table.loc[[least], 'occupancy (%)'].iloc[0]:g} %, fit for {least}."
    )
    title = f"Registers of the CUDA kernels, sm_{architecture}"
    finish(figure, title=title, caption=caption, dark=dark, height=200 + 18 * len(table))
    figure.update_layout(legend={"y": -60 / (60 + 18 * len(table)), "yanchor": "top"}, margin={"t": 70, "b": 110})
    return Bundle(figure, table)
