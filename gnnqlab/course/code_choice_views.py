"""Which rows choose which code: each row of a training by its peak, and the share that is rotated, epoch by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import add_slider, lines, panels, scatter

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_choices", "draw_shares", "shares"]

_KINDS = {False: "between its ends", True: "rotated"}
_LOOKS = ("blue circle", "vermillion diamond")
_WIDTHS = {1: "vermillion solid circle", 2: "orange dash square", 4: "blue dot diamond"}
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
    import pandas as pd

    one = frame[frame["bits"] == bits]
    if one.empty:
        raise ValueError(f"bits must be a width in the frame, {sorted(set(frame['bits']))}, got {bits}")
    epochs = [int(each) for each in one["epoch"].unique()]
    start = epochs[-1] if start is None else start
    if start not in epochs:
        raise ValueError(f"start must be one of the epochs in the frame, {epochs}, got {start}")
    cells = cells_of(one)
    panes = {place: title for place, title in cells.items() if title}

    def points(place: tuple[str, int], rotated: bool, epoch: int) -> DataFrame:
        here = (one["direction"] == place[0]) & (one["layer"] == place[1]) & (one["epoch"] == epoch)
        part = one.loc[here & (one["rotated"] == rotated) & one["ratio"].notna(), ["peak", "ratio"]]
        return part.assign(ratio=part["ratio"].clip(*_WIDEST)).map(lambda value: float(f"{value:.3g}"))

    def chart(place: tuple[str, int]) -> Any:
        figure = None
        for (rotated, name), style in zip(_KINDS.items(), _LOOKS):
            figure = scatter(
                points(place, rotated, start),
                x="peak",
                y={"ratio": name},
                styles=[style],
                size=5,
                opacity=0.6,
                x_axis={"title_text": "range (root mean squares)", "tickvals": [2, 5, 10, 20], "title_standoff": 2},
                y_axis={"title_text": "error between ends / rotated", "dtick": 1, "exponentformat": "power"},
                log="xy",
                levels={"": 1.0} if rotated else None,
                figure=figure,
            )
        return figure

    table = shares(one)[bits]
    words = "; ".join(f"{way} layer {layer}: {table[start, way, layer]:.0%}" for way, layer in panes)
    width = human_bits(bits)
    figure = panels(
        {title or place[0]: chart(place) if title else None for place, title in cells.items()},
        rows=2,
        share_y="all",
        gap=(0.04, 0.2),
        title=f"Which code each row chooses in {width}",
        caption=f"Rows that choose to be rotated in {width} after {start} epochs: {words}.",
        dark=dark,
        height=640,
        legend_rows=2,
    )
    figure.update_xaxes(matches="x")
    moved = list(range(len(figure.data)))
    figure.update_traces(showlegend=False)
    for name, style in zip(_KINDS.values(), _LOOKS):  # a trace without points has no entry of its own
        scatter(pd.DataFrame({name: [None]}), y=name, styles=[style], figure=figure)
    steps: dict[int, dict[str, list[Any]]] = {}
    for epoch in epochs:
        drawn = [points(place, rotated, epoch) for place in panes for rotated in _KINDS]
        ends = {"x": "peak", "y": "ratio"}
        steps[epoch] = {axis: [each[column].tolist() for each in drawn] for axis, column in ends.items()}
    add_slider(figure, steps, start=start, prefix="epoch ", traces=moved)
    return Bundle(figure, table.rename("share rotated").reset_index().round(3))


def draw_shares(frame: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw the share of rows that are rotated over epochs, a panel a direction and layer, a line a width.

    Args:
        frame: of :func:`gnnqlab.course.experiments.codes_chosen.codes_chosen`.
    """
    table = shares(frame)
    percent = (100 * table).rename(columns=human_bits).reset_index(["direction", "layer"])
    percent.index = percent.index.astype(str)
    looks = {human_bits(width): look for width, look in _WIDTHS.items()}

    def chart(way: str, layer: int) -> Any:
        return lines(
            percent[(percent["direction"] == way) & (percent["layer"] == layer)],
            y=list(map(human_bits, table)),
            styles=looks,
            x_axis={"title_text": "epoch", "type": "category"},
            y_axis={"title_text": "rotated (% of the rows)", "range": [-4, 104]},
        )

    last = table.loc[frame["epoch"].iloc[-1]]
    ways = {way: last.loc[way].mean() for way in ("forward", "backward") if way in last.index.get_level_values(0)}
    words = "; ".join(
        f"{way} " + ", ".join(f"{share:.0%} in {width}" for width, share in each.items()) for way, each in ways.items()
    )
    caption = (
        f"After {frame['epoch'].iloc[-1]} epochs, mean of the layers, share of rows that are rotated by bits: {words}."
    )
    figure = panels(
        {title or place[0]: chart(*place) if title else None for place, title in cells_of(frame).items()},
        rows=2,
        share_y="all",
        gap=(0.04, 0.2),
        title="Who is rotated, and when",
        caption=caption,
        dark=dark,
        height=560,
        legend_rows=2,
    )
    return Bundle(figure, table.round(3).reset_index())


def cells_of(frame: DataFrame) -> dict[tuple[str, int], str]:
    """Return the titles of panels by direction and layer, forward above backward; empty where the frame has nothing.

    Example:
        >>> import pandas as pd
        >>> cells_of(pd.DataFrame({"direction": ["backward", "forward", "forward"], "layer": [1, 0, 1]}))
        {('forward', 0): 'forward, layer 0', ('forward', 1): 'forward, layer 1', ('backward', 0): '', \
('backward', 1): 'backward, layer 1'}
    """
    found = {(str(way), int(layer)) for way, layer in zip(frame["direction"], frame["layer"], strict=True)}
    cells = [(way, layer) for way in ("forward", "backward") for layer in sorted({layer for _, layer in found})]
    return {cell: f"{cell[0]}, layer {cell[1]}" if cell in found else "" for cell in cells}
