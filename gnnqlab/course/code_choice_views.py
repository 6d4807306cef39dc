"""Which rows choose which code: each row of a training by its peak, and the share that is rotated, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_choices", "draw_shares", "shares"]

_KINDS = (("between its ends", False, "blue", "circle"), ("rotated", True, "vermillion", "diamond"))
_WIDTHS = {1: ("vermillion", "circle", "solid"), 2: ("orange", "square", "dash"), 4: ("blue", "diamond", "dot")}
_WIDEST = (1e-3, 1e3)
"""Ratios beyond are drawn at these ends."""


def shares(frame: DataFrame) -> DataFrame:
    """Return the share of rows that are rotated: a line an epoch, direction and layer, a column a width.

    Args:
        frame: of :func:`gnnqlab.course.experiments.codes_chosen.codes_chosen`.

    Example:
        >>> import pandas as pd
        >>> rows = [(0, "forward", 1, 2, 3.0, 0.5, False), (0, "forward", 1, 2, 9.0, 4.0, True)]
        >>> frame = pd.DataFrame(rows, columns=["epoch", "direction", "layer", "bits", "peak", "ratio", "rotated"])
        >>> shares(frame).loc[(0, "forward", 1), 2].item()
        0.5
    """
    return frame.groupby(["epoch", "direction", "layer", "bits"])["rotated"].mean().unstack("bits")


def draw_choices(frame: DataFrame, *, bits: int = 2, start: int | None = None, dark: bool = False) -> Bundle:
    """Draw every row as a point, a panel a direction and layer, with a slider over epochs.

    Across: how peaked it is. Up: how much more codes between its ends err than rotated ones; above 1 it is rotated.

    Args:
        frame: of :func:`gnnqlab.course.experiments.codes_chosen.codes_chosen`.
        bits: the width that is drawn.
        start: the epoch that is drawn first; the last by default.

    Raises:
        ValueError: if the width or the epoch is not in the frame.
    """
    one = frame[frame["bits"] == bits]
    if one.empty:
        raise ValueError(f"bits must be a width in the frame, {sorted(set(frame['bits']))}, got {bits}")
    epochs = [int(each) for each in one["epoch"].unique()]
    start = epochs[-1] if start is None else start
    if start not in epochs:
        raise ValueError(f"start must be one of the epochs in the frame, {epochs}, got {start}")
    places = _places(one)
    figure, cells = _panels(places)
    for place in places:
        for name, rotated, color, symbol in _KINDS:
            line, column = cells[place]
            figure.add_scatter(
                **_points(one, place, rotated, start),
                name=name,
                legendgroup=name,
                showlegend=False,
                mode="markers",
                marker={"size": 5, "opacity": 0.6, "color": OKABE_ITO[color], "symbol": symbol},
                hovertemplate="range %{x} root mean squares, between ends errs %{y:.3g} times<extra>"
                + name
                + "</extra>",
                row=line,
                col=column,
            )
    for name, _, color, symbol in _KINDS:  # a trace without points has no entry of its own
        marker = {"size": 8, "color": OKABE_ITO[color], "symbol": symbol}
        figure.add_scatter(
            x=[None], y=[None], name=name, legendgroup=name, mode="markers", marker=marker, row=1, col=1
        )  # fmt: skip
    for line, column in cells.values():
        figure.add_hline(y=1, line={"color": OKABE_ITO["grey"], "width": 1, "dash": "dot"}, row=line, col=column)
    steps = []
    for epoch in epochs:
        drawn = [_points(one, place, rotated, epoch) for place in places for _, rotated, _, _ in _KINDS]
        data = {key: [each[key] for each in drawn] for key in ("x", "y")}
        drawn_traces = list(range(len(drawn)))
        steps.append({"label": str(epoch), "method": "restyle", "args": [data, drawn_traces]})
    figure.update_layout(
        sliders=[
            {"steps": steps, "active": epochs.index(start), "currentvalue": {"prefix": "epoch "}, "pad": {"t": 60}}
        ]
    )
    figure.update_xaxes(type="log", matches="x", tickvals=[2, 5, 10, 20], title_standoff=2)
    figure.update_yaxes(type="log", dtick=1, exponentformat="power", showticklabels=False, matches="y")
    _titled(figure, cells, "error between ends / rotated", "range (root mean squares)")
    table = shares(one)[bits]
    words = "; ".join(f"{way} layer {layer}: {table[start, way, layer]:.0%}" for way, layer in places)
    width = human_bits(bits)
    caption = f"Rows that choose to be rotated in {width} after {start} epochs: {words}."
    finish(
        figure, title=f"Which code each row chooses in {width}", caption=caption, dark=dark, height=640, legend_rows=2
    )
    figure.update_layout(margin={"b": 150}, legend={"y": 1.09})
    return Bundle(figure, table.rename("share rotated").reset_index().round(3))


def draw_shares(frame: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw the share of rows that are rotated over epochs, a panel a direction and layer, a line a width.

    Args:
        frame: of :func:`gnnqlab.course.experiments.codes_chosen.codes_chosen`.
    """
    places, table = _places(frame), shares(frame)
    figure, cells = _panels(places)
    epochs = [int(each) for each in frame["epoch"].unique()]
    for place in places:
        for width in table.columns:
            color, symbol, dash = _WIDTHS[int(width)]
            line, column = cells[place]
            name = human_bits(width)
            figure.add_scatter(
                x=[str(epoch) for epoch in epochs],
                y=[float(f"{100 * table.loc[(epoch, *place), width]:.4g}") for epoch in epochs],
                name=name,
                legendgroup=name,
                showlegend=place == places[0],
                mode="lines+markers",
                line={"color": OKABE_ITO[color], "width": 2, "dash": dash},
                marker={"size": 8, "symbol": symbol},
                hovertemplate="epoch %{x}: %{y} % of the rows<extra>" + name + "</extra>",
                row=line,
                col=column,
            )
    figure.update_xaxes(type="category")
    figure.update_yaxes(range=[-4, 104], showticklabels=False)
    _titled(figure, cells, "rotated (% of the rows)", "epoch")
    last = table.loc[epochs[-1]]
    ways = {way: last.loc[way].mean() for way in ("forward", "backward") if way in last.index.get_level_values(0)}
    words = "; ".join(
        f"{way} " + ", ".join(f"{share:.0%} in {width}" for width, share in each.items()) for way, each in ways.items()
    )
    caption = f"After {epochs[-1]} epochs, mean of the layers, share of rows that are rotated by bits: {words}."
    finish(figure, title="Who is rotated, and when", caption=caption, dark=dark, height=560, legend_rows=2)
    figure.update_layout(legend={"y": 1.09})
    return Bundle(figure, table.round(3).reset_index())


