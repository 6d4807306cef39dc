"""Mini-batches on several workers: the steps of one process, bytes by the formula, and overlap that changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from gnnqlab.graph.features import SparseRows
from gnnqlab.nn import LocalGraph, ModelSettings
from gnnqlab.partition import Random
from gnnqlab.train.batches import Batches, MiniBatchSettings
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.mini_batch import MiniBatchTrainer, own_rows
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS = 2
SETTINGS = TrainSettings(seed=5, lr=0.01)
USUAL = MiniBatchSettings(fanouts=(3, 4), batch_size=7)
CASES = {
    "gcn": (ModelSettings(layers=2, hidden=16, dropout=0.3), USUAL),
    "gat": (ModelSettings(name="gat", layers=2, hidden=8, dropout=0.2), USUAL),
    "sage": (ModelSettings(name="graphsage", layers=2, hidden=16, dropout=0.3), USUAL),
    "not ahead": (ModelSettings(name="graphsage", layers=2, hidden=16, dropout=0.3), replace(USUAL, overlap=False)),
    "int8": (
        ModelSettings(name="graphsage", layers=2, hidden=16, dropout=0.3),
        replace(USUAL, feature_bits=8, gradients="int8"),
    ),
    "int8, not ahead": (
        ModelSettings(name="graphsage", layers=2, hidden=16, dropout=0.3),
        replace(USUAL, feature_bits=8, gradients="int8", overlap=False),
    ),
}


def the_graph():
    return random_graph(nodes=67, edges=400, features=13, directed=True)


def train(rank, workers, graph, owner, cases=tuple(CASES)):
    """Train each case; a worker has zeros in place of its peers' features."""
    rows = own_rows(graph, owner, rank)
    bare = replace(graph, features=torch.zeros_like(graph.features))
    found = {}
    for name in cases:
        model, batches = CASES[name]
        trainer = MiniBatchTrainer(bare, rows, owner, model, SETTINGS, batches, rank=rank, workers=workers)
        losses = [trainer.epoch(epoch) for epoch in range(EPOCHS)]
        sent, gradients = trainer.features.sent, trainer.reduction.sent_bytes
        found[name] = losses, trainer.parameters.values.clone(), (sent.request_bytes, sent.row_bytes, gradients)
        trainer.close()
    return found


@pytest.fixture(scope="module")
def trained():
    graph = the_graph()
    owner = Random(seed=1).assign(graph, 3)
    alone = train(0, 1, graph, torch.zeros(graph.num_nodes, dtype=torch.int64))
    return graph, owner, alone, run_ranks(train, 3, graph, owner)


def test_workers_equal_one_process(trained):
    _, _, alone, together = trained
    for name in ("gcn", "gat", "sage", "not ahead"):
        for losses, weights, _ in (worker[name] for worker in together):
            assert losses == pytest.approx(alone[name][0], abs=1e-5)
            torch.testing.assert_close(weights, alone[name][1], rtol=0, atol=1e-5)
        assert alone[name][0][1] != alone[name][0][0]


def test_overlap_changes_no_bit(trained):
    for worker in (trained[2], *trained[3]):
        for ahead, behind in (("sage", "not ahead"), ("int8", "int8, not ahead")):
            assert worker[ahead][0] == worker[behind][0]
            assert torch.equal(worker[ahead][1], worker[behind][1])
            assert worker[ahead][2] == worker[behind][2]


def test_codes_leave_all_workers_with_the_same_weights_near_those_of_float32(trained):
    _, _, alone, together = trained
    first = together[0]["int8"]
    assert all(worker["int8"][0] == first[0] and torch.equal(worker["int8"][1], first[1]) for worker in together)
    assert not torch.equal(first[1], together[0]["sage"][1])
    assert first[0] == pytest.approx(alone["sage"][0], abs=0.05)


def test_bytes_are_those_of_the_formula(trained):
    graph, owner, _, together = trained
    wanted = torch.zeros(3, 3, dtype=torch.int64)  # (receiver, sender)
    steps = 0
    for rank in range(3):
        batches = Batches(graph, USUAL, seed=SETTINGS.seed, rank=rank, workers=3)
        steps = EPOCHS * batches.steps
        for epoch in range(EPOCHS):
            for number in range(batches.steps):
                wanted[rank] += owner[batches.sample(epoch, number).inputs].bincount(minlength=3)
    wanted.fill_diagonal_(0)
    assert wanted.sum() > 200
    for rank, worker in enumerate(together):
        asked = 8 * 2 * steps + 4 * int(wanted[rank].sum())
        given = int(wanted[:, rank].sum())
        parameters = len(worker["sage"][1])
        blocks = 3 * math.ceil(math.ceil(parameters / 256) / 3)
        assert worker["sage"][2] == (asked, given * 4 * 13, 4 * parameters + 8)
        assert worker["int8"][2] == (asked, given * (13 + 8), 260 * blocks + 8)


