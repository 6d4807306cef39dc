"""Batch normalization over all workers equals that of PyTorch on the whole graph, in every cut, and after a resume."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gnnqlab as gq
from gnnqlab.exchange.vertex_cut.exchange import Replicas
from gnnqlab.graph import Graph
from gnnqlab.nn import GraphPass, LocalGraph, ModelSettings, SyncBatchNorm, sum_over_nodes
from gnnqlab.nn.models.registry import for_now
from gnnqlab.systems import System, make_system, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from gnnqlab.train.worker_dependence import worker_dependent_modules
from tests.agreement import assert_same_training
from tests.exchange.random_edges import EdgesAtRandom
from tests.graphs import random_graph
from tests.nn.test_law import train
from tests.ranks import run_ranks

SETTINGS = TrainSettings(seed=5)
OWN = f"{__name__}:Normalized"

pytestmark = pytest.mark.usefixtures("own_models")


class Normalized(nn.Module):
    """Two aggregations with a batch normalization of their result, which a second one follows."""

    def __init__(self, settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.first = nn.Parameter(torch.randn(in_features, settings.hidden, generator=generator) / 4)
        self.last = nn.Parameter(torch.randn(settings.hidden, num_classes, generator=generator) / 4)
        self.norm, self.second_norm = SyncBatchNorm(settings.hidden), SyncBatchNorm(settings.hidden)

    def forward(self, g: GraphPass, x: Tensor) -> Tensor:
        h = torch.tanh(self.norm(g, g.aggregate(g.linear(x, self.first))))
        return g.linear(self.second_norm(g, g.aggregate(h, alpha="mean")), self.last, exact=True)


def test_rows_gradients_and_running_means_equal_those_of_pytorch() -> None:
    graph = random_graph(features=5)
    graph = graph._replace(features=graph.features + 1000.0)  # a mean far above the deviation
    local, ours, theirs = LocalGraph(graph), SyncBatchNorm(5), nn.BatchNorm1d(5)
    x, y = (graph.features.clone().requires_grad_() for _ in range(2))
    weights = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    for epoch in range(2):
        found, expected = ours(local.open_pass(epoch, training=True), x), theirs(y)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(ours(local.open_pass(2, training=False), x), theirs.eval()(y), rtol=1e-3, atol=1e-3)


def on_rank(rank: int, workers: int, graph: Graph, cut: Any, system: System) -> Any:
    with for_now(OWN) as name:
        trainer = worker_trainer(cut.shard(graph, rank), system, ModelSettings(name=name, layers=2, hidden=8), SETTINGS)
        result = train(trainer)
    norm: Any = trainer.model.norm
    return result, norm.running_mean, norm.running_var, trainer.graph.node_sums.sent_bytes


_REPLICAS = replace(vanilla(), partition=EdgesAtRandom(seed=1), exchange=Replicas())
_BLOCKS = make_system("cagnet", replication=2)


@pytest.mark.parametrize(
    ("workers", "system"),
    [(1, vanilla()), (2, vanilla()), (3, vanilla()), (3, _REPLICAS), (4, _BLOCKS)],
    ids=["1", "2", "3", "vertex-cut", "blocks"],
)
def test_workers_equal_one_process(workers: int, system: System) -> None:
    graph = random_graph(seed=workers)
    alone = Trainer(
        LocalGraph(graph, seed=5),
        label_objective(graph),
        Normalized(ModelSettings(layers=2, hidden=8), graph.num_features, graph.num_classes, 5),
        SETTINGS,
    )
    truth = train(alone)
    results = run_ranks(on_rank, workers, graph, system.partition.cut(graph, workers), system)
    assert_same_training([result for result, *_ in results], truth)
    for result, mean, variance, sent_bytes in results:
        assert result["scores"] == truth["scores"]
        torch.testing.assert_close(mean, alone.model.norm.running_mean)
        torch.testing.assert_close(variance, alone.model.norm.running_var)
        assert torch.equal(mean, results[0][1])  # identical on all workers, to the bit
        # Two layers: D + 1 and D numbers forward, the same backward, in 3 epochs; none in evaluation.
        assert sent_bytes == (3 * 2 * 2 * (2 * 8 + 1) * 4 if workers > 1 else 0)


def test_threads_of_the_check_agree_and_nothing_is_warned_of() -> None:
    report = gq.testing.check_law(OWN, layers=2)
    assert report.max_difference < 1e-5
    assert worker_dependent_modules(gq.configure("sbm:100,3,6", model=OWN, workers=2)) == []


def test_sum_counts_each_node_once() -> None:
    g = LocalGraph(random_graph(features=2)).open_pass(0, training=True)
    assert torch.equal(sum_over_nodes(g, g.graph.features), g.graph.features.sum(0))
    assert sum_over_nodes(g, torch.empty(0, 2)).tolist() == [0.0, 0.0]


def test_resumed_run_has_the_running_means_of_an_uninterrupted_one(tmp_path: Path) -> None:
    settings = {"model": OWN, "workers": 2, "layers": 2, "hidden": 8, "seed": 3}
    whole = gq.launch("sbm:60,3,6", **settings, epochs=6, out=tmp_path / "whole", wait=True)
    first = gq.launch("sbm:60,3,6", **settings, epochs=3, checkpoint_every=3, out=tmp_path / "parts", wait=True)
    second = gq.resume(first, epochs=6, wait=True)
    for name, tensor in whole.model("last").state_dict().items():
        assert torch.equal(tensor, second.model("last").state_dict()[name]), name
    assert whole.records["loss"].tolist() == pytest.approx([*first.records["loss"], *second.records["loss"]][-12:])
    # The all-reduce of the gradients with two facts, and the sums of two layers, forward and backward.
    numbers = sum(parameter.numel() for parameter in whole.model().parameters()) + 2 + 2 * 2 * (2 * 8 + 1)
    assert set(whole.records["bytes_gradients"]) == {4 * numbers}
