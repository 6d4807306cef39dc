"""The law: with float32 messages, P workers give the losses, gradients and predictions of one process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from gnnqlab.exchange import Overlapped, Synchronous
from gnnqlab.graph import Graph
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.agreement import assert_same_training, what_came_out
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS = 3


def one_process(graph: Graph, model: ModelSettings, settings: TrainSettings) -> dict:
    local = LocalGraph(graph, seed=settings.seed)
    sizes = graph.num_features, graph.num_classes
    network = build_model(model, *sizes, seed=settings.seed, edge_features=graph.num_edge_features)
    return train(Trainer(local, label_objective(graph), network, settings))


def train(trainer: Trainer) -> dict:
    losses, gradients = [], []
    for epoch in range(EPOCHS):
        losses.append(trainer.gradients(epoch))
        gradients.append(trainer.parameters.gradients.clone())
        trainer.optimizer.step()
    scores = trainer.evaluate(EPOCHS)
    return what_came_out(trainer, EPOCHS, losses, gradients) | {"scores": scores}


def on_rank(
    rank: int, workers: int, graph: Graph, owner, model: ModelSettings, settings: TrainSettings, **axes
) -> dict:
    shard = build_shard(graph, owner, rank, workers)
    return train(worker_trainer(shard, replace(vanilla(), **axes), model, settings))


def overlapped_on_rank(*arguments) -> dict:
    return on_rank(*arguments, schedule=Overlapped())


def all_on_rank(rank: int, workers: int, cases: dict[Any, tuple], axes: dict[str, Any]) -> dict[Any, dict]:
    """Run several trainings in one process group: ``cases`` are name -> graph, owner, model, settings."""
    return {name: on_rank(rank, workers, *case, **axes) for name, case in cases.items()}


def assert_all_same(workers: int, cases: dict[Any, tuple], **axes: Any) -> None:
    """Assert the law for several cases, one spawn of workers for all of them."""
    results = run_ranks(all_on_rank, workers, cases, axes)
    for name, (graph, _, model, settings) in cases.items():
        try:
            assert_same([result[name] for result in results], one_process(graph, model, settings))
        except AssertionError as error:
            error.add_note(f"the case: {name}")
            raise


def assert_same(results: list[dict], truth: dict) -> None:
    assert_same_training(results, truth)
    assert all(result["scores"] == truth["scores"] for result in results)


CASES = [
    ("gat", True, 12, 2),
    ("gcn", False, 12, 2),
    ("gcn", True, 12, 3),
    ("graphsage", False, 40, 3),  # wider than hidden: rows are projected first
    ("graphsage", True, 12, 4),
    ("gcn", False, 40, 8),
]


@pytest.mark.core
@each("workers", [1, 2, 3])
def test_workers_equal_one_process(workers):
    assert_workers_equal_one_process(workers)


@each("workers", [4, 7])
def test_more_workers_equal_one_process(workers):
    assert_workers_equal_one_process(workers)


def assert_workers_equal_one_process(workers):
    cases = {}
    for model, directed, features, layers in CASES:
        graph = random_graph(directed=directed, features=features, seed=layers)
        shape = ModelSettings(name=model, layers=layers, hidden=16, dropout=0.3, input_dropout=0.1)
        settings = TrainSettings(seed=5, weight_decay=1e-3, max_gradient_norm=0.5)
        cases[model, directed, layers] = graph, Random(seed=1).assign(graph, workers), shape, settings
    assert_all_same(workers, cases)


MODELS = {
    "gat": ModelSettings(name="gat", layers=2, hidden=16, dropout=0.3, input_dropout=0.1),
    "gat, 4 heads": ModelSettings(name="gat", layers=3, hidden=16, dropout=0.3, heads=4),
    "gcnii": ModelSettings(name="gcnii", layers=4, hidden=16, dropout=0.3, input_dropout=0.1),
    "gcnii, 32 layers": ModelSettings(name="gcnii", layers=32, hidden=8, norm="layer"),
    "dagnn": ModelSettings(name="dagnn", layers=6, hidden=16, input_dropout=0.2),
    "sgc": ModelSettings(name="sgc", layers=8, hidden=16, dropout=0.1),
    "jknet, cat": ModelSettings(name="jknet", layers=3, hidden=16),
    "jknet, max": ModelSettings(name="jknet", layers=3, hidden=16, jump="max"),
    "jknet, lstm": ModelSettings(name="jknet", layers=3, hidden=8, jump="lstm"),
}


@each(("directed", "schedule"), [(True, Synchronous()), (False, Overlapped())])
def test_every_model_obeys(directed, schedule):
    graph = random_graph(directed=directed, isolated=4)
    owner = Random(seed=3).assign(graph, 3)
    # Adam makes a whole step of a gradient that is only rounding error, and 32 layers have some: so a small one.
    cases = {
        name: (graph, owner, shape, TrainSettings(seed=7, lr=1e-4 if shape.layers == 32 else 0.01))
        for name, shape in MODELS.items()
    }
    assert_all_same(3, cases, schedule=schedule)


def test_every_model_obeys_at_depth_32():
    """Sums of 32 layers forward and 32 back; measured 5e-7 of the largest gradient at most, the bound is 1e-5."""
    graph = random_graph(isolated=4)
    # Adam makes a whole step of a gradient that is only rounding error: so a small one.
    settings, owner = TrainSettings(seed=7, lr=1e-4), Random(seed=3).assign(graph, 2)
    names = ["gcn", "graphsage", "gat", "gcnii", "dagnn", "sgc", "jknet"]
    shapes = {name: ModelSettings(name=name, layers=32, hidden=8, dropout=0.3) for name in names}
    assert_all_same(2, {name: (graph, owner, shape, settings) for name, shape in shapes.items()})


def test_attention_without_self_loops_obeys():
    graph = random_graph(self_loops="remove", isolated=5)
    settings = TrainSettings()
    owner = Random(seed=4).assign(graph, 4)
    shape = MODELS["gat, 4 heads"]
    assert_same(run_ranks(on_rank, 4, graph, owner, shape, settings), one_process(graph, shape, settings))


@each("transport", ["ring", "all-to-all"])
def test_every_transport_obeys(transport):
    graph = random_graph()
    shape = ModelSettings(layers=3, hidden=16)
    settings = TrainSettings(transport=transport)
    owner = Random(seed=2).assign(graph, 3)
    assert_same(run_ranks(on_rank, 3, graph, owner, shape, settings), one_process(graph, shape, settings))


@each("transport", ["direct", "ring", "all-to-all"])
def test_the_overlapped_schedule_obeys(transport):
    graph = random_graph()
    shape = ModelSettings(layers=3, hidden=16)
    settings = TrainSettings(transport=transport)
    owner = Random(seed=2).assign(graph, 3)
    assert_same(run_ranks(overlapped_on_rank, 3, graph, owner, shape, settings), one_process(graph, shape, settings))


def test_cached_input_features_match_one_process():
    graph = random_graph()
    shape = ModelSettings(layers=3, hidden=16)
    settings = TrainSettings(input_features="cache")
    owner = Random(seed=2).assign(graph, 3)
    assert_same(run_ranks(on_rank, 3, graph, owner, shape, settings), one_process(graph, shape, settings))


def test_multi_label_obeys():
    graph = random_graph(multi_label=True)
    shape = ModelSettings(name="graphsage", layers=2, hidden=16)
    owner = Random(seed=2).assign(graph, 3)
    settings = TrainSettings()
    assert_same(run_ranks(on_rank, 3, graph, owner, shape, settings), one_process(graph, shape, settings))


def test_sparse_features_obey():
    from gnnqlab.graph import SparseRows

    graph = random_graph(features=40)
    dense = graph.features * (torch.rand(graph.features.shape, generator=torch.Generator().manual_seed(0)) < 0.2)
    rows, columns = dense.nonzero(as_tuple=True)
    indptr = torch.zeros(graph.num_nodes + 1, dtype=torch.int64)
    indptr[1:] = rows.bincount(minlength=graph.num_nodes).cumsum(0)
    sparse = SparseRows(
        indptr=indptr, indices=columns.to(torch.int32), values=dense[rows, columns], num_columns=dense.shape[1]
    )
    shape = ModelSettings(layers=3, hidden=16, input_dropout=0.4)
    settings = TrainSettings()
    truth = one_process(replace(graph, features=dense), shape, settings)
    owner = Random(seed=2).assign(graph, 3)
    results = run_ranks(on_rank, 3, replace(graph, features=sparse), owner, shape, settings)
    assert_same(results, truth)


@each("name", ["empty halos", "a worker with nothing to learn", "a worker with no node"])
def test_odd_partitions_obey(name):
    graph = random_graph(nodes=40, edges=60, isolated=12)
    owner = torch.zeros(graph.num_nodes, dtype=torch.int64)
    if name == "empty halos":
        owner[-12:] = 1  # isolated nodes only
    elif name == "a worker with nothing to learn":
        owner[graph.test_mask.nonzero().flatten()[:6]] = 1
    workers = 2
    shape = ModelSettings(layers=3, hidden=16)
    settings = TrainSettings()
    results = run_ranks(on_rank, workers, graph, owner, shape, settings)
    assert_same(results, one_process(graph, shape, settings))


def test_no_self_loops_and_isolated_nodes_obey():
    graph = random_graph(self_loops="remove", isolated=5)
    shape = ModelSettings(layers=2, hidden=16)
    settings = TrainSettings()
    owner = Random(seed=4).assign(graph, 4)
    assert_same(run_ranks(on_rank, 4, graph, owner, shape, settings), one_process(graph, shape, settings))
