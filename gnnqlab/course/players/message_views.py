"""The steps of a message in figures, tables and text: row, quantization levels, rounding, packing, wire, unpacking.

A chart is a figure of its own, or one of several panels. The text describes the row that is followed. The quantization
levels are drawn as the marks of a ruler over the row's range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gnnqlab.course.players.message_walk import MessageWalk
from gnnqlab.course.players.stepped import WalkStep, titled_charts
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.byte_axis import byte_ticks
from gnnqlab.lab.figures.charts import bars, lanes, lines, panels, scatter
from gnnqlab.lab.figures.theme import OKABE_ITO
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["SHOWN", "STEPS", "draw_walk"]

SHOWN = 16
"""Largest number of elements of a row in one figure; the others are not drawn."""
_TINTS = ("#bcdcf5", "#fbdf9d", "#b9e6d8", "#f0d0e2")  # colours of consecutive elements in a byte, cyclic
_FEW_ROWS = 40
"""Largest number of rows drawn one by one."""


def _draw_row(walk: MessageWalk, panel: bool) -> Figure:
    """Draw the values of the row."""
    rows = _elements(walk)
    figure = bars(  # position in steps, and noise u
        rows.assign(label=[f"{value:.2f}" for value in rows["value"]]),
        x="element",
        y="value",
        styles=["blue"],
        text="label",
        hover="element %{x}, %{y:.4f}",
        x_axis={"type": "linear"},
    )
    return _name_axes(figure.update_traces(cliponaxis=False), walk, panel)


def _draw_ruler(walk: MessageWalk, panel: bool) -> Figure:
    """Draw the values on the quantization levels, the marks of the ruler."""
    return _name_axes(_add_values(_marks(walk), walk), walk, panel)


def _draw_round(walk: MessageWalk, panel: bool) -> Figure:
    """Draw each value, the level that it is rounded to, and its code."""
    rows = _elements(walk)
    positions = zip(walk.marks[:SHOWN].tolist(), walk.noise[:SHOWN].tolist(), strict=True)
    rows = rows.assign(
        code=[str(code) for code in walk.codes[:SHOWN].tolist()],
        sum=[f"{mark:.3f} + u {u:.3f}" for mark, u in positions],
    )
    figure = _add_values(_add_stems(_marks(walk), walk), walk)
    scatter(
        rows,
        x="element",
        y={"decoded": "code, at its level"},
        styles=["vermillion diamond"],
        size=9,
        text="code",
        details="sum",
        hover="element %{x}, %{customdata}, code %{text}",
        figure=figure,
    )
    above_level = rows["value"] > rows["decoded"]  # label on the side away from the value
    textposition = ["bottom center" if is_above else "top center" for is_above in above_level]
    figure.data[-1].update(cliponaxis=False, textposition=textposition)
    return _name_axes(figure, walk, panel)


def _draw_pack(walk: MessageWalk, panel: bool) -> Figure:
    """Draw the bits of the payload: one byte per line, its highest bit on the left."""
    import plotly.graph_objects as go

    payload = walk.payload[: 2 * SHOWN].tolist()
    codes = walk.codes.tolist()
    codes_per_byte = 8 // walk.bits  # codes in a byte
    tint, text, hover = [], [], []
    for byte, value in enumerate(payload):
        bits = range(7, -1, -1)
        elements = [byte * codes_per_byte + bit // walk.bits for bit in bits]  # the first element is in the lowest bits
        code_flags = [element < len(codes) for element in elements]
        # one of four tints per element
        tint.append([element % 4 if has_code else None for element, has_code in zip(elements, code_flags)])
        text.append([str(value >> bit & 1) for bit in bits])
        hover.append(
            [
                f"element {element}, code {codes[element]}" if has_code else "unused"
                for element, has_code in zip(elements, code_flags)
            ]
        )
    figure = go.Figure()
    figure.add_heatmap(
        z=tint,
        x=list(range(8)),
        y=list(range(len(payload))),
        colorscale=[[place, color] for place, color in zip((0, 1 / 3, 2 / 3, 1), _TINTS)],
        zmin=0,
        zmax=3,
        showscale=False,
        xgap=1,
        ygap=3,
        text=text,
        texttemplate="%{text}",
        textfont={"color": "#1f2328"},
        customdata=hover,
        hovertemplate="byte %{y}: %{customdata}<extra></extra>",
    )
    for byte, value in enumerate(() if panel else payload):
        first_element = byte * codes_per_byte
        byte_codes = codes[first_element : first_element + codes_per_byte]
        last_element = first_element + len(byte_codes) - 1
        elements_text = f"element {first_element}"
        if len(byte_codes) > 1:
            elements_text = f"elements {last_element} … {first_element}: {' '.join(map(str, byte_codes[::-1]))}"
        figure.add_annotation(
            x=1.01,
            xref="x domain",
            xanchor="left",
            y=byte,
            text=f"= {value} · {elements_text}",
            showarrow=False,
            font={"size": 11},
        )
    # Numeric axis with text ticks: switching steps in one Plotly figure fails if an axis becomes categorical.
    words = [str(bit) for bit in range(7, -1, -1)]
    figure.update_xaxes(title_text="bit", tickvals=list(range(8)), ticktext=words, showgrid=False)
    ends = [len(payload) - 0.5, -0.5]
    figure.update_yaxes(
        title_text="byte of the payload", range=ends, tickformat="d", showgrid=False, nticks=len(payload) + 1
    )
    return figure if panel else figure.update_xaxes(domain=[0, 0.72])


def _draw_wire(walk: MessageWalk, panel: bool) -> Figure:
    """Draw the bytes of the message by content, and below them the bytes of the same rows in float32."""
    import pandas as pd

    is_mixed, are_few = len(set(walk.widths)) > 1, len(walk.widths) <= _FEW_ROWS
    # bytes of the followed row; bytes of a row in float32
    own_segments, row_bytes = [run for run in walk.wire if run.node == walk.node], 4 * walk.row.numel()
    # the same rows in float32, one run per row
    rows = [(place * row_bytes, row_bytes) for place in range(len(walk.widths))]
    runs = {
        kind: [(run.first, run.size) for run in walk.wire if run.kind == kind and run.node != walk.node]
        for kind in ("parameters", "payload")
    } | {"rows": rows}
    if not are_few:  # merged runs: thousands of bars would be slow
        runs = {kind: _joined(segments) for kind, segments in runs.items()}
    names = {
        "parameters": "scales and zero-points of other rows", "payload": "payload of other rows",
        "own": f"row {walk.node}", "rows": "the same rows in float32",
    }  # fmt: skip
    runs["own"] = [(run.first, run.size) for run in own_segments]
    spans = [
        (kind, int(kind == "rows"), start, start + size, f"bytes {start} to {start + size - 1}")
        for kind in names
        for start, size in runs[kind]
    ]
    total, float32_bytes = walk.layout.num_bytes, row_bytes * len(rows)
    figure = lanes(
        pd.DataFrame(spans, columns=["kind", "line", "first", "end", "bytes"]),
        lane="line",
        start="first",
        end="end",
        by="kind",
        names=names,
        width=0.55,
        details="bytes",
        hover="%{customdata}",
        styles={"parameters": "orange", "payload": "sky", "own": "vermillion", "rows": "grey"},
        x_axis={"title_text": "byte of the message", "range": [0, 1.16 * float32_bytes], **byte_ticks(float32_bytes)},
    )
    for trace in figure.data:
        trace.marker.line = {"color": "#ffffff", "width": 0.5 if 2 < len(trace.x) <= _FEW_ROWS else 0}
    # Eight bytes of ten thousand are narrower than a pixel: the outline keeps them visible.
    figure.update_traces(marker_line={"color": OKABE_ITO["vermillion"], "width": 2}, selector={"name": names["own"]})
    for line, end in enumerate((total, float32_bytes)):
        figure.add_annotation(x=end, y=line, text=f" {human_bytes(end)}", showarrow=False, xanchor="left")
    for run in own_segments:
        parts = [f"{part.kind} {part.first}–{part.first + part.size - 1}" for part in own_segments]
        words = f"row {walk.node}: {', '.join(parts)}"
        figure.add_annotation(
            x=run.first + run.size / 2, y=0, text="" if panel or run is not own_segments[-1] else words, showarrow=True,
            arrowcolor=OKABE_ITO["vermillion"], arrowhead=2, ay=-26, ax=0, xanchor="left", yshift=28,
            font={"size": 11},
        )  # fmt: skip
    ticks = ["in mixed bits" if is_mixed else f"in {walk.width}", "in float32"]
    return figure.update_yaxes(range=[1.5, -0.9], autorange=None, tickvals=[0, 1], ticktext=ticks)


def _draw_unpack(walk: MessageWalk, panel: bool) -> Figure:
    """Draw each value and its decoded value."""
    import plotly.graph_objects as go

    figure = _add_values(_add_stems(go.Figure(), walk), walk)
    scatter(
        _elements(walk),
        x="element",
        y={"decoded": "decoded, q S + Z"},
        styles=["vermillion diamond"],
        size=10,
        hover="element %{x}, %{y:.4f}",
        figure=figure,
    )
    return _name_axes(figure, walk, panel)


def _elements(walk: MessageWalk) -> DataFrame:
    """Return value and decoded value of each shown element."""
    import pandas as pd

    values = {"value": walk.row[:SHOWN].tolist(), "decoded": walk.decoded[:SHOWN].tolist()}
    return pd.DataFrame({"element": range(len(values["value"])), **values})


def _marks(walk: MessageWalk) -> Figure:
    """Draw the quantization levels: one line per code, or every n-th if there are many, numbered if they are few."""
    import pandas as pd

    levels = 2**walk.bits  # number of codes
    stride = max(levels // 16, 1)  # at most 16 lines
    end = min(SHOWN, walk.row.numel()) - 0.4
    heights = [walk.zero + code * walk.scale for code in range(levels)]
    ends = [(x, height) for height in heights[::stride] for x in (-0.6, end, None)]
    name = f"the {levels} levels" if stride == 1 else f"every {stride}th of the {levels} levels"
    figure = lines(
        pd.DataFrame(ends, columns=["element", "mark"]),
        x="element",
        y={"mark": name},
        styles=["#b0b0b0 dot"],
        mode="lines",
    )
    figure.update_traces(line_width=1, hoverinfo="skip", hovertemplate=None)
    if levels <= 16:
        figure.add_scatter(
            x=[end] * levels, y=heights, mode="text", text=[f" {code}" for code in range(levels)],
            textposition="middle right", cliponaxis=False, textfont={"size": 11 if levels < 16 else 10},
            hoverinfo="skip", showlegend=False,
        )  # fmt: skip
    return figure


def _add_values(figure: Figure, walk: MessageWalk) -> Figure:
    return scatter(
        _elements(walk),
        x="element",
        y="value",
        styles=["blue circle-open"],
        size=11,
        figure=figure,
        hover="element %{x}, %{y:.4f}",
    )


def _add_stems(figure: Figure, walk: MessageWalk) -> Figure:
    """Draw the error of each element as a line from its value to its decoded value."""
    rows = _elements(walk)
    return figure.add_scatter(
        x=[x for element in rows["element"] for x in (element, element, None)],
        y=[y for value, level in zip(rows["value"], rows["decoded"], strict=True) for y in (value, level, None)],
        mode="lines", line={"color": OKABE_ITO["vermillion"], "width": 2}, name="error", hoverinfo="skip",
        showlegend=False,
    )  # fmt: skip


def _joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge consecutive runs of bytes, given as (first, size)."""
    merged_runs: list[tuple[int, int]] = []
    for start, size in runs:
        if merged_runs and sum(merged_runs[-1]) == start:
            start, size = merged_runs[-1][0], merged_runs.pop()[1] + size
        merged_runs.append((start, size))
    return merged_runs


