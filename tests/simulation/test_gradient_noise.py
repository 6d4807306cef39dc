"""The fast measurement of noise agrees with the one that also records every layer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits import Fixed
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.simulation.gradient_noise import gradient_noise, trained_weights
from gnnqlab.simulation.theory_check import gradient_variance
from gnnqlab.simulation.threaded_workers import ThreadedWorkers, exact_trainer
from gnnqlab.systems import fixed_bits
from gnnqlab.train.config.run_config import TrainSettings
from tests.graphs import random_graph

MODEL = ModelSettings(layers=2, hidden=16, norm="none", dropout=0.5)


def test_variance_is_that_of_the_gradients():
    graph, system = random_graph(), replace(fixed_bits(bits=2), partition=Random())
    found = gradient_noise(graph, Fixed(bits=2), MODEL, repeats=6, system=system)
    shape, cut = replace(MODEL, dropout=0.0), Random().cut(graph, 2)
    threads = ThreadedWorkers(graph, cut, system, shape, TrainSettings())
    gradients = torch.stack([threads.gradients(epoch)[1] for epoch in range(6)]).double()
    assert found.variance == pytest.approx(float(gradients.var(0).sum()), rel=1e-6)
    assert found.squared_gradient == pytest.approx(float(gradients.mean(0).square().sum()) - found.variance / 6)
    assert 0 < found.standard_error < found.variance and found.relative > 0
    # The check of Theorem 3 counts weight matrices, this one biases too.
    frame = gradient_variance(graph, system, MODEL, repeats=6)
    assert found.variance > frame["measured"].iloc[-1]


def test_exact_messages_bring_no_noise():
    system = replace(fixed_bits(), partition=Random())
    found = gradient_noise(random_graph(), Fixed(bits=32), MODEL, repeats=3, system=system)
    assert found.relative < 1e-9


def test_weights_are_those_of_a_training():
    graph = random_graph()
    first, later = trained_weights(graph, MODEL, 0), trained_weights(graph, MODEL, 3)
    assert torch.equal(first, exact_trainer(graph, MODEL).parameters.values) and not torch.equal(first, later)


def test_one_pass_has_no_variance():
    with pytest.raises(ValueError, match="repeats must be at least 2 to have a variance, got 1"):
        gradient_noise(random_graph(), Fixed(bits=2), MODEL, repeats=1)
