"""Bit-widths that grow by a plan: never smaller, and float32 in the end is Vanilla."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits import Growing
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.train.config.run_config import TrainSettings
from tests.cases import each
from tests.exchange.test_sampling import on_rank
from tests.graphs import random_graph
from tests.ranks import run_ranks


def test_the_plan_is_followed_and_its_last_width_stays():
    plan = Growing(bit_widths=(1, 2, 2, 32), period=3)
    widths = [plan.widths(None, epoch) for epoch in range(14)]
    assert widths == [1] * 3 + [2] * 6 + [32] * 5
    assert widths == sorted(widths)
    assert plan.choices == (1, 2, 32)
    changes = [epoch for epoch in range(1, 14) if widths[epoch] != widths[epoch - 1]]
    assert all(plan.version(epoch) != plan.version(epoch - 1) for epoch in changes)


def test_a_plan_of_float32_alone_is_vanilla():
    graph = random_graph()
    owner, shape = Random(seed=1).assign(graph, 2), ModelSettings(layers=2, hidden=8)
    axes = {"codec": gq.codecs.Stochastic(), "bits": Growing(bit_widths=(32,))}
    results = (run_ranks(on_rank, 2, graph, owner, shape, TrainSettings(), one) for one in (axes, {}))
    for grown, plain in zip(*results, strict=True):
        assert torch.equal(grown["gradients"], plain["gradients"])


def test_bytes_follow_the_plan():
    graph = random_graph()
    owner, shape = Random(seed=1).assign(graph, 2), ModelSettings(layers=2, hidden=8)
    axes = {"codec": gq.codecs.Stochastic(), "bits": Growing(bit_widths=(8, 16), period=2)}
    for result in run_ranks(on_rank, 2, graph, owner, shape, TrainSettings(), axes):
        first, second, third, fourth = result["sent"]
        assert first == second > 0 and third == fourth == 2 * first


@each(
    ("settings", "text"),
    [
        ({"bit_widths": (2, 5)}, "widths to choose from must be among"),
        ({"bit_widths": ()}, "widths to choose from must be among"),
        ({"bit_widths": (8, 2)}, r"widths of a growing plan must not shrink, got \(8, 2\)"),
        ({"period": 0}, "period must be at least 1 epoch, got 0"),
    ],
)
def test_mistakes_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        Growing(**settings)


def test_float32_messages_cannot_follow_it():
    with pytest.raises(ValueError, match="Float32 writes"):
        replace(gq.systems.varco(), codec=gq.codecs.Float32())
