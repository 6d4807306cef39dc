"""Charts of codecs: the code of each row, one row through each codec, and errors over bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnqlab.bits.in_words import human_bits
from gnnqlab.bits.row import row_bytes
from gnnqlab.former_names import former_functions
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import add_slider, lines, panels, scatter
from gnnqlab.lab.figures.log_ticks import value_ticks
from gnnqlab.message.codecs.codec import Noise

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from gnnqlab.message.codecs.codec import Codec

__all__ = [
    "cheapest_codec",
    "draw_choices",
    "draw_codecs",
    "draw_shares",
    "draw_row_by_codec",
    "decode_repeatedly",
    "shares",
]
__getattr__ = former_functions(
    __name__, {"sent_often": "decode_repeatedly", "row_through": "draw_row_by_codec", "cheapest": "cheapest_codec"}
)

# Value of ``rotated`` -> name of the code in the legend.
_KINDS = {False: "between its ends", True: "rotated"}
_LOOKS = ("blue circle", "vermillion diamond")
_WIDTHS = {1: "vermillion solid circle", 2: "orange dash square", 4: "blue dot diamond"}
_WIDEST = (1e-3, 1e3)
"""Limits to which drawn ratios are clipped."""


def shares(frame: DataFrame) -> DataFrame:
    """Return the share of rotated rows: one line per epoch, direction and layer, one column per bit-width.

    Args:
        frame: result of :func:`gnnqlab.course.experiments.codecs_over_epochs.codes_chosen`.

    Example:
        >>> import pandas as pd
        >>> rows = [(0, "forward", 1, 2, 3.0, 0.5, False), (0, "forward", 1, 2, 9.0, 4.0, True)]
        >>> frame = pd.DataFrame(rows, columns=["epoch", "direction", "layer", "bits", "peak", "ratio", "rotated"])
        >>> shares(frame).loc[(0, "forward", 1), 2].item()
        0.5
    """
    return frame.groupby(["epoch", "direction", "layer", "bits"])["rotated"].mean().unstack("bits")


def draw_choices(frame: DataFrame, *, bits: int = 2, start: int | None = None, dark: bool = False) -> FigureData:
    """Draw every row as a point, one panel per direction and layer, with a slider over epochs.

    The x axis shows the row's range relative to its root mean square, the y axis the error of codes between its ends
    over that of rotated codes; a row above 1 is rotated.

    Args:
        frame: result of :func:`gnnqlab.course.experiments.codecs_over_epochs.codes_chosen`.
        bits: bit-width to draw.
        start: epoch drawn first; the last by default.

    Raises:
        ValueError: if the bit-width or the epoch is not in the frame.
    """
    import pandas as pd

    width_rows = frame[frame["bits"] == bits]
    if width_rows.empty:
        raise ValueError(f"bits must be a bit-width in the frame, {sorted(set(frame['bits']))}, got {bits}")
    epochs = [int(epoch) for epoch in width_rows["epoch"].unique()]
    start = epochs[-1] if start is None else start
    if start not in epochs:
        raise ValueError(f"start must be one of the epochs in the frame, {epochs}, got {start}")
    # The grid has a cell for each direction and layer; a cell without messages (no title) stays empty.
    cells = cells_of(width_rows)
    panes = {place: title for place, title in cells.items() if title}

    def points(place: tuple[str, int], is_rotated: bool, epoch: int) -> DataFrame:
        # rows of one panel and one epoch
        mask = (
            (width_rows["direction"] == place[0]) & (width_rows["layer"] == place[1]) & (width_rows["epoch"] == epoch)
        )
        part = width_rows.loc[
            mask & (width_rows["rotated"] == is_rotated) & width_rows["ratio"].notna(), ["peak", "ratio"]
        ]
        # three digits keep the page small
        return part.assign(ratio=part["ratio"].clip(*_WIDEST)).map(lambda value: float(f"{value:.3g}"))

    def chart(place: tuple[str, int]) -> Any:
        figure = None
        for (is_rotated, name), style in zip(_KINDS.items(), _LOOKS):
            figure = scatter(
                points(place, is_rotated, start),
                x="peak",
                y={"ratio": name},
                styles=[style],
                size=5,
                opacity=0.6,
                x_axis={"title_text": "range (root mean squares)", "tickvals": [2, 5, 10, 20], "title_standoff": 2},
                y_axis={"title_text": "error between ends / rotated", "dtick": 1, "exponentformat": "power"},
                log="xy",
                levels={"": 1.0} if is_rotated else None,
                figure=figure,
            )  # reference line at ratio 1 (equal errors), drawn once per panel
        return figure

    table = shares(width_rows)[bits]
    words = "; ".join(f"{way} layer {layer}: {table[start, way, layer]:.0%}" for way, layer in panes)
    width = human_bits(bits)
    figure = panels(
        {title or place[0]: chart(place) if title else None for place, title in cells.items()},
        rows=2,
        share_y="all",
        gap=(0.04, 0.2),
        title=f"Code that each row chooses in {width}",
        caption=f"Share of rows that choose rotation in {width} after {start} epochs: {words}.",
        dark=dark,
        height=640,
        legend_rows=2,
    )
    figure.update_xaxes(matches="x")
    panel_traces = list(range(len(figure.data)))  # traces of the panels; those of the legend below are not moved
    figure.update_traces(showlegend=False)
    for name, style in zip(_KINDS.values(), _LOOKS):  # plotly omits traces without points from the legend
        scatter(pd.DataFrame({name: [None]}), y=name, styles=[style], figure=figure)
    steps: dict[int, dict[str, list[Any]]] = {}
    # One slider step per epoch: coordinates of every trace, in the order in which the panels were drawn.
    for epoch in epochs:
        pane_points = [points(place, is_rotated, epoch) for place in panes for is_rotated in _KINDS]
        ends = {"x": "peak", "y": "ratio"}
        steps[epoch] = {axis: [pane[column].tolist() for pane in pane_points] for axis, column in ends.items()}
    add_slider(figure, steps, start=start, prefix="epoch ", traces=panel_traces)
    return FigureData(figure, table.rename("share rotated").reset_index().round(3))


def draw_shares(frame: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw the share of rotated rows over epochs, one panel per direction and layer, one line per bit-width.

    Args:
        frame: result of :func:`gnnqlab.course.experiments.codecs_over_epochs.codes_chosen`.
    """
    table = shares(frame)
    # share -> percent, one column per bit-width
    percent = (100 * table).rename(columns=human_bits).reset_index(["direction", "layer"])
    percent.index = percent.index.astype(str)  # a category axis, because the epochs are not evenly spaced
    looks = {human_bits(width): look for width, look in _WIDTHS.items()}

    def chart(way: str, layer: int) -> Any:
        return lines(
            percent[(percent["direction"] == way) & (percent["layer"] == layer)],
            y=list(map(human_bits, table)),
            styles=looks,
            x_axis={"title_text": "epoch", "type": "category"},
            y_axis={"title_text": "rotated (% of the rows)", "range": [-4, 104]},
        )

    last_shares = table.loc[frame["epoch"].iloc[-1]]
    # mean over layers
    ways = {
        way: last_shares.loc[way].mean()
        for way in ("forward", "backward")
        if way in last_shares.index.get_level_values(0)
    }
    words = "; ".join(
        f"{way} " + ", ".join(f"{share:.0%} in {width}" for width, share in width_shares.items())
        for way, width_shares in ways.items()
    )
    caption = f"Share of rotated rows by bit-width after {frame['epoch'].iloc[-1]} epochs, mean over layers: {words}."
    figure = panels(
        {title or place[0]: chart(*place) if title else None for place, title in cells_of(frame).items()},
        rows=2,
        share_y="all",
        gap=(0.04, 0.2),
        title="Share of rotated rows over epochs",
        caption=caption,
        dark=dark,
        height=560,
        legend_rows=2,
    )
    return FigureData(figure, table.round(3).reset_index())