def _name_axes(figure: Figure, walk: MessageWalk, panel: bool) -> Figure:
    count = walk.row.numel()
    title = "element of the row" if count <= SHOWN else f"element of the row, the first {SHOWN} of {count}"
    ends = [-0.7, min(count, SHOWN) - 0.1]
    figure.update_xaxes(title_text=title, dtick=5 if panel else 1, range=ends, showgrid=False)
    values = walk.row[:SHOWN]
    min_value, max_value = min(float(values.min()), walk.zero), float(values.max())  # space for the labels of codes
    room = 0.14 * max(max_value - min_value, 1e-30)  # for the codes' labels below and above their levels
    return figure.update_yaxes(title_text="value", range=[min_value - room, max_value + room], showgrid=False)


def draw_walk(walk: MessageWalk, *, dark: bool = False) -> FigureData:
    """Draw the main steps in one figure: rounding, packing, the wire and unpacking."""
    names = ("round", "pack", "wire", "unpack")
    charts = titled_charts(STEPS, walk, names)
    caption = " ".join(STEPS[name].say(walk) for name in names)
    title = f"Row {walk.node} from worker {walk.message.sender} to worker {walk.message.receiver} in {walk.width}"
    figure = panels(charts, rows=2, gap=(0.11, 0.2), title=title, caption=caption, dark=dark, height=640)
    figure.update_layout(showlegend=False, legend=None)
    figure.update_layout(margin={"t": 80})
    return FigureData(figure, walk.to_frame())


