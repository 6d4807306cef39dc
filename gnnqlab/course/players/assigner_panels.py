"""What each step of an assignment looks like: traces for one panel, alone or among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.players.assigner_walk import AssignerWalk
from gnnqlab.lab.figures.theme import OKABE_ITO

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "Place", "WIDTH_LOOKS", "draw_beta", "draw_cost", "draw_groups", "draw_problem", "draw_trace", "draw_widths",
]  # fmt: skip

Place = tuple[int, int] | None
"""Row and column of a panel; None for a figure of its own."""
_NAMED = 0.05
"""A bar shorter than this share of the longest has no room for its number."""
_INK = {1: "#1f2328", 2: "#1f2328", 4: "#1f2328", 8: "#ffffff", 16: "#1f2328", 32: "#ffffff"}
"""Letters that can be read on the colour of each width."""
_FEW, _FEW_IN_PANEL = 16, 6
"""Up to so many bars have the number of their node below them. Names of points lie on each other: few, as in panels."""

WIDTH_LOOKS = {
    1: ("#fee838", "circle", "x"), 2: ("#e69f00", "circle", ""), 4: ("#009e73", "square", "/"),
    8: ("#0072b2", "diamond", "\\"), 16: ("#7d7d7d", "cross", "."), 32: ("#555555", "x", "-"),
}  # fmt: skip
"""Colour, marker and hatching of each bit-width."""


def draw_trace(figure: Figure, walk: AssignerWalk, at: Place) -> None:
    """Range of every row of the message, in wire order."""
    frame = walk.to_frame()
    figure.add_bar(
        x=_rows(walk, at),
        y=frame["range"].tolist(),
        customdata=frame.index.tolist(),
        marker={"color": OKABE_ITO["blue"], "line": {"width": 0}},
        hovertemplate="node %{customdata}: range %{y:.3g}<extra></extra>",
        showlegend=False,
        **_cell(at),
    )
    _name_rows(figure, walk, at)
    figure.update_yaxes(title_text="max − min of the row", rangemode="tozero", **_cell(at))


def draw_beta(figure: Figure, walk: AssignerWalk, at: Place) -> None:
    """Each row by its range and by how much the receiver uses it; the size of a mark is β."""
    frame = walk.to_frame()
    largest = max(float(frame["beta"].max()), 1e-300)
    few = len(frame) <= _FEW_IN_PANEL
    middle = (float(frame["range"].min()) + float(frame["range"].max())) / 2
    figure.add_scatter(
        x=frame["range"].tolist(),
        y=frame["use"].tolist(),
        mode="markers+text" if few else "markers",
        text=[f" node {node} " for node in frame.index] if few else None,
        textposition=["middle right" if each < middle else "middle left" for each in frame["range"]],
        cliponaxis=False,
        customdata=list(zip(frame.index.tolist(), frame["beta"].tolist(), strict=True)),
        marker={
            "color": OKABE_ITO["vermillion"],
            "opacity": 0.65,
            "line": {"width": 1, "color": "#7d7d7d"},
            "size": [5 + 21 * (beta / largest) ** 0.5 for beta in frame["beta"]],
        },
        hovertemplate="node %{customdata[0]}: range %{x:.3g}, use %{y:.3g}, β %{customdata[1]:.3g}<extra></extra>",
        showlegend=False,
        **_cell(at),
    )
    what = "Σα² at the receiver" if walk.direction == "forward" else "use at the owner"
    # A few rows are told apart where they are; of many it is seen how far from nothing they lie.
    mode = "normal" if few else "tozero"
    figure.update_xaxes(title_text="max − min of the row", rangemode=mode, **_cell(at))
    figure.update_yaxes(title_text=what, rangemode=mode, **_cell(at))


def draw_groups(figure: Figure, walk: AssignerWalk, at: Place) -> None:
    """β in falling order, cut into groups; a shade and a hatching for every other group."""
    frame = walk.to_frame().sort_values("beta", ascending=False, kind="stable").reset_index()
    few = _are_few(walk, at)
    places = [str(node) for node in frame["node"]] if few else list(range(1, len(frame) + 1))
    even = frame["group"] % 2 == 0
    for name, some, color, pattern in (
        ("groups 1, 3, 5 …", even, OKABE_ITO["purple"], ""),
        ("groups 2, 4, 6 …", ~even, OKABE_ITO["sky"], "/"),
    ):
        if not some.any():
            continue
        figure.add_bar(
            x=[place for place, here in zip(places, some, strict=True) if here],
            y=frame.loc[some, "beta"].tolist(),
            customdata=list(zip(frame.loc[some, "node"].tolist(), (frame.loc[some, "group"] + 1).tolist())),
            name=name,
            marker={"color": color, "pattern": {"shape": pattern, "size": 5}, "line": {"width": 0}},
            hovertemplate="node %{customdata[0]}, group %{customdata[1]}: β %{y:.3g}<extra></extra>",
            showlegend=at is None,
            **_cell(at),
        )
    if few:
        figure.update_xaxes(categoryorder="array", categoryarray=places, type="category", **_cell(at))
    figure.update_layout(bargap=0.06)
    figure.update_xaxes(title_text="node, β falling" if few else "row, β falling", **_cell(at))
    figure.update_yaxes(title_text="β (no unit)", rangemode="tozero", exponentformat="power", **_cell(at))


def draw_cost(figure: Figure, walk: AssignerWalk, at: Place) -> None:
    """Milliseconds of every message of the layer if all its rows took the same width, a mark for each width."""
    names = [f"{message.sender} → {message.receiver}" for message in walk.messages]
    for bits in walk.settings.among:
        color, symbol, _ = WIDTH_LOOKS[bits]
        seconds = [
            float(walk.cost.gamma_s[message.sender, message.receiver])
            + float(walk.cost.theta_s_per_byte[message.sender, message.receiver])
            * message.num_rows
            * walk.row_bytes(bits)
            for message in walk.messages
        ]
        figure.add_scatter(
            x=[1e3 * each for each in seconds],
            y=names,
            mode="markers",
            name=human_bits(bits),
            marker={"color": color, "symbol": symbol, "size": 10},
            hovertemplate=f"all rows in {human_bits(bits)}: %{{x:.3g}} ms<extra>%{{y}}</extra>",
            showlegend=at is None,
            cliponaxis=False,
            **_cell(at),
        )
    figure.update_xaxes(title_text="predicted transfer (ms)", rangemode="tozero", **_cell(at))
    _name_messages(figure, at)


def draw_problem(figure: Figure, walk: AssignerWalk, at: Place) -> None:
    """Time against variance for every λ, the point of this λ, and the point that nobody reaches."""
    from gnnqlab.bits.assigner.pareto import front_over_lam

    lams = [step / 20 for step in range(21)]
    found = front_over_lam(walk.problem, lams)
    low_v, high_v, low_t, high_t = walk.problem.ends
    figure.add_scatter(
        x=[1e3 * each.seconds for each in found],
        y=[_positive(each.variance) for each in found],
        mode="lines+markers",
        customdata=lams,
        line={"color": OKABE_ITO["blue"], "width": 2},
        marker={"symbol": "circle-open", "size": 8, "color": OKABE_ITO["blue"]},
        name="λ from 0 to 1",
        hovertemplate="λ %{customdata:.2f}: %{x:.3g} ms, V %{y:.3g}<extra></extra>",
        showlegend=at is None,
        **_cell(at),
    )
    for name, x, y, symbol, color in (
        (f"λ = {walk.settings.lam:g}", walk.solution.seconds, walk.solution.variance, "star", OKABE_ITO["vermillion"]),
        ("utopia", low_t, low_v, "diamond-open", OKABE_ITO["green"]),
        ("nadir", high_t, high_v, "x", OKABE_ITO["grey"]),
    ):
        figure.add_scatter(
            x=[1e3 * x],
            y=[_positive(y)],
            mode="markers",
            marker={"symbol": symbol, "size": 14, "color": color},
            name=name,
            hovertemplate=f"{name}: %{{x:.3g}} ms, V %{{y:.3g}}<extra></extra>",
            showlegend=at is None,
            cliponaxis=False,
            **_cell(at),
        )
    figure.update_xaxes(title_text="predicted exchange (ms)", **_cell(at))
    figure.update_yaxes(title_text="variance V (no unit)", type="log", **_cell(at))


def draw_widths(figure: Figure, walk: AssignerWalk, at: Place) -> None:
    """Rows of each message by the width that its sender tells its receiver."""
    names = [f"{message.sender} → {message.receiver}" for message in walk.messages]
    for bits in walk.settings.among:
        color, _, pattern = WIDTH_LOOKS[bits]
        counts = [int((rows == bits).sum()) for rows in walk.widths]
        if not any(counts):
            continue
        least = _NAMED * max(len(rows) for rows in walk.widths)
        figure.add_bar(
            x=counts,
            y=names,
            orientation="h",
            text=[str(count) if count > least else "" for count in counts],
            textposition="inside",
            insidetextanchor="middle",
            insidetextfont={"size": 10, "color": _INK[bits]},
            constraintext="none",  # Plotly makes numbers smaller than can be read where bars are thin
            textangle=0,
            name=human_bits(bits),
            marker={"color": color, "pattern": {"shape": pattern, "size": 5, "solidity": 0.2}, "line": {"width": 0}},
            hovertemplate=f"%{{x}} rows in {human_bits(bits)}<extra>%{{y}}</extra>",
            legendgroup=f"bits {bits}",
            **_cell(at),
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title_text="rows", rangemode="tozero", **_cell(at))
    _name_messages(figure, at)


def _name_messages(figure: Figure, at: Place) -> None:
    """Every message by its name, however many there are."""
    figure.update_yaxes(
        title_text="sender → receiver", type="category", autorange="reversed", dtick=1, tickfont_size=10, **_cell(at)
    )


def _are_few(walk: AssignerWalk, at: Place) -> bool:
    return walk.message.num_rows <= (_FEW if at is None else _FEW_IN_PANEL)


def _rows(walk: AssignerWalk, at: Place) -> list[Any]:
    nodes = walk.message.ids.tolist()
    return [str(node) for node in nodes] if _are_few(walk, at) else list(range(1, len(nodes) + 1))


def _name_rows(figure: Figure, walk: AssignerWalk, at: Place) -> None:
    few = _are_few(walk, at)
    if few:
        figure.update_xaxes(type="category", **_cell(at))
    figure.update_xaxes(title_text=f"{'node' if few else 'row'}, in wire order", **_cell(at))
    figure.update_layout(bargap=0.3 if few else 0.1)


def _positive(value: float) -> float | None:
    """A logarithm has no zero."""
    return value if value > 0 else None


def _cell(at: Place) -> dict[str, int]:
    return {} if at is None else {"row": at[0], "col": at[1]}
