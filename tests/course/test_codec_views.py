"""Charts of codecs and of chosen codes show the measurements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import gnnqlab as gq
from gnnqlab.course.codec_views import (
    cheapest_codec,
    decode_repeatedly,
    draw_choices,
    draw_codecs,
    draw_row_by_codec,
    draw_shares,
    shares,
)
from gnnqlab.course.experiments.codecs_over_epochs import codecs_over_epochs, codes_chosen
from gnnqlab.message import Codec, LeastVariance
from gnnqlab.message.codecs.codec import Noise
from gnnqlab.message.codecs.least_variance import APPROXIMATE_BELOW, SAFETY_FACTORS
from gnnqlab.nn import ModelSettings
from gnnqlab.simulation.codec_error import codec_error, trained_rows
from gnnqlab.simulation.gradient_noise import trained_weights


def _choices() -> pd.DataFrame:
    """Make a table in which every row backward is rotated, one of two forward, and none at 4 bits."""
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


def test_displayed_choices_equal_those_encoded_in_the_messages() -> None:
    graph, shape = gq.load("sbm:120,3,8"), ModelSettings(layers=2, hidden=48, dropout=0.0)
    recipe = replace(gq.systems.vanilla(), partition=gq.partitioners.Random())
    found = codes_chosen(graph, model=shape, epochs=(0, 3), system=recipe)
    rows = trained_rows(graph, shape, trained_weights(graph, shape, 3), most=200, system=recipe)
    codec, kinds = LeastVariance(), set()
    for place, matrix in rows.items():
        for bits in (1, 2, 4):
            layout, every = codec.layout(bits, *matrix.shape), torch.arange(len(matrix))
            segment = torch.empty(layout.num_bytes, dtype=torch.uint8)
            codec.encode(matrix, every, every, layout, segment, Noise(0, 0, 0))
            asked = (found["direction"] == place.direction) & (found["layer"] == place.layer) & (found["bits"] == bits)
            sure = SAFETY_FACTORS.get(matrix.shape[1], 1.25) if matrix.shape[1] < APPROXIMATE_BELOW else 1.0
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
    bundle = draw_choices(_choices(), bits=2)
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
    for wrong, said in (({"bits": 8}, r"in the frame, \[1, 2, 4\], got 8"), ({"start": 3}, r"\[0, 7\], got 3")):
        with pytest.raises(ValueError, match=said):
            draw_choices(_choices(), **wrong)


def test_shares_are_drawn_by_width_over_epochs() -> None:
    figure = draw_shares(_choices(), dark=True).figure
    assert len(figure.data) == 9 and [trace.name for trace in figure.data[:3]] == ["1 bit", "2 bits", "4 bits"]
    assert [list(trace.y) for trace in figure.data[:3]] == [[50, 50], [50, 50], [0, 0]]
    assert [list(trace.y) for trace in figure.data[6:]] == [[100, 100], [100, 100], [0, 0]]
    assert list(figure.data[0].x) == ["0", "7"]
    assert len({trace.marker.symbol for trace in figure.data[:3]}) == 3
    assert shares(_choices()).loc[(7, "backward", 1)].tolist() == [1.0, 1.0, 0.0]


CODECS: dict[str, Codec] = {"min-max": gq.codecs.Stochastic(), "rotated": gq.codecs.Rotated()}


def _frame() -> pd.DataFrame:
    """Make a table in which rotated is better backward, min-max forward."""
    lines = []
    for epoch in (0, 7):
        for direction, layer, parts in (("forward", 0, (1, 4)), ("forward", 1, (1, 4)), ("backward", 1, (4, 1))):
            for codec, size, share in (("min-max", 8, parts[0]), ("rotated", 4, parts[1])):
                for bits in (1, 2):
                    row_bytes = size + 16 * bits
                    lines.append(
                        (epoch, direction, layer, bits, codec, row_bytes, share / 2 ** (2 * bits) + epoch, 0.0)
                    )
    columns = ["epoch", "direction", "layer", "bits", "codec", "row_bytes", "squared", "bias"]
    return pd.DataFrame(lines, columns=columns)


def test_each_message_has_noise_of_its_own_and_the_mean_is_the_row() -> None:
    row = torch.linspace(-1, 2, 64)
    arrived = decode_repeatedly(row, gq.codecs.Stochastic(), 2, draws=400)
    assert arrived.shape == (400, 64) and not torch.equal(arrived[0], arrived[1])
    step = 3 / 3
    assert (arrived.mean(0) - row).abs().max() < 5 * step / 2 / 400**0.5


def test_a_row_is_drawn_as_it_arrives() -> None:
    row = 1e-7 * torch.randn(32, generator=torch.Generator().manual_seed(1))
    bundle = draw_row_by_codec(row, CODECS, bits=1, draws=3)
    clouds = [trace for trace in bundle.figure.data if trace.mode == "markers"]
    scale = float(row.square().mean().sqrt())
    for cloud, codec in zip(clouds, CODECS.values(), strict=True):
        arrived = decode_repeatedly(row, codec, 1, draws=3)
        np.testing.assert_allclose(cloud.y, arrived.flatten() / scale, rtol=1e-3)
        np.testing.assert_allclose(cloud.x, row.repeat(3) / scale, rtol=1e-3)
    assert clouds[0].marker.color != clouds[1].marker.color and clouds[0].marker.symbol != clouds[1].marker.symbol
    assert bundle.frame["bytes"].tolist() == [8 + 4, 4 + 4]
    error = (decode_repeatedly(row, CODECS["rotated"], 1, draws=3) - row).square().sum(1).mean() / row.square().sum()
    assert bundle.frame.loc["rotated"].iloc[1] == pytest.approx(100 * float(error) ** 0.5, abs=0.06)


def test_panels_and_slider_hold_the_epoch_they_name() -> None:
    frame = _frame()
    figure = draw_codecs(frame).figure
    titles = [each.text for each in figure.layout.annotations if each.text]
    assert titles == ["forward, layer 0", "forward, layer 1", "backward, layer 1"]
    assert len(figure.data) == 6 and [trace.showlegend for trace in figure.data].count(True) == 2
    slider = figure.layout.sliders[0]
    assert [step.label for step in slider.steps] == ["0", "7"] and slider.active == 1
    assert list(figure.data[0].y) == pytest.approx([0.25 + 7, 0.0625 + 7], rel=1e-3)  # the last epoch is drawn
    first = slider.steps[0].args[0]
    assert first["y"][0] == pytest.approx([0.25, 0.0625]) and first["x"][1] == [4 + 16, 4 + 32]
    assert first["customdata"][0] == ["1 bit", "2 bits"]
    with pytest.raises(ValueError, match=r"start must be one of the epochs in the frame, \[0, 7\], got 3"):
        draw_codecs(frame, start=3)


def test_cheapest_codec_fits_the_bytes_of_the_baseline() -> None:
    one = _frame().query("epoch == 0")
    assert cheapest_codec(one) == {
        ("forward", 0): "min-max in 2", ("forward", 1): "min-max in 2", ("backward", 1): "rotated in 2",
    }  # fmt: skip
    assert (
        cheapest_codec(one, bits=1)["backward", 1] == "rotated in 1"
    )  # two rotated bits are 36 bytes, the budget is 27.6
    with pytest.raises(ValueError, match="must be in the frame, got 'min-max' and 5"):
        cheapest_codec(one, bits=5)


GRAPH, SHAPE = gq.load("sbm:80,3,6"), ModelSettings(layers=2, hidden=16, dropout=0.0)
RECIPE = replace(gq.systems.vanilla(), partition=gq.partitioners.Random())


def test_lines_are_the_errors_of_that_epochs_rows() -> None:
    codecs: dict[str, Codec] = {"min-max": gq.codecs.Stochastic(), "eight": gq.codecs.MXFP8()}
    found = codecs_over_epochs(GRAPH, codecs, model=SHAPE, epochs=(0, 3), bits=(1, 8), system=RECIPE, rows=50)
    assert set(found[found["codec"] == "eight"]["bits"]) == {8}  # a bit-width that the table lacks has no line
    sent = trained_rows(GRAPH, SHAPE, trained_weights(GRAPH, SHAPE, 3), most=50, system=RECIPE)
    for place, rows in sent.items():
        at = (found["direction"] == place.direction) & (found["layer"] == place.layer) & (found["bits"] == 1)
        here = found[at & (found["epoch"] == 3)]
        assert here["squared"].item() == codec_error(codecs["min-max"], rows, 1, draws=8).squared
        assert here["row_bytes"].item() == 8 + -(-rows.shape[1] // 8)
    hidden = found.query("direction == 'forward' and layer == 1 and bits == 1").set_index("epoch")["squared"]
    assert hidden[0] != hidden[3], "rows change as weights do"


def test_epochs_rise() -> None:
    with pytest.raises(ValueError, match=r"epochs must rise from 0 on, got \[5, 0\]"):
        codecs_over_epochs(GRAPH, {"min-max": gq.codecs.Stochastic()}, model=SHAPE, epochs=(5, 0))