def _say_row(walk: MessageWalk) -> str:
    message, count = walk.message, walk.row.numel()
    zeros = int((walk.row == 0).sum())
    return (
        f"The row of node {walk.node}, input of layer {message.layer} in epoch {message.epoch}: {count} elements, "
        f"{zeros} of them zero, {4 * count} bytes in float32."
    )


def _say_ruler(walk: MessageWalk) -> str:
    steps = 2**walk.bits - 1  # number of steps between levels
    return (
        f"{walk.width} give {steps + 1} codes, so there are {steps + 1} quantization levels, the marks of a ruler: "
        f"the lowest at the smallest value, Z = {walk.zero:.4g}, the highest at the largest, with a step of "
        f"S = {float(walk.row.max() - walk.row.min()):.4g} / {steps} = {walk.scale:.4g}."
    )


def _say_round(walk: MessageWalk) -> str:
    marks = walk.marks
    fractions = marks - marks.floor()
    place = int((fractions - 0.5).abs().argmin())  # the element nearest to the middle between two levels
    mark, noise, code = float(marks[place]), float(walk.noise[place]), int(walk.codes[place])
    return (
        f"Element {place} lies at {mark:.3f} steps: plus u = {noise:.3f} that is {mark + noise:.3f}, rounded down to "
        f"code {code}. Over many draws it is rounded up {100 * float(fractions[place]):.0f} % of the time, so the "
        "rounding is unbiased."
    )