def _places(frame: DataFrame) -> list[tuple[str, int]]:
    """Directions and layers, forward first."""
    found = {(str(way), int(layer)) for way, layer in zip(frame["direction"], frame["layer"], strict=True)}
    return sorted(found, key=lambda place: (place[0] == "backward", place[1]))


def _panels(places: Sequence[tuple[str, int]]) -> tuple[Any, dict[tuple[str, int], tuple[int, int]]]:
    """A figure with forward above backward, a column a layer, and the cell of each place."""
    from plotly.subplots import make_subplots

    layers = sorted({layer for _, layer in places})
    cells = {place: (1 + (place[0] == "backward"), 1 + layers.index(place[1])) for place in places}
    titles = [""] * (2 * len(layers))
    for (way, layer), (line, column) in cells.items():
        titles[(line - 1) * len(layers) + column - 1] = f"{way}, layer {layer}"
    figure = make_subplots(
        rows=2, cols=len(layers), subplot_titles=titles, horizontal_spacing=0.04, vertical_spacing=0.2
    )
    return figure, cells


def _titled(figure: Any, cells: dict[tuple[str, int], tuple[int, int]], up: str, across: str) -> None:
    """Name the axes at the figure's left and lower edge."""
    for line in {line for line, _ in cells.values()}:
        first = min(column for other, column in cells.values() if other == line)
        figure.update_yaxes(title_text=up, showticklabels=True, row=line, col=first)
    figure.update_xaxes(title_text=across, row=2)


def _points(frame: DataFrame, place: tuple[str, int], rotated: bool, epoch: int) -> dict[str, list[float]]:
    here = (frame["direction"] == place[0]) & (frame["layer"] == place[1]) & (frame["epoch"] == epoch)
    part = frame[here & (frame["rotated"] == rotated) & frame["ratio"].notna()]
    ratios = part["ratio"].clip(*_WIDEST)
    return {"x": [float(f"{x:.3g}") for x in part["peak"]], "y": [float(f"{y:.3g}") for y in ratios]}
