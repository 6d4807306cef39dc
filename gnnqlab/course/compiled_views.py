"""What the CUDA compiler says of each kernel, drawn: registers, and how many warps that leaves room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.course.gpu_views import Notice
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_compiled"]

_STEPS = {32: 100, 40: 75, 48: 62.5, 64: 50}
"""Registers a thread -> warps that fit (%), for blocks of eight warps."""
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star")


def draw_compiled(table: DataFrame, *, architecture: str = "90", dark: bool = False) -> Bundle | Notice:
    """Draw the registers of each kernel, a line a kernel, a mark a variant of types and sizes, a colour a source file.

    Dotted lines say up to where how many warps fit.

    Args:
        table: of ``benchmarks.kernels.compiled.compiled_kernels``.
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
    lines = table.index.str.partition("<").get_level_values(0)
    for number, (file, some) in enumerate(table.assign(line=lines).groupby("file", sort=False)):
        color = colors[(number + 1) % len(colors)]
        named = {"name": str(file), "legendgroup": str(file)}
        ends = some.groupby("line", sort=False)["registers"].agg(["min", "max"])
        figure.add_scatter(
            x=[value for low, high in ends.itertuples(index=False) for value in (low, high, None)],
            y=[line for line in ends.index for _ in range(3)],
            mode="lines",
            line={"color": color, "width": 2},
            hoverinfo="skip",
            showlegend=False,
            **named,
        )
        figure.add_scatter(
            x=some["registers"].tolist(),
            y=some["line"].tolist(),
            mode="markers",
            marker={"color": color, "size": 10, "symbol": _SYMBOLS[number % len(_SYMBOLS)]},
            customdata=some.reset_index()[["kernel", "occupancy (%)", "spilled (B)"]].to_numpy().tolist(),
            hovertemplate="%{customdata[0]}: %{x} registers, %{customdata[1]:g} % of the warps, "
            f"%{{customdata[2]}} B spilled<extra>{file}</extra>",
            **named,
        )
    for registers, share in _STEPS.items():
        figure.add_vline(
            x=registers + 0.5,
            line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1},
            annotation={"text": f"{share:g} %", "font": {"size": 10}},
            annotation_position="top",
        )
    figure.update_xaxes(
        title_text="registers a thread; dotted: up to here this share of all warps fits",
        range=[0, 1.05 * max(table["registers"].max(), *_STEPS)],
    )
    count = len(set(lines))
    figure.update_yaxes(
        title_text="kernel", type="category", autorange="reversed", dtick=1, tickfont={"size": 11}, showgrid=True
    )
    spilling = int((table["spilled (B)"] > 0).sum())
    least = table["occupancy (%)"].idxmin()
    caption = (
        f"{len(table)} kernels compiled for sm_{architecture}: {spilling or 'none'} spill{'' if spilling else 's'} "
        f"registers; the fewest warps, {table.loc[[least], 'occupancy (%)'].iloc[0]:g} %, fit for {least}."
    )
    title = f"Registers of the CUDA kernels, sm_{architecture}"
    finish(figure, title=title, caption=caption, dark=dark, height=240 + 18 * count)
    figure.update_layout(legend={"y": -60 / (60 + 18 * count), "yanchor": "top"}, margin={"t": 70, "b": 150})
    return Bundle(figure, table)
