"""The steps of a message as figures: the row, the ruler, rounding, packing, the wire, unpacking.

Each step is a ``Bundle``: a figure, the numbers in it, and a sentence about this very row as its caption.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnnqlab.course.players import message_panels
from gnnqlab.course.players.message_panels import in_words
from gnnqlab.course.players.message_walk import MessageWalk
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import panels
from gnnqlab.lab.figures.theme import finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["STEPS", "MessageStep", "draw_step", "draw_walk"]


@dataclass(frozen=True)
class MessageStep:
    """One step of the walk: its title, its figure, its numbers and what to say about it."""

    title: str
    draw: Callable[[MessageWalk, bool], Figure]
    frame: Callable[[MessageWalk], DataFrame]
    say: Callable[[MessageWalk], str]
    height: int = 330


def draw_step(walk: MessageWalk, name: str, *, dark: bool = False) -> Bundle:
    """Draw one step of the walk.

    Args:
        walk: the message and the row that is followed.
        name: one of ``row, ruler, round, pack, wire, unpack``.
        dark: colours for a dark page.

    Raises:
        ValueError: if there is no such step.
    """
    if name not in STEPS:
        raise ValueError(f"a step must be one of {tuple(STEPS)}, got {name!r}")
    step = STEPS[name]
    figure = step.draw(walk, False)
    number = list(STEPS).index(name) + 1
    height = step.height + (20 * len(walk.payload[: 2 * message_panels.SHOWN]) if name == "pack" else 0)
    rows = {"row": 0, "pack": 0, "wire": 2}.get(name, 1)  # of the legend
    finish(figure, title=f"{number} · {step.title}", caption=step.say(walk), dark=dark, height=height, legend_rows=rows)
    return Bundle(figure, step.frame(walk))


def draw_walk(walk: MessageWalk, *, dark: bool = False) -> Bundle:
    """Draw the whole walk at once: rounding, packing, the wire and what arrives."""
    names = ("round", "pack", "wire", "unpack")
    charts = {f"{list(STEPS).index(name) + 1} · {STEPS[name].title}": STEPS[name].draw(walk, True) for name in names}
    caption = " ".join(STEPS[name].say(walk) for name in names)
    title = f"Row {walk.node} from worker {walk.message.sender} to worker {walk.message.receiver} in {in_words(walk)}"
    figure = panels(charts, rows=2, gap=(0.11, 0.2), title=title, caption=caption, dark=dark, height=640)
    figure.update_layout(showlegend=False, legend=None)
    figure.update_layout(margin={"t": 80})
    return Bundle(figure, walk.to_frame())


def _say_row(walk: MessageWalk) -> str:
    message, count = walk.message, walk.row.numel()
    zeros = int((walk.row == 0).sum())
    return (
        f"The row of node {walk.node}, input of layer {message.layer} in epoch {message.epoch}: {count} numbers, "
        f"{zeros} of them zero, {4 * count} bytes in float32."
    )


def _say_ruler(walk: MessageWalk) -> str:
    steps = 2**walk.bits - 1
    return (
        f"{in_words(walk)} can say {steps + 1} things, so the ruler has {steps + 1} marks: the first at the smallest "
        f"value, Z = {walk.zero:.4g}, the last at the largest, and from one to the next "
        f"S = {float(walk.row.max() - walk.row.min()):.4g} / {steps} = {walk.scale:.4g}."
    )


def _say_round(walk: MessageWalk) -> str:
    marks = walk.marks
    fractions = marks - marks.floor()
    place = int((fractions - 0.5).abs().argmin())  # the element that chance decides most
    mark, noise, code = float(marks[place]), float(walk.noise[place]), int(walk.codes[place])
    return (
        f"Element {place} stands at {mark:.3f}: with u = {noise:.3f} that makes {mark + noise:.3f}, rounded down to "
        f"code {code}. Over many draws it goes up {100 * float(fractions[place]):.0f} % of the time, so that it is "
        "right on average."
    )


def _say_pack(walk: MessageWalk) -> str:
    per_byte = 8 // walk.bits
    inside = [int(code) for code in walk.codes[:per_byte]]
    sum_of = " + ".join(f"{code}·{1 << place * walk.bits}" for place, code in enumerate(inside))
    return (
        f"{per_byte} code{'s' if per_byte > 1 else ''} of {in_words(walk)} to a byte, the first element in the lowest "
        f"bits: byte 0 is {sum_of} = {int(walk.payload[0])}. The row takes {len(walk.payload)} bytes."
    )


def _say_wire(walk: MessageWalk) -> str:
    from gnnqlab.message.transport.header import SIZE

    rows, total = len(walk.widths), walk.layout.num_bytes
    whole = 4 * walk.message.rows.numel()
    return (
        f"The whole message: {rows} rows, {walk.layout.param_bytes} bytes of parameters (Z and S of each row), then "
        f"{walk.layout.payload_bytes} bytes of payload, {total} in all instead of {whole} in float32: "
        f"{whole / total:.1f} times fewer. A header of {SIZE} bytes goes ahead and says what follows."
    )


def _say_unpack(walk: MessageWalk) -> str:
    squared = float(((walk.decoded - walk.row).double() ** 2).sum())
    variance = walk.variance
    return (
        f"The receiver computes q S + Z. Squared error of this draw {squared:.3g}; over all draws "
        f"{variance['exact']:.3g} (exact), {variance['average']:.3g} if fractions were uniform (D S²/6), never more "
        f"than {variance['worst']:.3g} (D S²/4)."
    )


def _frame_of(*columns: str) -> Callable[[MessageWalk], DataFrame]:
    return lambda walk: walk.to_frame()[list(columns)]


def _bytes_frame(walk: MessageWalk) -> DataFrame:
    import pandas as pd

    payload = walk.payload.tolist()
    codes, per_byte = walk.codes.tolist(), 8 // walk.bits
    return pd.DataFrame(
        {
            "codes": [", ".join(map(str, codes[at * per_byte : (at + 1) * per_byte])) for at in range(len(payload))],
            "bits": [f"{value:08b}" for value in payload],
            "byte": payload,
        },
        index=pd.Index(range(len(payload)), name="byte of the payload"),
    )


def _wire_frame(walk: MessageWalk) -> DataFrame:
    import pandas as pd

    rows = [(run.node, run.kind, run.bits, run.first, run.size) for run in walk.wire]
    return pd.DataFrame(rows, columns=["node", "kind", "bits", "first byte", "bytes"]).set_index("node")


STEPS: dict[str, MessageStep] = {
    "row": MessageStep("The row", message_panels.draw_row, _frame_of("value"), _say_row),
    "ruler": MessageStep(
        "A ruler over its range", message_panels.draw_ruler, _frame_of("value", "(x - Z) / S"), _say_ruler
    ),
    "round": MessageStep(
        "Round at random",
        message_panels.draw_round,
        _frame_of("value", "(x - Z) / S", "fraction σ", "noise u", "code q"),
        _say_round,
    ),
    "pack": MessageStep("Pack codes into bytes", message_panels.draw_pack, _bytes_frame, _say_pack, height=190),
    "wire": MessageStep("The message on the wire", message_panels.draw_wire, _wire_frame, _say_wire, height=300),
    "unpack": MessageStep(
        "Unpack", message_panels.draw_unpack, _frame_of("value", "code q", "decoded", "error"), _say_unpack
    ),
}
"""In the order in which they happen."""
