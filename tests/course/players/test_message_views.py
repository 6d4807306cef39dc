"""Every step of a message as a figure: its numbers are those of the walk, and its text repeats them."""

import pytest
import torch

from gnnqlab.course.experiments.real_message import RealMessage
from gnnqlab.course.players.message_views import SHOWN, STEPS, draw_walk
from gnnqlab.course.players.message_walk import MessageWalk
from gnnqlab.course.players.stepped import draw_step
from tests.cases import each


def _message(rows: int = 6, columns: int = 11) -> RealMessage:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(rows, columns, generator=generator)
    return RealMessage(values, torch.arange(rows) * 7, 0, 1, layer=1, epoch=3, seed=0)


@each("bits", [1, 2, 4, 8])
@each("name", STEPS)
def test_every_step_has_a_figure_and_a_caption(name: str, bits: int) -> None:
    walk = MessageWalk.from_message(_message(), bits=bits, node=14)
    shown = draw_step(STEPS, walk, name)
    layout = shown.figure.to_dict()["layout"]
    number = list(STEPS).index(name) + 1
    assert layout["title"]["text"].startswith(f"{number} · ")
    assert layout["meta"]["caption"] == STEPS[name].say(walk) and layout["meta"]["caption"].endswith(".")
    assert layout["xaxis"]["title"]["text"] and len(shown.frame) > 0


@each("bits", [1, 2, 4, 8])
def test_the_bits_in_the_picture_are_the_bytes(bits: int) -> None:
    walk = MessageWalk.from_message(_message(), bits=bits)
    shown = draw_step(STEPS, walk, "pack")
    drawn = [int("".join(line), 2) for line in shown.figure.to_dict()["data"][0]["text"]]
    assert drawn == walk.payload.tolist()
    assert [int(word, 2) for word in shown.frame["bits"]] == walk.payload.tolist()
    said = shown.frame["codes"].str.split(", ").sum()
    assert [int(code) for code in said] == walk.codes.tolist()


def test_the_first_byte_is_worked_out_in_words() -> None:
    walk = MessageWalk.from_message(_message(), bits=2)
    words = STEPS["pack"].say(walk)
    terms = words.split("byte 0 is ")[1].split(" = ")
    assert eval(terms[0].replace("·", "*")) == int(terms[1].split(".")[0]) == walk.payload[0]


def test_rounded_marks_are_at_the_levels_of_their_codes() -> None:
    walk = MessageWalk.from_message(_message(), bits=2)
    rounded = next(trace for trace in draw_step(STEPS, walk, "round").figure.data if trace.name == "code, at its level")
    assert [int(code) for code in rounded.text] == walk.codes.tolist()
    assert list(rounded.y) == pytest.approx([walk.zero + code * walk.scale for code in walk.codes.tolist()], rel=1e-5)


@each("rows", [6, 60])
def test_the_wire_is_drawn_to_the_byte(rows: int) -> None:
    widths = torch.tensor([(2, 4, 8)[place % 3] for place in range(rows)], dtype=torch.uint8)
    walk = MessageWalk.from_message(_message(rows), bits=widths)
    bars = [trace for trace in draw_step(STEPS, walk, "wire").figure.data if trace.y[0] == 0]
    assert sum(sum(bar.x) for bar in bars) == walk.layout.num_bytes == walk.segment.numel()
    own = next(bar for bar in bars if bar.name == f"row {walk.node}")
    assert list(own.x) == [8, len(walk.payload)]
    ticks = draw_step(STEPS, walk, "wire").figure.layout.xaxis.ticktext
    assert ticks[0] == "0" and all(text.endswith("B") for text in ticks[1:]), "bytes, like the labels of the bars"
    assert f"{walk.layout.num_bytes} in all instead of {44 * rows}" in STEPS["wire"].say(walk)


def test_wide_row_shows_its_first_elements_and_their_number() -> None:
    walk = MessageWalk.from_message(_message(columns=100), bits=4)
    figure = draw_step(STEPS, walk, "unpack").figure
    assert f"the first {SHOWN} of 100" in figure.layout.xaxis.title.text
    assert max(len(trace.x) for trace in figure.data if trace.mode == "markers") == SHOWN


def test_all_steps_of_the_walk_are_drawn_in_one_figure() -> None:
    shown = draw_walk(MessageWalk.from_message(_message(), bits=2), dark=True)
    titles = [note.text for note in shown.figure.layout.annotations]
    for name in ("Stochastic rounding", "Pack codes into bytes", "The message on the wire", "Unpack"):
        assert any(name in title for title in titles)
    assert list(shown.frame.columns)[-1] == "error"


def test_a_constant_row_is_drawn_too() -> None:
    walk = MessageWalk.from_message(
        RealMessage(torch.ones(1, 4), torch.tensor([0]), 0, 1, layer=1, epoch=0, seed=0), bits=2
    )
    for name in STEPS:
        draw_step(STEPS, walk, name)


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a step must be one of \('row', .*got 'fly'"):
        draw_step(STEPS, MessageWalk.from_message(_message()), "fly")
