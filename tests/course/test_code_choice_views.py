"""Pictures of which row chooses which code: points and shares are the table's, and the table's are the codec's."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
import torch

import gnnqlab as gq
from gnnqlab.course.code_choice_views import draw_choices, draw_shares, shares
from gnnqlab.course.experiments.codes_chosen import codes_chosen
from gnnqlab.message import LeastVariance
from gnnqlab.message.codecs.codec import Noise
from gnnqlab.message.codecs.least_variance import SHORT, SURE
from gnnqlab.nn import ModelSettings
from gnnqlab.simulation.codec_error import trained_rows
from gnnqlab.simulation.gradient_noise import trained_weights


def _frame() -> pd.DataFrame:
    """A made table: backward every row is rotated, forward one of two, at 4 bits none."""
    lines = []
    for epoch in (0, 7):
        for direction, layer in (("forward", 0), ("forward", 1), ("backward", 1)):
            for bits in (1, 2, 4):
                for peak in (2.0, 9.0):
                    rotated = bits < 4 and (direction == "backward" or peak > 5)
                    lines.append(
                        (epoch, direction, layer, bits, peak, (3.0 if rotated else 0.3) + epoch / 100, rotated)
                    )
    return pd.DataFrame(lines, columns=["epoch", "direction", "layer", "bits", "peak", "ratio", "rotated"])


def test_choices_are_those_that_the_codec_makes_and_says_in_its_messages() -> None:
    graph, shape = gq.load("sbm:120,3,8"), ModelSettings(layers=2, hidden=48, dropout=0.0)
    recipe = replace(gq.systems.vanilla(), partition=gq.Random())
    found = codes_chosen(graph, model=shape, epochs=(0, 3), system=recipe)
    rows = trained_rows(graph, shape, trained_weights(graph, shape, 3), most=200, system=recipe)
    codec, kinds = LeastVariance(), set()
    for place, matrix in rows.items():
        for bits in (1, 2, 4):
            layout, every = codec.layout(bits, *matrix.shape), torch.arange(len(matrix))
            segment = torch.empty(layout.num_bytes, dtype=torch.uint8)
            codec.encode(matrix, every, every, layout, segment, Noise(0, 0, 0))
            asked = (found["direction"] == place.direction) & (found["layer"] == place.layer) & (found["bits"] == bits)
            sure = SURE.get(matrix.shape[1], 1.25) if matrix.shape[1] < SHORT else 1.0
            mine = found[asked & (found["epoch"] == 3)]
            assert mine["rotated"].tolist() == codec.rotated(segment, layout).tolist()
            assert ((mine["ratio"] > sure) == mine["rotated"]).all()
            kinds |= set(mine["rotated"])
    assert kinds == {False, True}
    with pytest.raises(ValueError, match=r"bits must be among \(1, 2, 4\), where rows choose, got \[3\]"):
        codes_chosen(graph, bits=(3,))
    with pytest.raises(ValueError, match="epochs must rise"):
        codes_chosen(graph, epochs=(3, 3))


def test_every_row_is_a_point_of_its_code_and_the_slider_moves_epochs() -> None:
    bundle = draw_choices(_frame(), bits=2)
    figure = bundle.figure
    assert [each.text for each in figure.layout.annotations if each.text][:3] == [
        "forward, layer 0", "forward, layer 1", "backward, layer 1",
    ]  # fmt: skip
    between, rotated = figure.data[0], figure.data[1]
    assert (between.name, list(between.x), list(between.y)) == ("between its ends", [2.0], [0.37])
    assert (rotated.name, list(rotated.x), list(rotated.y)) == ("rotated", [9.0], [3.07])
    assert list(figure.data[4].x) == [] and list(figure.data[5].x) == [2.0, 9.0]
    assert [trace.name for trace in figure.data if trace.showlegend is not False] == ["between its ends", "rotated"]
    slider = figure.layout.sliders[0]
    assert [step.label for step in slider.steps] == ["0", "7"] and slider.active == 1
    data, moved = slider.steps[0].args
    assert list(map(list, data["y"][:2])) == [[0.3], [3.0]]
    assert list(moved) == list(range(6)), "the legend's own points stay"
    assert "forward layer 0: 50%; forward layer 1: 50%; backward layer 1: 100%" in figure.layout.meta["caption"]
    for wrong, said in (({"bits": 8}, r"in the frame, \[1, 2, 4\], got 8"), ({"start": 3}, r"\[0, 7\], got 3")):
        with pytest.raises(ValueError, match=said):
            draw_choices(_frame(), **wrong)


def test_shares_are_drawn_by_width_over_epochs() -> None:
    figure = draw_shares(_frame(), dark=True).figure
    assert len(figure.data) == 9 and [trace.name for trace in figure.data[:3]] == ["1 bit", "2 bits", "4 bits"]
    assert [list(trace.y) for trace in figure.data[:3]] == [[50, 50], [50, 50], [0, 0]]
    assert [list(trace.y) for trace in figure.data[6:]] == [[100, 100], [100, 100], [0, 0]]
    assert list(figure.data[0].x) == ["0", "7"]
    assert len({trace.marker.symbol for trace in figure.data[:3]}) == 3
    assert shares(_frame()).loc[(7, "backward", 1)].tolist() == [1.0, 1.0, 0.0]
