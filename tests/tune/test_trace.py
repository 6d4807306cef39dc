"""A trace has the rows that launched workers would send, and the noise it predicts is Theorem 3's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits import Fixed
from gnnqlab.graph import load
from gnnqlab.nn.models.registry import MODELS, ModelSettings
from gnnqlab.partition import Random
from gnnqlab.simulation.theory_check import gradient_variance
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import fixed_bits, vanilla
from gnnqlab.theory.variance import AVERAGE
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.tune.offline_assigner import OfflineAssigner
from gnnqlab.tune.trace import trace
from tests.cases import each
from tests.tune.probes import GRAPH, MODEL, seen


@each("workers", [2, 3])
def test_messages_hold_the_rows_of_the_shards(workers):
    found = seen(workers)
    assert found.epochs == (1, 2, 4, 8) and len(found.losses) == 9
    assert found.losses[-1] < found.losses[0]
    for message in found.messages:
        forward = message.direction == "forward"
        holder, owner = (message.receiver, message.sender) if forward else (message.sender, message.receiver)
        shard = found.shards[holder]
        assert torch.equal(message.ids, shard.halo.split(shard.halo_splits.tolist())[owner])
        assert message.ranges.shape == (4, message.num_rows) and bool((message.ranges >= 0).all())
        assert message.norms.shape == message.ranges.shape and bool((message.norms >= 0).all())
        # The receiver uses every embedding with a positive weight, and adds every gradient unchanged.
        assert bool((message.use > 0).all()) and (forward or bool((message.use == 1).all()))


def test_noise_of_a_place_adds_up_to_its_variance():
    """Σ_v Σ_k α² D S² / 6 is the sum of β / (2^b - 1)²: the same messages, by node and by row."""
    found, assigner = seen(3), OfflineAssigner(seen(3))
    widths = assigner.choose(Fixed(bits=2))
    joined = {place: torch.cat(parts) for place, parts in widths.items()}
    noise = found.noise(joined, 1)
    for (layer, direction), variance in assigner.variance(widths, 1).items():
        assert float(noise[direction, layer].sum()) * AVERAGE == pytest.approx(variance, rel=1e-6)


@each("model", ["gcn", "graphsage"])
def test_bounds_are_those_of_the_check(model):
    """With the same weights, the trace's bound is the one that `gradient_variance` computes from real passes."""
    shape = replace(MODEL, name=model, dropout=0.0)
    recipe = replace(vanilla(), partition=Random())
    graph = load(GRAPH)
    found = trace(graph, shape, recipe, workers=2, epochs=2)
    eight = {place: torch.cat(parts).long() for place, parts in OfflineAssigner(found).choose(Fixed(bits=8)).items()}
    bounds = [each.bound(found.noise(eight, 0), AVERAGE).total for each in found.theorem.terms]
    # The trace uses the weights of its last epoch, here those after epoch 0.
    system = replace(fixed_bits(bits=8), partition=Random())
    threads = ThreadedWorkers(graph, Random().cut(graph, 2), system, shape, TrainSettings())
    threads.step(0)
    weights = threads.trainers[0].parameters.values
    frame = gradient_variance(graph, system, shape, workers=2, repeats=2, weights=weights)
    # Quantized passes compared with one in full precision: rounding to 8 bits moves a range by about a hundredth.
    assert bounds == pytest.approx(frame["bound"].tolist()[:-1], rel=0.05)


def test_trace_rejects_one_worker_and_one_epoch():
    with pytest.raises(ValueError, match="workers must be at least 2 to exchange messages, got 1"):
        trace(load(GRAPH), MODEL, workers=1)
    with pytest.raises(ValueError, match="epochs must be at least 2"):
        trace(load(GRAPH), MODEL, workers=2, epochs=1)


def test_the_theorem_may_be_left_out():
    recipe = replace(vanilla(), partition=Random())
    assert trace(load(GRAPH), MODEL, recipe, workers=2, epochs=2, theorem=False).theorem is None


@each("name", sorted(MODELS))
def test_every_model_can_be_traced(name):
    seen = trace(load(GRAPH), ModelSettings(name=name, layers=2, hidden=8), workers=2, epochs=2)
    assert all(bool((message.use > 0).all()) for message in seen.messages)
    assert (seen.theorem is None) == (name in ("dagnn", "gat", "gcnii", "sgc")), "Theorem 3 is about W · Σ α h"
