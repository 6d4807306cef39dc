"""Six steps of a bit assignment (AdaQP Fig. 6) in figures, tables and text: trace, β, groups, cost, problem, widths.

A chart is a figure of its own, or one of several panels. The text describes the message that is followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.players.assigner_walk import AssignerWalk
from gnnqlab.course.players.stepped import WalkStep, titled_charts
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import bars, lines, panels, scatter

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from gnnqlab.tune.traced import TracedMessage

__all__ = ["ASSIGNER_STEPS", "draw_assignment"]

_NAMED = 0.05
"""Bars shorter than this share of the longest are drawn without their number."""
_INK = {1: "#1f2328", 2: "#1f2328", 4: "#1f2328", 8: "#ffffff", 16: "#1f2328", 32: "#ffffff"}
"""Text colour with enough contrast on the colour of each bit-width."""
_FEW, _FEW_IN_PANEL = 16, 6
"""Largest number of bars labelled with their nodes, in a figure and in a panel; more labels would overlap."""

_WIDTH_LOOKS = {
    1: ("#fee838", "circle", "x"), 2: ("#e69f00", "circle", ""), 4: ("#009e73", "square", "/"),
    8: ("#0072b2", "diamond", "\\"), 16: ("#7d7d7d", "cross", "."), 32: ("#555555", "x", "-"),
}  # fmt: skip
"""Colour, marker and hatching of each bit-width."""


def _draw_trace(walk: AssignerWalk, panel: bool) -> Figure:
    """Draw the range of every row of the message, in wire order."""
    are_few = _are_few(walk, panel)
    return bars(
        # one bar per row, labelled with its node if there are few
        _placed(walk.to_frame().reset_index(), are_few), x="place", y="range", styles=["blue"], details="node",
        hover="node %{customdata}, %{y:.3g}", x_axis=_places(f"{'node' if are_few else 'row'}, in wire order", are_few),
        y_axis="max − min of the row", zero="y",
    ).update_layout(bargap=0.3 if are_few else 0.1)  # fmt: skip


def _draw_beta(walk: AssignerWalk, panel: bool) -> Figure:
    """Draw each row by its range and by its weight Σα² at the receiver; the marker's area grows with β."""
    frame = walk.to_frame()
    max_beta = max(float(frame["beta"].max()), 1e-300)
    are_few = len(frame) <= _FEW_IN_PANEL
    midpoint = (float(frame["range"].min()) + float(frame["range"].max())) / 2
    words = [f"node {node}, β {beta:.3g}" for node, beta in zip(frame.index, frame["beta"], strict=True)]
    # Few rows: axes fit the data, so that labels do not overlap. Many rows: axes start at 0, to show relative sizes.
    figure = scatter(
        frame.assign(words=words, name=[f" node {node} " for node in frame.index]),
        x="range",
        y="use",
        opacity=0.65,
        styles=["vermillion"],
        text="name" if are_few else None,
        details="words",
        zero="" if are_few else "xy",
        x_axis="max − min of the row",
        y_axis="Σα² at the receiver" if walk.direction == "forward" else "weight at the owner",
    )
    # area proportional to β: radius to its square root
    sizes = [5 + 21 * (beta / max_beta) ** 0.5 for beta in frame["beta"]]
    figure.update_traces(cliponaxis=False, marker={"size": sizes, "line": {"width": 1, "color": "#7d7d7d"}})
    # labels point to the middle of the figure
    sides = ["middle right" if value < midpoint else "middle left" for value in frame["range"]]
    return figure.update_traces(textposition=sides)