def cells_of(frame: DataFrame) -> dict[tuple[str, int], str]:
    """Return the titles of panels by direction and layer, forward above backward; empty if the frame has no row.

    Example:
        >>> import pandas as pd
        >>> cells_of(pd.DataFrame({"direction": ["backward", "forward", "forward"], "layer": [1, 0, 1]}))
        {('forward', 0): 'forward, layer 0', ('forward', 1): 'forward, layer 1', ('backward', 0): '', \
('backward', 1): 'backward, layer 1'}
    """
    # pairs that occur
    places = {(str(way), int(layer)) for way, layer in zip(frame["direction"], frame["layer"], strict=True)}
    cells = [(way, layer) for way in ("forward", "backward") for layer in sorted({layer for _, layer in places})]
    return {cell: f"{cell[0]}, layer {cell[1]}" if cell in places else "" for cell in cells}


# One style per codec, in the order of the codecs.
_STYLES = (
    "blue solid circle", "orange dash square", "vermillion dot diamond", "green dashdot triangle-up",
    "purple longdash x", "grey longdashdot cross",
)  # fmt: skip
_TICKS = (5, 10, 20, 40, 80, 160, 320, 640, 1280)  # bytes, doubling


def decode_repeatedly(row: Tensor, codec: Codec, bits: int, *, draws: int = 8) -> Tensor:
    """Encode and decode a row in several messages with independent noise; return float32 ``(draws, D)``.

    Args:
        row: float32 ``(D,)``.
        bits: its bit-width.

    Example:
        >>> import torch
        >>> from gnnqlab.message import Stochastic
        >>> decode_repeatedly(torch.tensor([0.0, 1.0]), Stochastic(), 1, draws=2).tolist()
        [[0.0, 1.0], [0.0, 1.0]]
    """
    rows, index = row.unsqueeze(0), torch.tensor([0])  # (D,) -> (1, D)
    layout, decoded_rows = codec.layout(bits, *rows.shape), []
    # The epoch is part of the noise key, so every draw has independent noise.
    for epoch in range(draws):
        segment, out = torch.empty(layout.num_bytes, dtype=torch.uint8), torch.empty_like(rows)
        noise = Noise(0, epoch, 0)
        codec.encode(rows, index, index, layout, segment, noise)
        codec.decode(segment, layout, out, index, accumulate=False, ids=index, noise=noise)
        decoded_rows.append(out[0])
    return torch.stack(decoded_rows)  # draws x (D,) -> (draws, D)


