"""Summed gradients: float32 in one message, by layer during the backward pass, and flags in the same messages."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import make_system
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop import reduction
from gnnqlab.train.loop.reduction import OverlappedReduction, SynchronousReduction
from gnnqlab.train.loop.trainer import worker_trainer
from tests.graphs import random_graph
from tests.ranks import run_ranks


def gradients_of(rank, workers, graph, owner, kind, at_once=False):
    if at_once:
        reduction.OverlappedReduction = lambda parameters, slots, _: SynchronousReduction(
            parameters, slots, distributed=True
        )
    shard = build_shard(graph, owner, rank, workers)
    model = ModelSettings(layers=3, hidden=160, dropout=0.0)
    trainer = worker_trainer(shard, make_system("vanilla"), model, TrainSettings(gradients=kind, epochs=1))
    posted = []
    if isinstance(trainer.reduction, OverlappedReduction):
        finish = trainer.reduction.finish
        trainer.reduction.finish = lambda: (posted.append(len(trainer.reduction._works)), finish())[1]
    losses = [trainer.gradients(0)]
    gradients = trainer.parameters.gradients.clone()
    losses += [trainer.epoch(epoch) for epoch in range(3)]
    sent = trainer.reduction.sent_bytes
    return {"losses": losses, "gradients": gradients, "posted": posted, "sent": sent}


@pytest.fixture(scope="module")
def sums():
    graph = random_graph(nodes=80, edges=300, seed=3)
    owner = Random(seed=1).assign(graph, 3)
    return {kind: run_ranks(gradients_of, 3, graph, owner, kind) for kind in reduction.GRADIENTS}


def test_bfloat16_gradients_are_those_of_float32_but_for_rounding(sums):
    exact, rounded = sums["float32"][0]["gradients"], sums["bfloat16"][0]["gradients"]
    assert not torch.equal(exact, rounded)
    # Three terms and two partial sums, each rounded by 2^-9 of its size at most; a term can exceed the sum, hence the
    # largest gradient of all is the bound for every term.
    assert (exact - rounded).abs().max() <= 5 * 2.0**-9 * exact.abs().max()
    # The loss is sent in float32; Gloo adds three terms in another order if a message has another length.
    assert sums["bfloat16"][0]["losses"][0] == pytest.approx(sums["float32"][0]["losses"][0], rel=3 * 2.0**-23)


def test_float32_by_layer_is_the_sum_at_once(sums):
    at_once, by_layer = sums["float32"][0], sums["float32-by-layer"][0]
    assert by_layer["sent"] == at_once["sent"]
    # Three terms in another order: each partial sum is rounded by 2^-24 of its size at most.
    bound = 3 * 2.0**-24 * 3 * at_once["gradients"].abs().max()
    assert (at_once["gradients"] - by_layer["gradients"]).abs().max() <= bound
    assert by_layer["losses"] == pytest.approx(at_once["losses"], rel=1e-6)


def test_two_worker_sums_by_layer_and_at_once_are_identical():
    graph = random_graph(nodes=80, edges=300, seed=3)
    owner = Random(seed=1).assign(graph, 2)
    by_layer, at_once = (run_ranks(gradients_of, 2, graph, owner, "float32", way)[0] for way in (False, True))
    assert by_layer["posted"] and not at_once["posted"]
    assert by_layer["losses"] == at_once["losses"] and torch.equal(by_layer["gradients"], at_once["gradients"])


def test_every_worker_holds_the_same_sums(sums):
    for results in sums.values():
        assert all(torch.equal(result["gradients"], results[0]["gradients"]) for result in results)
        assert all(result["losses"] == results[0]["losses"] for result in results)


def test_gradients_of_later_layers_are_under_way_before_the_backward_pass_ends(sums):
    assert not any(result["posted"] for result in sums["float32"])
    for result in [*sums["bfloat16"], *sums["float32-by-layer"]]:
        # loss and flag, then each layer once it is complete: all but the last message at least
        assert all(posted >= 3 for posted in result["posted"])


def test_epoch_times_are_sent_only_by_coordinated_systems():
    graph = random_graph()
    shard = build_shard(graph, Random(seed=1).assign(graph, 1), 0, 1)
    for system, facts in (("vanilla", 2), ("sylvie", 3)):
        trainer = worker_trainer(shard, make_system(system), ModelSettings(layers=2, hidden=8), TrainSettings())
        assert trainer.parameters.facts.numel() == facts


def test_bfloat16_halves_the_bytes(sums):
    exact, rounded = sums["float32"][0]["sent"], sums["bfloat16"][0]["sent"]
    assert rounded == (exact - 8) / 2 + 8


def test_unknown_types_are_refused():
    with pytest.raises(ValueError, match="gradients must be 'float32', 'float32-by-layer' or 'bfloat16', got 'int8'"):
        TrainSettings(gradients="int8")