def _draw_groups(walk: AssignerWalk, panel: bool) -> Figure:
    """Draw β in descending order, cut into groups; alternate groups differ in colour and hatching."""
    are_few = _are_few(walk, panel)
    # stable: ties stay in wire order
    rows = _placed(walk.to_frame().sort_values("beta", ascending=False, kind="stable").reset_index(), are_few)
    # neighbouring groups differ
    rows["parity"] = ["groups 1, 3, 5 …" if group % 2 == 0 else "groups 2, 4, 6 …" for group in rows["group"]]
    rows["words"] = [f"node {node}, group {group + 1}" for node, group in zip(rows["node"], rows["group"], strict=True)]
    # keep the order of β on a category axis
    order = {"categoryorder": "array", "categoryarray": rows["place"].tolist()} if are_few else {}
    figure = bars(
        rows,
        x="place",
        y="beta",
        by="parity",
        styles=["purple", "sky /"],
        details="words",
        x_axis={**_places("node, by descending β" if are_few else "row, by descending β", are_few), **order},
        y_axis={"title_text": "β (no unit)", "exponentformat": "power"},
        zero="y",
    )
    return figure.update_traces(showlegend=not panel).update_layout(bargap=0.06)


def _draw_cost(walk: AssignerWalk, panel: bool) -> Figure:
    """Draw the predicted transfer time of every message of the layer for each bit-width, if uniform."""
    import pandas as pd

    # Every message of the layer, because all compete for the links; uniform bit-widths for comparison.
    rows = [
        (bits, _name(message), walk.transfer_ms(message, bits))
        for bits in walk.settings.bit_widths
        for message in walk.messages
    ]
    figure = scatter(
        pd.DataFrame(rows, columns=["bits", "message", "ms"]),
        x="ms",
        y="message",
        by="bits",
        size=10,
        zero="x",
        names={bits: human_bits(bits) for bits in _WIDTH_LOOKS},
        hover="all rows: %{x:.3g} ms, %{y}",
        styles={bits: f"{color} {symbol}" for bits, (color, symbol, _) in _WIDTH_LOOKS.items()},
        x_axis="predicted transfer (ms)",
        y_axis=_MESSAGES,
    )
    return figure.update_traces(showlegend=not panel, cliponaxis=False)


def _draw_problem(walk: AssignerWalk, panel: bool) -> Figure:
    """Draw variance over time for every λ, the solution of this λ, and the ideal (utopia) and nadir points."""
    import pandas as pd

    from gnnqlab.bits.assigner.pareto import front_over_lam

    lams = [step / 20 for step in range(21)]  # λ in steps of 0.05
    solutions = front_over_lam(walk.problem, lams)
    low_v, high_v, low_t, high_t = walk.problem.ends  # utopia and nadir: least and largest variance and time
    lam_name = f"λ = {walk.settings.lam:g}"
    front = pd.DataFrame({
        "ms": [1e3 * solution.seconds for solution in solutions],
        "λ from 0 to 1": [solution.variance for solution in solutions],
        "lam": [f"λ {lam:.2f}" for lam in lams],
    })  # fmt: skip
    points = pd.DataFrame({
        "ms": [1e3 * walk.solution.seconds, 1e3 * low_t, 1e3 * high_t],  # seconds -> ms
        "variance": [walk.solution.variance, low_v, high_v], "name": [lam_name, "utopia", "nadir"],
    })  # fmt: skip
    figure = scatter(
        points,
        x="ms",
        y="variance",
        by="name",
        size=14,
        log="y",
        x_axis="predicted exchange (ms)",
        styles=["vermillion star", "green diamond-open", "grey x"],
        y_axis="variance V (no unit)",
        figure=lines(front, x="ms", y="λ from 0 to 1", styles=["blue circle-open"], details="lam", log="y"),
    )
    return figure.update_traces(showlegend=not panel, cliponaxis=False)


def _draw_widths(walk: AssignerWalk, panel: bool) -> Figure:
    """Draw the number of rows of each message by assigned bit-width."""
    counts = _counts(walk)
    counts = counts.loc[:, counts.any()]  # bit-widths that no row has are dropped
    min_count = _NAMED * max(len(rows) for rows in walk.widths)  # narrower segments have no number
    figure = bars(
        counts,
        y={bits: human_bits(bits) for bits in counts},
        stacked=True,
        horizontal=True,
        zero="x",
        x_axis="rows",
        styles={bits: f"{color} {pattern}" for bits, (color, _, pattern) in _WIDTH_LOOKS.items()},
        y_axis=_MESSAGES,
    )
    for bits, trace in zip(counts, figure.data, strict=True):
        trace.update(
            text=[str(count) if count > min_count else "" for count in counts[bits]],
            insidetextfont={"size": 10, "color": _INK[bits]},
        )
    # Without constraintext="none" Plotly shrinks the numbers of thin bars until they cannot be read.
    return figure.update_traces(textposition="inside", insidetextanchor="middle", constraintext="none", textangle=0)