def draw_row_by_codec(
    row: Tensor, codecs: Mapping[str, Codec], *, bits: int = 2, draws: int = 8, dark: bool = False
) -> FigureData:
    """Draw decoded over sent elements of a row, one panel per codec; points on the diagonal have no error.

    Args:
        row: float32 ``(D,)``.
        codecs: name -> codec, at most six.
        draws: number of messages whose elements are drawn.
    """
    import pandas as pd

    scale = float(row.square().mean().sqrt()) or 1.0  # root mean square, the unit of both axes; 1 for a row of zeros
    ends, table, charts = [float(row.min()) / scale, float(row.max()) / scale], [], {}
    x_axis = {"title_text": "sent (root mean squares)", "title_standoff": 4, "nticks": 5}
    for (name, codec), style in zip(codecs.items(), _STYLES):
        decoded_rows = decode_repeatedly(row, codec, bits, draws=draws)
        # mean over messages: variance and bias
        error = float((decoded_rows - row).square().sum(1).mean() / row.square().sum())
        # error of the mean: bias, and variance / draws
        mean_error = float((decoded_rows.mean(0) - row).square().sum() / row.square().sum())
        table.append((name, row_bytes(bits, row.shape[0], codec.param_bytes), 100 * error**0.5, 100 * mean_error**0.5))
        # (draws, D) -> (draws * D,)
        points = pd.DataFrame({"sent": row.repeat(draws) / scale, "arrived": decoded_rows.flatten() / scale})
        charts[name] = scatter(
            points.map(lambda value: float(f"{value:.4g}")),
            x="sent",
            y="arrived",
            styles=[style],
            size=4,
            opacity=0.45,
            x_axis=x_axis,
            y_axis="decoded (root mean squares)",
        )
        diagonal = pd.DataFrame({"sent": ends, "arrived": ends})  # points without error
        lines(diagonal, x="sent", y="arrived", styles=["grey dot"], mode="lines", figure=charts[name])
        charts[name].add_annotation(
            text=f"{100 * error**0.5:.0f} % off", xref="x domain", yref="y domain", x=0.04, y=0.98, xanchor="left",
            yanchor="top", showarrow=False, font={"size": 12},
        )  # fmt: skip
    words = ", ".join(f"{name} {error:.0f} % in {size} bytes" for name, size, error, _ in table)
    caption = f"One row of {row.shape[0]} elements in {human_bits(bits)}, sent {draws} times; relative error: {words}."
    figure = panels(charts, share_y=True, gap=0.03, title="One row through each codec", caption=caption, dark=dark)
    error_label, mean_label = "off by (% of its norm)", f"mean of {draws} messages (% off)"
    return FigureData(
        figure, pd.DataFrame(table, columns=["codec", "bytes", error_label, mean_label]).set_index("codec").round(1)
    )