def _say_pack(walk: MessageWalk) -> str:
    codes_per_byte = 8 // walk.bits
    byte_codes = [int(code) for code in walk.codes[:codes_per_byte]]
    # value of the byte as a sum of shifted codes
    sum_text = " + ".join(f"{code}·{1 << place * walk.bits}" for place, code in enumerate(byte_codes))
    return (
        f"{codes_per_byte} code{'s' if codes_per_byte > 1 else ''} of {walk.width} per byte, the first element in the "
        f"lowest bits: byte 0 is {sum_text} = {int(walk.payload[0])}. The row takes {len(walk.payload)} bytes."
    )


def _say_wire(walk: MessageWalk) -> str:
    from gnnqlab.message.transport.header import SIZE

    rows, total = len(walk.widths), walk.layout.num_bytes
    float32_bytes = 4 * walk.message.rows.numel()
    return (
        f"The whole message: {rows} rows, {walk.layout.param_bytes} bytes of quantization parameters (Z and S of each "
        f"row), then {walk.layout.payload_bytes} bytes of payload, {total} in all instead of {float32_bytes} in "
        f"float32: {float32_bytes / total:.1f} times fewer. A header of {SIZE} bytes, sent first, describes the rest."
    )


def _say_unpack(walk: MessageWalk) -> str:
    squared_error = float(((walk.decoded - walk.row).double() ** 2).sum())  # float64: the sum of small squares
    variance = walk.variance
    return (
        f"The receiver computes q S + Z. Squared error of this draw {squared_error:.3g}; over all draws "
        f"{variance['exact']:.3g} (exact), {variance['average']:.3g} if fractions were uniform (D S²/6), never more "
        f"than {variance['worst']:.3g} (D S²/4)."
    )


def _frame_of(*columns: str) -> Callable[[MessageWalk], DataFrame]:
    return lambda walk: walk.to_frame()[list(columns)]


STEPS: dict[str, WalkStep] = {
    "row": WalkStep("The row", _draw_row, _frame_of("value"), _say_row, legend_rows=0),
    "ruler": WalkStep(
        "Quantization levels, a ruler over its range", _draw_ruler, _frame_of("value", "(x - Z) / S"), _say_ruler
    ),
    "round": WalkStep(
        "Stochastic rounding",
        _draw_round,
        _frame_of("value", "(x - Z) / S", "fraction σ", "noise u", "code q"),
        _say_round,
    ),
    "pack": WalkStep(
        "Pack codes into bytes",
        _draw_pack,
        MessageWalk.byte_frame,
        _say_pack,
        legend_rows=0,
        height=lambda walk: 190 + 20 * len(walk.payload[: 2 * SHOWN]),
    ),
    "wire": WalkStep(
        "The message on the wire", _draw_wire, MessageWalk.wire_frame, _say_wire, 2, height=lambda walk: 300
    ),
    "unpack": WalkStep("Unpack", _draw_unpack, _frame_of("value", "code q", "decoded", "error"), _say_unpack),
}
"""Steps by name, in their order."""
