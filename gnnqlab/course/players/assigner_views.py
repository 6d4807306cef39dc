"""The six steps of an assignment as figures: trace, weigh, group, cost, problem, widths (AdaQP Fig. 6).

Each step is a ``Bundle``: a figure, the numbers in it, and a sentence about this very message as its caption.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.players import assigner_panels
from gnnqlab.course.players.assigner_walk import AssignerWalk
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import panels
from gnnqlab.lab.figures.theme import finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["ASSIGNER_STEPS", "AssignerStep", "draw_assignment", "draw_assigner_step"]


@dataclass(frozen=True)
class AssignerStep:
    """One step: its title, its figure, its numbers and what to say about it."""

    title: str
    draw: Callable[[AssignerWalk, bool], Figure]
    frame: Callable[[AssignerWalk], DataFrame]
    say: Callable[[AssignerWalk], str]
    legend_rows: int = 0


def draw_assigner_step(walk: AssignerWalk, name: str, *, dark: bool = False) -> Bundle:
    """Draw one step.

    Args:
        walk: the assignment and the message that is followed.
        name: one of ``trace, beta, groups, cost, problem, widths``.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no such step.
    """
    if name not in ASSIGNER_STEPS:
        raise ValueError(f"a step must be one of {tuple(ASSIGNER_STEPS)}, got {name!r}")
    step, number = ASSIGNER_STEPS[name], list(ASSIGNER_STEPS).index(name) + 1
    figure = step.draw(walk, False)
    title = f"{number} · {step.title}"
    finish(figure, title=title, caption=step.say(walk), dark=dark, height=330, legend_rows=step.legend_rows)
    return Bundle(figure, step.frame(walk))


def draw_assignment(walk: AssignerWalk, *, dark: bool = False) -> Bundle:
    """Draw all six steps at once."""
    charts = {
        f"{number} · {step.title}": step.draw(walk, True)
        for number, step in enumerate(ASSIGNER_STEPS.values(), start=1)
    }
    caption = " ".join(step.say(walk) for step in ASSIGNER_STEPS.values())
    figure = panels(charts, rows=3, gap=(0.13, 0.15), title=_title(walk), caption=caption, dark=dark, height=920)
    figure.update_layout(margin={"t": 80}, legend={"y": -0.06, "yanchor": "top"}, bargap=0.1)
    return Bundle(figure, walk.to_frame())


def _title(walk: AssignerWalk) -> str:
    return f"Who gets which bits: layer {walk.layer + 1}, {walk.direction}, λ = {walk.settings.lam:g}"


def _say_trace(walk: AssignerWalk) -> str:
    message, ranges = walk.message, walk.message.ranges[walk.index]
    return (
        f"In epoch {walk.epoch} worker {walk.sender} sent worker {walk.receiver} {_count(message.num_rows, 'row')} of "
        f"{message.columns} numbers (layer {walk.layer + 1}, {walk.direction}). Encoding noted the range of each: "
        f"{float(ranges.min()):.2g} to {float(ranges.max()):.2g}."
    )


def _say_beta(walk: AssignerWalk) -> str:
    frame = walk.to_frame()
    top = frame["beta"].idxmax()
    row = frame.loc[top]
    return (
        f"β = use · D · range² / 6. Node {top} weighs most: {row['use']:.3g} · {walk.message.columns} · "
        f"{row['range']:.3g}² / 6 = {row['beta']:.3g}; the lightest row {frame['beta'].min():.2g}."
    )


def _say_groups(walk: AssignerWalk) -> str:
    groups = int(walk.group_of_row.max()) + 1
    whole = walk.problem.group_rows.size
    share = float(walk.beta[walk.group_of_row == 0].sum() / walk.beta.sum().clamp_min(1e-300))
    return (
        f"Sorted by β and cut into groups of {walk.settings.group_size}: {_count(groups, 'group')} in this message, "
        f"{whole} in all messages of the layer. The first group has {share:.0%} of the message's β."
    )


def _say_cost(walk: AssignerWalk) -> str:
    theta = float(walk.cost.theta_s_per_byte[walk.sender, walk.receiver])
    gamma = float(walk.cost.gamma_s[walk.sender, walk.receiver])
    rows = walk.message.num_rows
    times = ", ".join(
        f"{1e3 * (gamma + theta * rows * walk.row_bytes(bits)):.3g} ms in {human_bits(bits)}"
        for bits in walk.settings.among
    )
    return (
        f"Over {walk.wire.name} a byte takes θ = {1e9 * theta:.3g} ns and a message γ = {1e3 * gamma:.2g} ms. "
        f"This message takes {times}."
    )


def _say_problem(walk: AssignerWalk) -> str:
    found, problem = walk.solution, walk.problem
    return (
        f"{_count(problem.group_rows.size, 'group')} and {len(problem.widths)} widths. With λ = {problem.lam:g} the "
        f"solver finds {1e3 * found.seconds:.3g} ms and V = {found.variance:.3g}, objective {found.objective:.4g}, "
        f"proved to be within {found.gap:.1g} of the best.{_say_busiest(walk)}"
    )


def _say_busiest(walk: AssignerWalk) -> str:
    if walk.busiest_end is None:
        return ""
    what, worker = walk.busiest_end
    return f" As long takes what worker {worker} {what}, the busiest end of all."


def _say_widths(walk: AssignerWalk) -> str:
    rows = walk.widths[walk.number]
    words = ", ".join(
        f"{_count(int((rows == bits).sum()), 'row')} in {human_bits(bits)}"
        for bits in walk.settings.among
        if (rows == bits).any()
    )
    sent = sum(walk.row_bytes(int(bits)) for bits in rows)
    return (
        f"Worker {walk.sender} tells worker {walk.receiver} the widths of its rows: {words}; {sent:,} bytes a pass "
        f"in the place of {4 * walk.message.columns * walk.message.num_rows:,}."
    )


def _cost_frame(walk: AssignerWalk) -> DataFrame:
    import pandas as pd

    rows = []
    for message in walk.messages:
        theta = float(walk.cost.theta_s_per_byte[message.sender, message.receiver])
        gamma = float(walk.cost.gamma_s[message.sender, message.receiver])
        times = {
            f"ms in {human_bits(b)}": 1e3 * (gamma + theta * message.num_rows * walk.row_bytes(b))
            for b in walk.settings.among
        }
        name = f"{message.sender} → {message.receiver}"
        rows.append(
            {"message": name, "rows": message.num_rows, "θ (ns/byte)": 1e9 * theta, "γ (ms)": 1e3 * gamma, **times}
        )
    return pd.DataFrame(rows).set_index("message")


def _problem_frame(walk: AssignerWalk) -> DataFrame:
    import pandas as pd

    found, (low_v, high_v, low_t, high_t) = walk.solution, walk.problem.ends
    return pd.DataFrame(
        {
            "exchange (ms)": [1e3 * found.seconds, 1e3 * low_t, 1e3 * high_t],
            "variance": [found.variance, low_v, high_v],
        },
        index=pd.Index([f"λ = {walk.settings.lam:g}", "utopia", "nadir"], name="point"),
    )


def _widths_frame(walk: AssignerWalk) -> DataFrame:
    import pandas as pd

    rows = [
        {
            "message": f"{message.sender} → {message.receiver}",
            **{human_bits(bits): int((widths == bits).sum()) for bits in walk.settings.among},
        }
        for message, widths in zip(walk.messages, walk.widths, strict=True)
    ]
    return pd.DataFrame(rows).set_index("message")


def _columns(*names: str) -> Callable[[AssignerWalk], DataFrame]:
    return lambda walk: walk.to_frame()[list(names)]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


ASSIGNER_STEPS: dict[str, AssignerStep] = {
    "trace": AssignerStep("Trace the ranges", assigner_panels.draw_trace, _columns("range"), _say_trace),
    "beta": AssignerStep("Weigh each row", assigner_panels.draw_beta, _columns("use", "range", "beta"), _say_beta),
    "groups": AssignerStep(
        "Sort into groups", assigner_panels.draw_groups, _columns("beta", "group"), _say_groups, legend_rows=1
    ),
    "cost": AssignerStep("Price a byte", assigner_panels.draw_cost, _cost_frame, _say_cost, legend_rows=1),
    "problem": AssignerStep(
        "Weigh time against variance", assigner_panels.draw_problem, _problem_frame, _say_problem, 1
    ),
    "widths": AssignerStep("Tell the peers", assigner_panels.draw_widths, _widths_frame, _say_widths, legend_rows=1),
}
"""By name, in their order."""
