"""Theorem 2 on real descents."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.graph import load
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.simulation.convergence_check import convergence, curvature
from gnnqlab.simulation.threaded_workers import exact_trainer
from gnnqlab.systems import fixed_bits
from tests.cases import each
from tests.graphs import random_graph


def shape(model="gcn", **changes):
    return ModelSettings(**{"name": model, "layers": 2, "hidden": 16, "norm": "none", "dropout": 0.0, **changes})


@each(("model", "bits", "smooth"), [("gcn", 2, True), ("gcn", 8, False), ("graphsage", 1, True)])
def test_gradients_lie_under_the_bound(model, bits, smooth):
    system = replace(fixed_bits(bits=bits), partition=Random())
    found = convergence(load("sbm:120,3,8"), system, shape(model), epochs=16, looks=3, smooth=smooth)
    assert found.step_allowed
    frame = found.frame
    assert (frame["mean_square"] <= frame["bound"]).all()
    assert frame["loss"].iloc[-1] < frame["loss"].iloc[0]
    # The first term is 1/T of a constant, the second is constant.
    assert frame["descent"].iloc[-1] * 16 == pytest.approx(frame["descent"].iloc[0])
    assert frame["noise"].nunique() == 1


def test_a_step_too_long_has_no_bound():
    system = replace(fixed_bits(bits=8), partition=Random())
    found = convergence(random_graph(), system, shape(), epochs=2, step=100.0)
    assert not found.step_allowed
    assert found.frame["bound"].tolist() == [float("inf")] * 2


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="epochs and looks must be at least 1"):
        convergence(random_graph(), "vanilla", shape(), epochs=0)
    with pytest.raises(ValueError, match="step must be positive"):
        convergence(random_graph(), "vanilla", shape(), step=-1.0)


def test_curvature_of_a_model_agrees_with_differences_of_gradients():
    """The kernels' own second derivatives: along the steepest direction ||g(w + e v) - g(w - e v)|| / 2e is L_2."""
    trainer = exact_trainer(random_graph(), shape("graphsage"), smooth=True)
    found = curvature(trainer).curvature
    weights, step = trainer.parameters.values, 1e-3
    start = weights.clone()
    direction = torch.randn(weights.shape, generator=torch.Generator().manual_seed(0))
    estimate = 0.0
    for _ in range(30):
        direction = direction / direction.norm()
        sides = []
        for sign in (1, -1):
            weights.copy_(start + sign * step * direction)
            trainer.gradients(0)
            sides.append(trainer.parameters.gradients.clone())
        direction = (sides[0] - sides[1]) / (2 * step)
        estimate = float(direction.norm())
    assert found == pytest.approx(estimate, rel=0.05)
