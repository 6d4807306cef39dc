"""Codecs beside each other: one row through each of them, and errors by bytes along a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from gnnqlab.message.codecs.codec import Codec

__all__ = ["cheapest", "draw_codecs", "row_through", "sent_often"]

_COLORS = tuple(OKABE_ITO[name] for name in ("blue", "orange", "vermillion", "green", "purple", "grey"))
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")
_TICKS = (5, 10, 20, 40, 80, 160, 320, 640, 1280)
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def sent_often(row: Tensor, codec: Codec, bits: int, *, draws: int = 8) -> Tensor:
    """Return a row as it arrives in several messages, each with noise of its own, float32 ``(draws, D)``.

    Args:
        row: float32 ``(D,)``.
        bits: its width.

    Example:
        >>> import torch
        >>> from gnnqlab.message import Stochastic
        >>> sent_often(torch.tensor([0.0, 1.0]), Stochastic(), 1, draws=2).tolist()
        [[0.0, 1.0], [0.0, 1.0]]
    """
    import torch

    from gnnqlab.message.codecs.codec import Noise

    rows, first = row.unsqueeze(0), torch.tensor([0])
    layout, found = codec.layout(bits, *rows.shape), []
    for epoch in range(draws):
        segment, out = torch.empty(layout.num_bytes, dtype=torch.uint8), torch.empty_like(rows)
        noise = Noise(0, epoch, 0)
        codec.encode(rows, first, first, layout, segment, noise)
        codec.decode(segment, layout, out, first, accumulate=False, ids=first, noise=noise)
        found.append(out[0])
    return torch.stack(found)


def row_through(
    row: Tensor, codecs: Mapping[str, Codec], *, bits: int = 2, draws: int = 8, dark: bool = False
) -> Bundle:
    """Draw what arrives of a row over what was sent, a panel a codec; on the diagonal nothing is lost.

    Args:
        row: float32 ``(D,)``.
        codecs: name -> codec, at most six.
        draws: messages whose elements are drawn over each other.
    """
    import pandas as pd
    from plotly.subplots import make_subplots

    from gnnqlab.bits.row import row_bytes

    figure = make_subplots(
        rows=1, cols=len(codecs), shared_yaxes=True, horizontal_spacing=0.03, subplot_titles=list(codecs)
    )
    scale = float(row.square().mean().sqrt()) or 1.0
    ends, table = [float(row.min()) / scale, float(row.max()) / scale], []
    for column, (name, codec) in enumerate(codecs.items(), start=1):
        arrived = sent_often(row, codec, bits, draws=draws)
        error = float((arrived - row).square().sum(1).mean() / row.square().sum())
        lasting = float((arrived.mean(0) - row).square().sum() / row.square().sum())
        table.append((name, row_bytes(bits, row.shape[0], codec.param_bytes), 100 * error**0.5, 100 * lasting**0.5))
        sent = row.repeat(draws)
        figure.add_scatter(
            x=[float(f"{value:.4g}") for value in (sent / scale).tolist()],
            y=[float(f"{value:.4g}") for value in (arrived.flatten() / scale).tolist()],
            mode="markers",
            marker={"size": 4, "opacity": 0.45, "color": _COLORS[column - 1], "symbol": _SYMBOLS[column - 1]},
            showlegend=False,
            hovertemplate="sent %{x}, arrived %{y}<extra></extra>",
            row=1,
            col=column,
        )
        figure.add_scatter(
            x=ends,
            y=ends,
            mode="lines",
            line={"color": OKABE_ITO["grey"], "width": 1, "dash": "dot"},
            showlegend=False,
            hoverinfo="skip",
            row=1,
            col=column,
        )
        figure.add_annotation(
            text=f"{100 * error**0.5:.0f} % off",
            xref=f"x{'' if column == 1 else column} domain",
            yref="y domain",
            x=0.04,
            y=0.98,
            xanchor="left",
            yanchor="top",
            showarrow=False,
            font={"size": 12},
        )
    figure.update_xaxes(title_text="sent (root mean squares)", title_standoff=4, nticks=5)
    figure.update_yaxes(title_text="arrived (root mean squares)", col=1)
    words = ", ".join(f"{name} {off:.0f} % in {size} bytes" for name, size, off, _ in table)
    width = human_bits(bits)
    caption = f"One row of {row.shape[0]} elements in {width}, sent {draws} times; it is off by: {words}."
    finish(figure, title="One row through each codec", caption=caption, dark=dark, height=360)
    off, left = "off by (% of its norm)", f"mean of {draws} messages (% off)"
    return Bundle(figure, pd.DataFrame(table, columns=["codec", "bytes", off, left]).set_index("codec").round(1))


def draw_codecs(frame: DataFrame, *, start: int | None = None, dark: bool = False) -> Bundle:
    """Draw the error of a message over the bytes of a row, a panel a direction and layer, with a slider over epochs.

    Lower and further left is better. Points of a codec are its widths.

    Args:
        frame: of :func:`gnnqlab.course.experiments.codecs_over_epochs.codecs_over_epochs`.
        start: the epoch that is drawn first; the last by default.

    Raises:
        ValueError: if ``start`` is not among the epochs.
    """
    from plotly.subplots import make_subplots

    epochs = [int(each) for each in frame["epoch"].unique()]
    start = epochs[-1] if start is None else start
    if start not in epochs:
        raise ValueError(f"start must be one of the epochs in the frame, {epochs}, got {start}")
    by_place = frame.groupby(["direction", "layer"], sort=False)
    places = sorted(by_place.groups, key=lambda place: (place[0] == "backward", place[1]))
    codecs = list(dict.fromkeys(frame["codec"]))
    width = max(sum(place[0] == each for place in places) for each in ("forward", "backward"))
    cells = {place: _cell(places, place) for place in places}
    titles = [""] * (2 * width)
    for (direction, layer), (line, column) in cells.items():
        titles[(line - 1) * width + column - 1] = f"{direction}, layer {layer}"
    figure = make_subplots(rows=2, cols=width, subplot_titles=titles, horizontal_spacing=0.04, vertical_spacing=0.2)
    for place in places:
        for number, codec in enumerate(codecs):
            line, column = cells[place]
            figure.add_scatter(
                **_line(frame, place, codec, start),
                name=codec,
                legendgroup=codec,
                showlegend=place == places[0],
                mode="lines+markers",
                line={"color": _COLORS[number], "width": 2, "dash": _DASHES[number]},
                marker={"size": 8, "symbol": _SYMBOLS[number]},
                hovertemplate="%{text}: %{x} bytes a row, %{y:.3g} of the square<extra>" + codec + "</extra>",
                row=line,
                col=column,
            )
    steps = []
    for epoch in epochs:
        lines = [_line(frame, place, codec, epoch) for place in places for codec in codecs]
        data = {key: [each[key] for each in lines] for key in ("x", "y", "text")}
        steps.append({"label": str(epoch), "method": "restyle", "args": [data]})
    figure.update_layout(
        sliders=[
            {"steps": steps, "active": epochs.index(start), "currentvalue": {"prefix": "epoch "}, "pad": {"t": 60}}
        ]
    )
    figure.update_xaxes(type="log", tickvals=_TICKS, ticktext=[str(each) for each in _TICKS], title_standoff=2)
    figure.update_yaxes(type="log", dtick=2, exponentformat="power", showticklabels=False, matches="y")
    for line in (1, 2):
        first = min(column for other, column in cells.values() if other == line)
        figure.update_yaxes(title_text="squared error / square", showticklabels=True, row=line, col=first)
    figure.update_xaxes(title_text="bytes of a row", row=2)
    best = cheapest(frame[frame["epoch"] == start])
    words = "; ".join(f"{direction} layer {layer}: {codec}" for (direction, layer), codec in best.items())
    caption = f"Least error at most 1.15 times the bytes of min-max's two bits, after {start} epochs: {words}."
    finish(figure, title="What a byte buys, by codec", caption=caption, dark=dark, height=640, legend_rows=2)
    figure.update_layout(margin={"b": 150}, legend={"y": 1.06})
    return Bundle(figure, frame.drop(columns="bias").round(4))


def cheapest(
    frame: DataFrame, *, codec: str = "min-max", bits: int = 2, room: float = 1.15
) -> dict[tuple[str, int], str]:
    """Return for each direction and layer the codec of least error, in ``room`` times the bytes of one of them.

    Args:
        frame: of one epoch.
        codec, bits: whose row it is.

    Raises:
        ValueError: if that codec and width are not in the frame.
    """
    found = {}
    for place, part in frame.groupby(["direction", "layer"], sort=False):
        asked = part[(part["codec"] == codec) & (part["bits"] == bits)]
        if asked.empty:
            raise ValueError(
                f"codec and bits must be in the frame, got {codec!r} and {bits}; it has {set(part['codec'])}"
            )
        fits = part[part["row_bytes"] <= room * float(asked["row_bytes"].iloc[0])]
        best = fits.loc[fits["squared"].idxmin()]
        found[place] = f"{best['codec']} in {best['bits']}"
    return found


def _cell(places: Sequence[tuple[str, int]], place: tuple[str, int]) -> tuple[int, int]:
    """Line and column of a panel: forward above backward, layers below each other's number."""
    layers = sorted({layer for _, layer in places})
    return (1 if place[0] == "forward" else 2), layers.index(place[1]) + 1


def _line(frame: DataFrame, place: tuple[str, int], codec: str, epoch: int) -> dict[str, list[float] | list[str]]:
    here = (frame["direction"] == place[0]) & (frame["layer"] == place[1]) & (frame["codec"] == codec)
    part = frame[here & (frame["epoch"] == epoch)].sort_values("bits")
    words = [human_bits(bits) for bits in part["bits"]]
    return {"x": part["row_bytes"].tolist(), "y": [float(f"{y:.4g}") for y in part["squared"]], "text": words}
