"""Inductive protocol: training on the subgraph of training nodes equals one process; evaluation has the whole graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gnnqlab as gq
from gnnqlab.graph import Graph
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.partition.training_shard import build_training_shard, training_edges
from gnnqlab.systems import vanilla
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.inductive import evaluate_on_whole_graph
from gnnqlab.train.loop.evaluation import Evaluation
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

MODEL = ModelSettings(name="gcn", layers=2, hidden=8, dropout=0.0)
DROPPED = ModelSettings(name="gcn", layers=2, hidden=8, dropout=0.3)
SETTINGS = TrainSettings(epochs=3, lr=0.05, protocol="inductive")


def split_graph(**options: Any) -> Graph:
    """Return a graph of 60 nodes of which 30 are for training."""
    return random_graph(**options).with_split(range(0, 60, 2), range(1, 60, 4), range(3, 60, 4))


def one_process(graph: Graph) -> Trainer:
    """Return the trainer of the reference: the subgraph and the whole graph, each in one process without shards."""
    network = build_model(MODEL, graph.num_features, graph.num_classes, seed=SETTINGS.seed)
    trainer = Trainer(LocalGraph(training_edges(graph)), label_objective(graph), network, SETTINGS)
    trainer.evaluation = Evaluation(LocalGraph(graph), label_objective(graph))
    return trainer


def train(trainer: Trainer) -> tuple[list[float], list[Any]]:
    epochs = range(SETTINGS.epochs)
    results = [(trainer.epoch(epoch), trainer.evaluate(epoch)) for epoch in epochs]
    return [loss for loss, _ in results], [[scores.train, scores.val, scores.test] for _, scores in results]


def on_rank(rank: int, workers: int, graph: Graph, owner: torch.Tensor, model: ModelSettings) -> Any:
    trainer = worker_trainer(build_training_shard(graph, owner, rank, workers), vanilla(), model, SETTINGS)
    evaluate_on_whole_graph(trainer, build_shard(graph, owner, rank, workers))
    return train(trainer)


@each("weighted", [False, True])
@each("workers", [1, 2, 3])
def test_workers_agree_with_one_process(workers: int, weighted: bool) -> None:
    graph = split_graph(seed=workers, weighted=weighted)
    losses, scores = train(one_process(graph))
    owner = Random(seed=1).cut(graph, workers).owner
    for found_losses, found_scores in run_ranks(on_rank, workers, graph, owner, MODEL):
        assert found_losses == pytest.approx(losses, rel=1e-5)
        assert found_scores == [pytest.approx(each_split) for each_split in scores]


def test_dropout_does_not_depend_on_the_number_of_workers() -> None:
    graph = split_graph(seed=4)
    several = run_ranks(on_rank, 3, graph, Random(seed=1).cut(graph, 3).owner, DROPPED)
    [alone] = run_ranks(on_rank, 1, graph, torch.zeros(60, dtype=torch.int64), DROPPED)
    assert several[2][0] == pytest.approx(alone[0], rel=1e-5)


def test_worker_without_training_nodes_takes_part() -> None:
    graph = split_graph(seed=5)
    losses, _ = train(one_process(graph))
    owner = (~graph.train_mask).long()  # all training nodes on worker 0
    assert build_training_shard(graph, owner, 1, 2).num_owned == 0
    for found, _ in run_ranks(on_rank, 2, graph, owner, MODEL):
        assert found == pytest.approx(losses, rel=1e-5)


def test_shards_hold_the_edges_between_training_nodes_only() -> None:
    graph = split_graph(seed=6, directed=True, edge_features=2)
    owner = Random(seed=1).cut(graph, 3).owner
    shards = [build_training_shard(graph, owner, rank, 3) for rank in range(3)]
    pairs, features = set(), 0.0
    for shard in shards:
        ids = torch.cat([shard.owned, shard.halo])
        targets = torch.repeat_interleave(shard.owned, shard.indptr.diff())
        pairs |= {(int(source), int(target)) for source, target in zip(ids[shard.indices.long()], targets, strict=True)}
        assert bool(graph.train_mask[ids].all())
        assert torch.equal(shard.features, graph.features[shard.owned])
        assert torch.equal(shard.in_degrees, training_edges(graph).in_degrees[ids])
        assert shard.edge_features is not None
        features += float(shard.edge_features.double().sum())
    source, target = graph.indices.long(), torch.repeat_interleave(torch.arange(60), graph.in_degrees)
    both = graph.train_mask[source] & graph.train_mask[target]
    assert pairs == set(zip(source[both].tolist(), target[both].tolist(), strict=True))
    assert graph.edge_features is not None
    assert features == pytest.approx(float(graph.edge_features[both].double().sum()))
    # Rows that are sent are those that the receiver expects, in its order.
    for sender in shards:
        for route in sender.plan("forward").send:
            [expected] = [each for each in shards[route.peer].plan("forward").receive if each.peer == sender.rank]
            assert torch.equal(route.ids, expected.ids)


LAUNCHED = {"workers": 2, "layers": 2, "hidden": 8, "checkpoint_every": 2, "system": "fixed-bits"}


def test_launched_run_sends_less_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    shape: dict[str, Any] = {**LAUNCHED, "out": tmp_path, "wait": True}
    straight = gq.launch("sbm:60,3,6", protocol="inductive", epochs=4, **shape)
    first = gq.launch("sbm:60,3,6", protocol="inductive", epochs=2, **shape)
    resumed = gq.resume(first, epochs=4, wait=True)
    columns = ["epoch", "rank", "loss", "val_score", "test_score", "bytes_payload"]
    assert straight.records[columns].equals(resumed.records[columns])
    graph, logits = gq.load("sbm:60,3,6"), straight.predict()
    right = (logits.argmax(1) == graph.labels)[graph.test_mask].double().mean()
    assert abs(float(right) - straight.summary["test_accuracy"]) < 1e-6
    whole = gq.launch("sbm:60,3,6", epochs=2, **shape)  # transductive
    of_first = straight.records[straight.records.epoch == 1]["bytes_payload"].sum()
    assert 0 < of_first < 0.7 * whole.records[whole.records.epoch == 1]["bytes_payload"].sum()


@each(
    ("settings", "error"),
    [
        ({"task": "links"}, "protocol 'inductive' needs task 'nodes'.* got task 'links'"),
        ({"system": "cdfgnn"}, "one owner per node.* got a partition of edges"),
    ],
)
def test_unsupported_tasks_and_cuts_are_refused(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        configure("sbm:60,3,6", protocol="inductive", **settings)


def test_features_for_the_whole_graph_are_refused() -> None:
    with pytest.raises(ValueError, match="gq.probe trains on the whole graph, got protocol 'inductive'"):
        configure("sbm:60,3,6", protocol="inductive").require_nodes("gq.probe")
