"""Pictures of codecs beside each other show what was measured, and the choice by bytes is the table's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import gnnqlab as gq
from gnnqlab.course.codec_views import cheapest, draw_codecs, row_through, sent_often
from gnnqlab.message import Codec

CODECS: dict[str, Codec] = {"min-max": gq.Stochastic(), "rotated": gq.Rotated()}


def _frame() -> pd.DataFrame:
    """A made table: rotated is better backward, min-max forward."""
    lines = []
    for epoch in (0, 7):
        for direction, layer, shares in (("forward", 0, (1, 4)), ("forward", 1, (1, 4)), ("backward", 1, (4, 1))):
            for codec, size, share in (("min-max", 8, shares[0]), ("rotated", 4, shares[1])):
                for bits in (1, 2):
                    row_bytes = size + 16 * bits
                    lines.append(
                        (epoch, direction, layer, bits, codec, row_bytes, share / 2 ** (2 * bits) + epoch, 0.0)
                    )
    columns = ["epoch", "direction", "layer", "bits", "codec", "row_bytes", "squared", "bias"]
    return pd.DataFrame(lines, columns=columns)


def test_each_message_has_noise_of_its_own_and_the_mean_is_the_row() -> None:
    row = torch.linspace(-1, 2, 64)
    arrived = sent_often(row, gq.Stochastic(), 2, draws=400)
    assert arrived.shape == (400, 64) and not torch.equal(arrived[0], arrived[1])
    step = 3 / 3
    assert (arrived.mean(0) - row).abs().max() < 5 * step / 2 / 400**0.5


def test_a_row_is_drawn_as_it_arrives() -> None:
    row = 1e-7 * torch.randn(32, generator=torch.Generator().manual_seed(1))
    bundle = row_through(row, CODECS, bits=1, draws=3)
    clouds = [trace for trace in bundle.figure.data if trace.mode == "markers"]
    scale = float(row.square().mean().sqrt())
    for cloud, codec in zip(clouds, CODECS.values(), strict=True):
        arrived = sent_often(row, codec, 1, draws=3)
        np.testing.assert_allclose(cloud.y, arrived.flatten() / scale, rtol=1e-3)
        np.testing.assert_allclose(cloud.x, row.repeat(3) / scale, rtol=1e-3)
    assert clouds[0].marker.color != clouds[1].marker.color and clouds[0].marker.symbol != clouds[1].marker.symbol
    assert bundle.frame["bytes"].tolist() == [8 + 4, 4 + 4]
    error = (sent_often(row, CODECS["rotated"], 1, draws=3) - row).square().sum(1).mean() / row.square().sum()
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


def test_the_cheapest_fits_the_bytes_of_what_it_is_held_against() -> None:
    one = _frame().query("epoch == 0")
    assert cheapest(one) == {
        ("forward", 0): "min-max in 2", ("forward", 1): "min-max in 2", ("backward", 1): "rotated in 2",
    }  # fmt: skip
    assert cheapest(one, bits=1)["backward", 1] == "rotated in 1"  # two rotated bits are 36 bytes, the room is 27.6
    with pytest.raises(ValueError, match="must be in the frame, got 'min-max' and 5"):
        cheapest(one, bits=5)
