"""Errors of codecs on rows of a real training: the rows, and the separation of bias and noise."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits import Fixed
from gnnqlab.graph import load
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.codec_error import codec_error, trained_rows
from gnnqlab.simulation.gradient_noise import gradient_noise, trained_weights


def spiky(count: int) -> torch.Tensor:
    rows = torch.zeros(count, 64)
    rows[:, 3], rows[:, 40] = 1.0, 0.5
    return rows


def test_codec_error_separates_bias_from_noise():
    """One rotation of two spikes is random in its signs only: all of its error is orthogonal, half of the norm."""
    once, twice = (codec_error(gq.codecs.Rotated(rotations=turns), spiky(60), 1, draws=40) for turns in (1, 2))
    assert once.bias == pytest.approx(0.5, abs=0.03) and once.squared == pytest.approx(0.25, abs=0.03)
    assert twice.bias < 0.06 and twice.squared == pytest.approx(0.57, abs=0.05)
    assert codec_error(gq.codecs.Linear(), torch.rand(50, 64), 1).bias > 0.1, "rounding to the nearest is all bias"
    assert codec_error(gq.codecs.Stochastic(), torch.rand(50, 64), 32).squared == 0
    with pytest.raises(ValueError, match="at least 2"):
        codec_error(gq.codecs.Rotated(), spiky(2), 1, draws=1)


def test_rows_are_those_that_travel_and_gradients_take_the_codec():
    graph, shape = load("sbm:60,3,6"), ModelSettings(layers=2, hidden=8)
    recipe = replace(gq.systems.vanilla(), partition=gq.partitioners.Random())
    weights = trained_weights(graph, shape, 2)
    found = trained_rows(graph, shape, weights, system=recipe, most=20)
    assert set(found) == {(direction, layer) for direction in ("forward", "backward") for layer in (0, 1)}
    for layer in (0, 1):
        assert found["forward", layer].shape[1] == found["backward", layer].shape[1], (
            "a gradient has the columns of the sent row"
        )
    assert all(0 < rows.shape[0] <= 20 and (rows.abs().amax(1) > 0).all() for rows in found.values())
    noise = {"system": recipe, "weights": weights, "repeats": 4}
    exact = gradient_noise(graph, Fixed(bits=32), shape, codec=gq.codecs.Rotated(), **noise)
    rough = gradient_noise(graph, Fixed(bits=1), shape, codec=gq.codecs.Rotated(), **noise)
    assert exact.variance < 1e-9 * rough.variance