_MESSAGES = {
    "title_text": "sender → receiver", "type": "category", "autorange": "reversed", "dtick": 1, "tickfont_size": 10,
}  # fmt: skip
"""Axis with one tick per message, for any number of messages."""


# Different limits, because a panel is narrower than a figure.
def _are_few(walk: AssignerWalk, panel: bool) -> bool:
    return walk.message.num_rows <= (_FEW_IN_PANEL if panel else _FEW)


def _placed(rows: DataFrame, are_few: bool) -> DataFrame:
    """Add a column ``place``: the node's id as text if rows are few, else the number of the row."""
    return rows.assign(place=rows["node"].astype(str) if are_few else range(1, len(rows) + 1))


def _places(title: str, are_few: bool) -> dict[str, str]:
    return {"title_text": title, "type": "category" if are_few else "linear"}


def draw_assignment(walk: AssignerWalk, *, dark: bool = False) -> FigureData:
    """Draw all six steps at once."""
    charts = titled_charts(ASSIGNER_STEPS, walk, ASSIGNER_STEPS)
    caption = " ".join(step.say(walk) for step in ASSIGNER_STEPS.values())
    figure = panels(charts, rows=3, gap=(0.13, 0.15), title=_title(walk), caption=caption, dark=dark, height=920)
    figure.update_layout(margin={"t": 80}, legend={"y": -0.06, "yanchor": "top"}, bargap=0.1)
    return FigureData(figure, walk.to_frame())


def _title(walk: AssignerWalk) -> str:
    return f"Bit assignment: layer {walk.layer + 1}, {walk.direction}, λ = {walk.settings.lam:g}"


def _say_trace(walk: AssignerWalk) -> str:
    message, ranges = walk.message, walk.message.ranges[walk.index]
    return (
        f"In epoch {walk.epoch} worker {walk.sender} sent worker {walk.receiver} {_count(message.num_rows, 'row')} of "
        f"{message.columns} elements (layer {walk.layer + 1}, {walk.direction}). Encoding recorded the range of each: "
        f"{float(ranges.min()):.2g} to {float(ranges.max()):.2g}."
    )


def _say_beta(walk: AssignerWalk) -> str:
    frame = walk.to_frame()
    top = frame["beta"].idxmax()
    row = frame.loc[top]
    return (
        f"β = use · D · range² / 6. It is largest for node {top}: {row['use']:.3g} · {walk.message.columns} · "
        f"{row['range']:.3g}² / 6 = {row['beta']:.3g}; the smallest is {frame['beta'].min():.2g}."
    )


def _say_groups(walk: AssignerWalk) -> str:
    groups = int(walk.group_of_row.max()) + 1
    num_groups = walk.problem.group_rows.size  # groups of all messages of the layer
    share = float(walk.beta[walk.group_of_row == 0].sum() / walk.beta.sum().clamp_min(1e-300))
    return (
        f"Sorted by β and cut into groups of {walk.settings.group_size}: {_count(groups, 'group')} in this message, "
        f"{num_groups} in all messages of the layer. The first group has {share:.0%} of the message's total β."
    )


def _say_cost(walk: AssignerWalk) -> str:
    theta = float(walk.cost.theta_s_per_byte[walk.sender, walk.receiver])  # seconds per byte
    gamma = float(walk.cost.gamma_s[walk.sender, walk.receiver])  # seconds per message
    times = ", ".join(
        f"{walk.transfer_ms(walk.message, bits):.3g} ms in {human_bits(bits)}" for bits in walk.settings.bit_widths
    )
    return (
        f"Over {walk.wire.name} a byte takes θ = {1e9 * theta:.3g} ns and a message γ = {1e3 * gamma:.2g} ms more. "
        f"This message takes {times}."
    )