@each("multi_label", [False, True])
def test_all_neighbours_in_one_batch_are_full_graph_training(multi_label):
    graph = random_graph(nodes=67, edges=400, features=13, directed=True, multi_label=multi_label)
    model = ModelSettings(name="gcn", layers=2, hidden=16, dropout=0.0)
    batches = MiniBatchSettings(fanouts=(1000, 1000), batch_size=1000)
    trainer = MiniBatchTrainer(graph, graph.features, torch.zeros(67, dtype=torch.int64), model, SETTINGS, batches)
    (batch, x), *others = trainer._prepared(0)
    trainer.gradients(batch, x)
    got = trainer.parameters.gradients.clone()
    trainer.parameters.zero()
    whole = LocalGraph(graph)
    label_objective(graph).loss(trainer.model(whole.open_pass(0, training=True), graph.features)).backward()
    assert not others
    torch.testing.assert_close(got, trainer.parameters.gradients, rtol=1e-4, atol=1e-6)
    trainer.close()


def test_a_mask_is_new_in_every_step():
    graph = the_graph()
    model = ModelSettings(name="gcn", layers=2, hidden=16, dropout=0.5)
    batches = MiniBatchSettings(fanouts=(1000, 1000), batch_size=1000, overlap=False)
    trainer = MiniBatchTrainer(graph, graph.features, torch.zeros(67, dtype=torch.int64), model, SETTINGS, batches)
    losses = []
    for epoch in (0, 1, 0):
        ((batch, x),) = trainer._prepared(epoch)
        losses.append(trainer.gradients(batch, x))
    # Only the masks are drawn; nodes are summed in another order, which costs a rounding error.
    assert losses[0] == losses[2] and abs(losses[0] - losses[1]) > 1e-3
    trainer.close()


def test_sparse_features_are_taken_by_their_owners():
    graph = the_graph()
    owner = Random(seed=1).assign(graph, 3)
    sparse = replace(graph, features=SparseRows.from_dense(graph.features))
    for rank in range(3):
        assert torch.equal(own_rows(sparse, owner, rank), graph.features[owner == rank])
        assert torch.equal(own_rows(graph, owner, rank), graph.features[owner == rank])


def test_a_loss_that_is_not_finite_ends_the_training():
    graph, owner = the_graph(), torch.zeros(67, dtype=torch.int64)
    model = ModelSettings(layers=2, hidden=8)
    trainer = MiniBatchTrainer(graph, graph.features, owner, model, SETTINGS, USUAL)
    trainer.parameters.values.fill_(float("nan"))
    with pytest.raises(RuntimeError, match="the loss must be finite, got nan in epoch 0; lower the learning rate"):
        trainer.epoch(0)
    trainer.close()


def test_mini_batches_reject_unsupported_models_and_settings():
    graph, owner = the_graph(), torch.zeros(67, dtype=torch.int64)
    with pytest.raises(ValueError, match="mini-batches support the models gcn, graphsage, gat, got sgc"):
        MiniBatchTrainer(graph, graph.features, owner, ModelSettings(name="sgc", layers=2), SETTINGS, USUAL)
    with pytest.raises(ValueError, match=r"fanouts must have one number for each of 3 layers, got \(3, 4\)"):
        MiniBatchTrainer(graph, graph.features, owner, ModelSettings(layers=3), SETTINGS, USUAL)
    with pytest.raises(ValueError, match=r"fanouts must be at least 1, one for each layer, got \(3, 0\)"):
        MiniBatchSettings(fanouts=(3, 0))
    with pytest.raises(ValueError, match="gradients must be 'float32' or 'int8', got 'int4'"):
        MiniBatchSettings(gradients="int4")
    with pytest.raises(ValueError, match="mini-batches need at least one training node"):
        none = torch.zeros(67, dtype=torch.bool)
        Batches(replace(graph, train_mask=none, val_mask=none, test_mask=none), USUAL, seed=0)