def draw_codecs(frame: DataFrame, *, start: int | None = None, dark: bool = False) -> FigureData:
    """Draw the error of a message over the bytes of a row, one panel per direction and layer, with a slider of epochs.

    Lower and further left is better. The points of a codec are its bit-widths.

    Args:
        frame: result of :func:`gnnqlab.course.experiments.codecs_over_epochs.codecs_over_epochs`.
        start: epoch drawn first; the last by default.

    Raises:
        ValueError: if ``start`` is not an epoch of the frame.
    """
    epochs = [int(epoch) for epoch in frame["epoch"].unique()]
    start = epochs[-1] if start is None else start
    if start not in epochs:
        raise ValueError(f"start must be one of the epochs in the frame, {epochs}, got {start}")
    # four digits keep the page small
    rows = frame.assign(width=frame["bits"].map(human_bits), squared=frame["squared"].map(lambda y: float(f"{y:.4g}")))
    x_axis = {"title_text": "bytes per row", **value_ticks(_TICKS), "title_standoff": 2}
    y_axis = {"title_text": "squared error / square", "dtick": 2, "exponentformat": "power"}

    def chart(way: str, layer: int, epoch: int) -> Figure:
        layer_rows = rows[(rows["direction"] == way) & (rows["layer"] == layer) & (rows["epoch"] == epoch)]
        return lines(
            layer_rows.sort_values("bits"),
            x="row_bytes",
            y="squared",
            by="codec",
            details="width",
            styles=dict(zip(frame["codec"].unique(), _STYLES)),
            x_axis=x_axis,
            y_axis=y_axis,
            log="y",
        )

    codec_names = cheapest_codec(frame[frame["epoch"] == start])
    words = "; ".join(f"{direction} layer {layer}: {codec}" for (direction, layer), codec in codec_names.items())
    cells = cells_of(frame)
    figure = panels(
        {title or place[0]: chart(*place, start) if title else None for place, title in cells.items()},
        rows=2,
        share_y="all",
        gap=(0.04, 0.2),
        title="Error by bytes per row and codec",
        caption=f"Smallest error within 1.15 times the bytes of 2-bit min-max, after {start} epochs: {words}.",
        dark=dark,
        height=640,
        legend_rows=2,
    )
    # All epochs are drawn once, and the slider swaps their coordinates.
    steps = {}
    for epoch in epochs:
        traces = [trace for place, title in cells.items() if title for trace in chart(*place, epoch).data]
        steps[epoch] = {key: [list(trace[key]) for trace in traces] for key in ("x", "y", "customdata")}
    return FigureData(add_slider(figure, steps, start=start, prefix="epoch "), frame.drop(columns="bias").round(4))


def cheapest_codec(
    frame: DataFrame, *, codec: str = "min-max", bits: int = 2, room: float = 1.15
) -> dict[tuple[str, int], str]:
    """Return the codec of least error for each direction and layer, within ``room`` times the bytes of a reference.

    Args:
        frame: rows of one epoch.
        codec, bits: codec and bit-width of the reference.

    Raises:
        ValueError: if that codec and bit-width are not in the frame.
    """
    names = {}
    for place, part in frame.groupby(["direction", "layer"], sort=False):
        reference = part[(part["codec"] == codec) & (part["bits"] == bits)]
        if reference.empty:
            raise ValueError(
                f"codec and bits must be in the frame, got {codec!r} and {bits}; it has {set(part['codec'])}"
            )
        # Codecs that send no more bytes than the reference, with some tolerance for different parameters.
        fits = part[part["row_bytes"] <= room * float(reference["row_bytes"].iloc[0])]
        best_row = fits.loc[fits["squared"].idxmin()]
        names[place] = f"{best_row['codec']} in {best_row['bits']}"
    return names
