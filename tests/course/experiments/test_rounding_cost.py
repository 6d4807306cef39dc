"""The cost of rounding at one point: the gradient's variance, the loss of a training, and bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gnnqlab as gq
from gnnqlab.course.experiments.rounding_cost import (
    EVERYTHING,
    NOTHING,
    bytes_by_point,
    gradient_by_point,
    loss_by_point,
    spread,
)
from gnnqlab.nn import ModelSettings
from gnnqlab.simulation.gradient_noise import gradient_noise, trained_weights
from gnnqlab.simulation.threaded_workers import FrozenBits, ThreadedWorkers, exact_trainer
from gnnqlab.systems import exact_at, fixed_bits
from gnnqlab.train.config.run_config import TrainSettings
from tests.graphs import random_graph

GRAPH, SHAPE = random_graph(), ModelSettings(layers=2, hidden=8, dropout=0.0)
TWO = replace(fixed_bits(bits=2), partition=gq.partitioners.Random(seed=1))
POINTS = ["forward 0", "forward 1", "backward 0", "backward 1"]


@pytest.fixture(scope="module")
def parts():
    return gq.partition(GRAPH, TWO.partition, workers=2)


def test_bytes_are_those_of_a_row_times_rows(parts):
    found = bytes_by_point(parts, TWO, SHAPE)
    halo, classes = sum(shard.num_halo for shard in parts.shards), GRAPH.num_classes
    assert list(found.index) == POINTS and found["rows"].tolist() == [halo] * 4
    columns = found["columns"].tolist()
    assert columns[1] == columns[3] == classes and columns[0] == columns[2]
    for line in found.itertuples():
        assert line[3] == pytest.approx(halo * (8 + -(-2 * line.columns // 8)) / 1e3)
        assert line[4] == pytest.approx(halo * 4 * line.columns / 1e3)
    grown = 1 + ((found["kB exact"] - found["kB in codes"]) / found["kB in codes"].sum())
    assert found["times"].tolist() == pytest.approx(grown.tolist())


def test_the_variance_of_a_point_is_that_of_its_messages_alone():
    found = gradient_by_point(GRAPH, TWO, model=SHAPE, epochs=(3,), repeats=4, seeds=(5,)).set_index("point")
    assert list(found.index) == [*POINTS, EVERYTHING]
    weights = trained_weights(GRAPH, SHAPE, 3, seed=5)
    whole = gradient_noise(GRAPH, TWO.bits, SHAPE, repeats=4, weights=weights, system=TWO, seed=5)
    assert found["relative"][EVERYTHING] == whole.relative
    for point in POINTS:
        direction, layer = point.split()
        threads = ThreadedWorkers(
            GRAPH, gq.partition(GRAPH, TWO.partition, workers=2).cut, TWO, SHAPE, TrainSettings(seed=5),
            bits=FrozenBits(TWO.bits, only={(direction, int(layer))}),
        )  # fmt: skip
        threads.set_weights(weights)
        gradients = [threads.gradients(epoch)[1].double() for epoch in range(4)]
        mean = sum(gradients) / 4
        variance = sum(float((each - mean).square().sum()) for each in gradients) / 3
        relative = variance / (float(mean.square().sum()) - variance / 4)
        assert found["relative"][point] == pytest.approx(relative, rel=1e-6)


def test_a_loss_is_that_of_the_weights_over_exact_messages(parts):
    found = loss_by_point(parts, TWO, model=SHAPE, at=("backward 1",), epochs=4, since=2, seeds=(0, 1), lr=0.02)
    assert (
        found["exact"].tolist() == [NOTHING, "backward 1", EVERYTHING] * 2
        and found["seed"].tolist() == [0] * 3 + [1] * 3
    )
    one = found[found["seed"] == 1].set_index("exact")
    assert one["gained"].tolist() == (one["loss"][NOTHING] - one["loss"]).tolist() and one["gained"][NOTHING] == 0
    truth = exact_trainer(GRAPH, SHAPE, seed=1)
    system = exact_at(TWO, "backward 1", since=2)
    workers = ThreadedWorkers(
        GRAPH, parts.cut, system, SHAPE, TrainSettings(seed=1, lr=0.02), bits=system.bits, as_launched=True
    )
    for epoch in range(4):
        workers.step(epoch)
    truth.parameters.values.copy_(workers.trainers[0].parameters.values)
    assert one["loss"]["backward 1"] == truth.gradients(4)
    assert one["gradient"]["backward 1"] == float(truth.parameters.gradients.norm())


def test_exact_from_the_start_is_one_process(parts):
    found = loss_by_point(parts, TWO, model=SHAPE, at=(), epochs=3).set_index("exact")
    alone = exact_trainer(GRAPH, SHAPE)
    for epoch in range(3):
        alone.epoch(epoch)
    assert found["loss"][EVERYTHING] == pytest.approx(alone.gradients(3), rel=1e-5)
    assert list(found.index) == [NOTHING, EVERYTHING]


def test_seeds_make_an_interval(parts):
    found = spread(loss_by_point(parts, TWO, model=SHAPE, at=(), epochs=1, seeds=(0, 1, 2)), "exact", "loss")
    assert list(found.index) == [NOTHING, EVERYTHING] and (found["half"] > 0).all()