def _say_problem(walk: AssignerWalk) -> str:
    solution, problem = walk.solution, walk.problem
    return (
        f"{_count(problem.group_rows.size, 'group')} and {len(problem.widths)} bit-widths. With λ = {problem.lam:g} "
        f"the solver finds {1e3 * solution.seconds:.3g} ms and V = {solution.variance:.3g}, objective "
        f"{solution.objective:.4g}, provably within {solution.gap:.1g} of the optimum.{_say_busiest(walk)}"
    )


def _say_busiest(walk: AssignerWalk) -> str:
    if walk.busiest_end is None:
        return ""
    verb, worker = walk.busiest_end  # "sends" or "receives"
    return f" The bottleneck is what worker {worker} {verb}."


def _say_widths(walk: AssignerWalk) -> str:
    rows = walk.widths[walk.number]
    words = ", ".join(
        f"{_count(int((rows == bits).sum()), 'row')} in {human_bits(bits)}"
        for bits in walk.settings.bit_widths
        if (rows == bits).any()
    )
    sent_bytes = sum(walk.row_bytes(int(bits)) for bits in rows)  # bytes of all rows, with parameters
    return (
        f"Worker {walk.sender} sends worker {walk.receiver} the bit-widths of its rows: {words}; {sent_bytes:,} bytes "
        f"per pass instead of {4 * walk.message.columns * walk.message.num_rows:,}."
    )


def _cost_frame(walk: AssignerWalk) -> DataFrame:
    import pandas as pd

    rows = []
    for message in walk.messages:
        theta = float(walk.cost.theta_s_per_byte[message.sender, message.receiver])
        gamma = float(walk.cost.gamma_s[message.sender, message.receiver])
        times = {f"ms in {human_bits(bits)}": walk.transfer_ms(message, bits) for bits in walk.settings.bit_widths}
        name = _name(message)
        rows.append(  # s -> ns and ms
            {"message": name, "rows": message.num_rows, "θ (ns/byte)": 1e9 * theta, "γ (ms)": 1e3 * gamma, **times}
        )
    return pd.DataFrame(rows).set_index("message")


def _problem_frame(walk: AssignerWalk) -> DataFrame:
    import pandas as pd

    solution, (low_v, high_v, low_t, high_t) = walk.solution, walk.problem.ends
    return pd.DataFrame(
        {
            "exchange (ms)": [1e3 * solution.seconds, 1e3 * low_t, 1e3 * high_t],
            "variance": [solution.variance, low_v, high_v],
        },
        index=pd.Index([f"λ = {walk.settings.lam:g}", "utopia", "nadir"], name="point"),
    )


def _widths_frame(walk: AssignerWalk) -> DataFrame:
    return _counts(walk).rename(columns=human_bits)


def _counts(walk: AssignerWalk) -> DataFrame:
    """Return the number of rows of each message by bit-width."""
    import pandas as pd

    # rows by bit-width, one element per message
    counts = {bits: [int((rows == bits).sum()) for rows in walk.widths] for bits in walk.settings.bit_widths}
    return pd.DataFrame(counts, index=pd.Index([_name(message) for message in walk.messages], name="message"))


def _name(message: TracedMessage) -> str:
    return f"{message.sender} → {message.receiver}"


def _columns(*names: str) -> Callable[[AssignerWalk], DataFrame]:
    return lambda walk: walk.to_frame()[list(names)]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


# The order of the dictionary is the order of the steps.
ASSIGNER_STEPS: dict[str, WalkStep] = {
    "trace": WalkStep("Trace the ranges", _draw_trace, _columns("range"), _say_trace, legend_rows=0),
    "beta": WalkStep("Weight β of each row", _draw_beta, _columns("use", "range", "beta"), _say_beta, legend_rows=0),
    "groups": WalkStep("Sort into groups", _draw_groups, _columns("beta", "group"), _say_groups),
    "cost": WalkStep("Cost of the link", _draw_cost, _cost_frame, _say_cost),
    "problem": WalkStep("Trade time for variance", _draw_problem, _problem_frame, _say_problem),
    "widths": WalkStep("Send the bit-widths to the peers", _draw_widths, _widths_frame, _say_widths),
}
"""Steps by name, in their order."""
