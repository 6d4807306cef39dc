"""What each step of a message looks like: traces for one panel, alone or among others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.players.message_walk import MessageWalk
from gnnqlab.lab.figures.byte_axis import byte_ticks
from gnnqlab.lab.figures.frames import human_bytes
from gnnqlab.lab.figures.theme import OKABE_ITO

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "SHOWN", "Place", "draw_pack", "draw_round", "draw_row", "draw_ruler", "draw_unpack", "draw_wire", "in_words",
]  # fmt: skip

SHOWN = 16
"""Elements of a row in one figure; a wide row has more behind them."""
_TINTS = ("#bcdcf5", "#fbdf9d", "#b9e6d8", "#f0d0e2")  # neighbours in a byte are told apart; numbers say which
Place = tuple[int, int] | None
"""Row and column of a panel; None for a figure of its own."""
_FEW_ROWS = 40
"""Up to so many rows of a message are drawn one by one."""


def draw_row(figure: Figure, walk: MessageWalk, at: Place) -> None:
    values = walk.row[:SHOWN].tolist()
    figure.add_bar(
        x=_elements(walk),
        y=values,
        marker={"color": OKABE_ITO["blue"]},
        text=[f"{value:.2f}" for value in values],
        textposition="outside",
        cliponaxis=False,
        name="value",
        hovertemplate="element %{x}: %{y:.4f}<extra></extra>",
        **_cell(at),
    )
    _name_axes(figure, walk, at)


def draw_ruler(figure: Figure, walk: MessageWalk, at: Place) -> None:
    _add_marks(figure, walk, at)
    _add_values(figure, walk, at)
    _name_axes(figure, walk, at)


def draw_round(figure: Figure, walk: MessageWalk, at: Place) -> None:
    _add_marks(figure, walk, at)
    values, decoded = walk.row[:SHOWN].tolist(), walk.decoded[:SHOWN].tolist()
    _add_stems(figure, walk, values, decoded, at)
    _add_values(figure, walk, at)
    codes, noise = walk.codes[:SHOWN].tolist(), walk.noise[:SHOWN].tolist()
    figure.add_scatter(
        x=_elements(walk),
        y=decoded,
        mode="markers+text",
        text=[str(code) for code in codes],
        textposition=["bottom center" if value > mark else "top center" for value, mark in zip(values, decoded)],
        cliponaxis=False,
        marker={"symbol": "diamond", "size": 9, "color": OKABE_ITO["vermillion"]},
        customdata=list(zip(walk.marks[:SHOWN].tolist(), noise)),
        name="code, at its mark",
        hovertemplate="element %{x}: %{customdata[0]:.3f} + u %{customdata[1]:.3f}, code %{text}<extra></extra>",
        **_cell(at),
    )
    _name_axes(figure, walk, at)


def draw_pack(figure: Figure, walk: MessageWalk, at: Place) -> None:
    """Bits as they are written: a byte a line, its highest bit on the left."""
    payload = walk.payload[: 2 * SHOWN].tolist()
    codes = walk.codes.tolist()
    per_byte = 8 // walk.bits
    tint, text, hover = [], [], []
    for byte, value in enumerate(payload):
        bits = range(7, -1, -1)
        elements = [byte * per_byte + bit // walk.bits for bit in bits]
        inside = [element < len(codes) for element in elements]
        tint.append([element % 4 if known else None for element, known in zip(elements, inside)])
        text.append([str(value >> bit & 1) for bit in bits])
        hover.append(
            [
                f"element {element}, code {codes[element]}" if known else "unused"
                for element, known in zip(elements, inside)
            ]
        )
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
        **_cell(at),
    )
    for byte, value in enumerate(payload if at is None else ()):
        first = byte * per_byte
        inside = codes[first : first + per_byte]
        last = first + len(inside) - 1
        which = (
            f"element {first}" if len(inside) == 1 else f"elements {last} … {first}: {' '.join(map(str, inside[::-1]))}"
        )
        figure.add_annotation(
            x=1.01,
            xref="x domain",
            xanchor="left",
            y=byte,
            text=f"= {value} · {which}",
            showarrow=False,
            font={"size": 11},
        )
    # Numbers with words for ticks: a page that swaps one step for the next stumbles over a change to categories.
    words = [str(bit) for bit in range(7, -1, -1)]
    figure.update_xaxes(title_text="bit", tickvals=list(range(8)), ticktext=words, showgrid=False, **_cell(at))
    ends = [len(payload) - 0.5, -0.5]
    figure.update_yaxes(title_text="byte of the payload", range=ends, tickformat="d", showgrid=False, **_cell(at))
    figure.update_yaxes(nticks=len(payload) + 1, **_cell(at))
    if at is None:
        figure.update_xaxes(domain=[0, 0.72])


def draw_wire(figure: Figure, walk: MessageWalk, at: Place) -> None:
    kinds = {
        "parameters": ("parameters of other rows", OKABE_ITO["orange"]),
        "payload": ("payload of other rows", OKABE_ITO["sky"]),
    }
    mixed, few = len(set(walk.widths)) > 1, len(walk.widths) <= _FEW_ROWS
    packed = "in mixed bits" if mixed else f"in {in_words(walk)}"
    for kind, (name, color) in kinds.items():
        runs = [(run.first, run.size) for run in walk.wire if run.kind == kind and run.node != walk.node]
        _add_runs(figure, 0, runs if few else _joined(runs), name, color, at)
    own = [run for run in walk.wire if run.node == walk.node]
    name = f"row {walk.node}"
    # Eight bytes of ten thousand are less than a pixel: its line keeps them in sight.
    _add_runs(figure, 0, [(run.first, run.size) for run in own], name, OKABE_ITO["vermillion"], at, edge=2.0)
    row_bytes = 4 * walk.row.numel()
    rows = [(place * row_bytes, row_bytes) for place in range(len(walk.widths))]
    _add_runs(figure, 1, rows if few else _joined(rows), "the same rows in float32", OKABE_ITO["grey"], at)
    total, whole = walk.layout.num_bytes, row_bytes * len(rows)
    for line, end in enumerate((total, whole)):
        figure.add_annotation(
            x=end, y=line, text=f" {human_bytes(end)}", showarrow=False, xanchor="left", **_reference(figure, at)
        )
    for run in own:
        words = f"row {walk.node}: {', '.join(f'{one.kind} {one.first}–{one.first + one.size - 1}' for one in own)}"
        figure.add_annotation(
            x=run.first + run.size / 2,
            y=0,
            text=words if at is None and run is own[-1] else "",
            showarrow=True,
            arrowcolor=OKABE_ITO["vermillion"],
            arrowhead=2,
            ay=-26,
            ax=0,
            xanchor="left",
            yshift=28,
            font={"size": 11},
            **_reference(figure, at),
        )
    figure.update_layout(barmode="overlay", bargap=0.45)
    figure.update_xaxes(title_text="byte of the message", range=[0, 1.16 * whole], **byte_ticks(whole), **_cell(at))
    lines = [packed, "in float32"]
    figure.update_yaxes(range=[1.5, -0.9], tickvals=[0, 1], ticktext=lines, showgrid=False, **_cell(at))


def draw_unpack(figure: Figure, walk: MessageWalk, at: Place) -> None:
    values, decoded = walk.row[:SHOWN].tolist(), walk.decoded[:SHOWN].tolist()
    _add_stems(figure, walk, values, decoded, at)
    _add_values(figure, walk, at)
    figure.add_scatter(
        x=_elements(walk),
        y=decoded,
        mode="markers",
        marker={"symbol": "diamond", "size": 10, "color": OKABE_ITO["vermillion"]},
        name="as it arrives, q S + Z",
        hovertemplate="element %{x}: %{y:.4f} arrives<extra></extra>",
        **_cell(at),
    )
    _name_axes(figure, walk, at)


def _add_marks(figure: Figure, walk: MessageWalk, at: Place) -> None:
    """The ruler: a line for every code, numbered where they do not crowd."""
    levels = 2**walk.bits
    every = max(levels // 16, 1)
    end = min(SHOWN, walk.row.numel()) - 0.4
    lines = range(0, levels, every)
    figure.add_scatter(
        x=[value for _ in lines for value in (-0.6, end, None)],
        y=[value for code in lines for value in (*[walk.zero + code * walk.scale] * 2, None)],
        mode="lines",
        line={"color": "#b0b0b0", "width": 1, "dash": "dot"},
        name=f"the {levels} marks" if every == 1 else f"every {every}th of the {levels} marks",
        hoverinfo="skip",
        **_cell(at),
    )
    if levels <= 16:
        figure.add_scatter(
            x=[end] * levels,
            y=[walk.zero + code * walk.scale for code in range(levels)],
            mode="text",
            text=[f" {code}" for code in range(levels)],
            textposition="middle right",
            cliponaxis=False,
            textfont={"size": 11 if levels < 16 else 10},
            hoverinfo="skip",
            showlegend=False,
            **_cell(at),
        )


def _add_values(figure: Figure, walk: MessageWalk, at: Place) -> None:
    figure.add_scatter(
        x=_elements(walk),
        y=walk.row[:SHOWN].tolist(),
        mode="markers",
        marker={"symbol": "circle-open", "size": 11, "color": OKABE_ITO["blue"], "line": {"width": 2}},
        name="value",
        hovertemplate="element %{x}: %{y:.4f}<extra></extra>",
        **_cell(at),
    )


def _add_stems(figure: Figure, walk: MessageWalk, start: list[float], end: list[float], at: Place) -> None:
    figure.add_scatter(
        x=[value for element in _elements(walk) for value in (element, element, None)],
        y=[value for first, last in zip(start, end) for value in (first, last, None)],
        mode="lines",
        line={"color": OKABE_ITO["vermillion"], "width": 2},
        name="error",
        hoverinfo="skip",
        showlegend=False,
        **_cell(at),
    )


def _add_runs(
    figure: Figure, line: int, runs: list[tuple[int, int]], name: str, color: str, at: Place, *, edge: float = 0.0
) -> None:
    between = {"color": "#ffffff", "width": 0.5 if 2 < len(runs) <= _FEW_ROWS else 0}
    figure.add_bar(
        y=[line] * len(runs),
        x=[size for _, size in runs],
        base=[first for first, _ in runs],
        orientation="h",
        marker={"color": color, "line": {"color": color, "width": edge} if edge else between},
        name=name,
        customdata=[first + size - 1 for first, size in runs],
        hovertemplate=f"{name}: bytes %{{base}} to %{{customdata}}<extra></extra>",
        **_cell(at),
    )


def _joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs that follow each other as one."""
    joined: list[tuple[int, int]] = []
    for first, size in runs:
        if joined and sum(joined[-1]) == first:
            first, size = joined[-1][0], joined.pop()[1] + size
        joined.append((first, size))
    return joined


def _name_axes(figure: Figure, walk: MessageWalk, at: Place) -> None:
    count = walk.row.numel()
    title = "element of the row" if count <= SHOWN else f"element of the row, the first {SHOWN} of {count}"
    ends = [-0.7, min(count, SHOWN) - 0.1]
    figure.update_xaxes(title_text=title, dtick=1 if at is None else 5, range=ends, showgrid=False, **_cell(at))
    shown = walk.row[:SHOWN]
    low, high = min(float(shown.min()), walk.zero), float(shown.max())
    room = 0.14 * max(high - low, 1e-30)  # for codes below marks and above them
    figure.update_yaxes(title_text="value", range=[low - room, high + room], showgrid=False, **_cell(at))


def _elements(walk: MessageWalk) -> list[int]:
    return list(range(min(SHOWN, walk.row.numel())))


def _cell(at: Place) -> dict[str, int]:
    return {} if at is None else {"row": at[0], "col": at[1]}


def _reference(figure: Figure, at: Place) -> dict[str, str]:
    """The axes of a panel as an annotation names them."""
    if at is None:
        return {"xref": "x", "yref": "y"}
    panel = figure.get_subplot(*at)
    return {"xref": panel.xaxis.plotly_name.replace("axis", ""), "yref": panel.yaxis.plotly_name.replace("axis", "")}


def in_words(walk: MessageWalk) -> str:
    """The width of the row that is followed: ``2 bits``."""
    return human_bits(walk.bits)
