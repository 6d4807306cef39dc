"""Weights of edges: models compared with dense float64 matrices, workers with one process, and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits.assigner.groups import use_of_halo
from gnnqlab.exchange import Overlapped, Replicas, Sequential
from gnnqlab.graph import Graph
from gnnqlab.message.samplers import BoundarySampling
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.partition import Random, Shard, build_shard
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import cagnet, sancus, sar, vanilla
from gnnqlab.train.batches import Batches, MiniBatchSettings
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.agreement import TOLERANCE, assert_same_training, what_came_out
from tests.cases import each
from tests.exchange.dense import Instead
from tests.exchange.random_edges import EdgesAtRandom
from tests.graphs import random_graph
from tests.nn.test_law import assert_all_same

SUMMING = sorted(name for name in MODELS if name != "gat")
SETTINGS = TrainSettings(seed=5, weight_decay=1e-3)
EPOCHS = 2


def shape(name: str, **settings) -> ModelSettings:
    return ModelSettings(name=name, layers=3, hidden=16, **settings)


def dense(graph: Graph) -> torch.Tensor:
    """Row v, column u: the weight of u -> v, float64."""
    matrix = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    src, dst = (end.long() for end in graph.edge_list())
    return matrix.index_put_((dst, src), graph.edge_weights.double(), accumulate=True)


def coefficients(graph: Graph) -> dict[str, torch.Tensor]:
    """``D_in^-1/2 A D_out^-1/2`` and ``D_in^-1 A`` of the weights, rows of nodes without edges zero."""
    matrix = dense(graph)
    into, out = (matrix.sum(axis) for axis in (1, 0))
    into, out = (torch.where(sums == 0, 1.0, sums) for sums in (into, out))
    return {"symmetric": matrix / into.sqrt()[:, None] / out.sqrt(), "mean": matrix / into[:, None], "sum": matrix}


class DenseGraph(LocalGraph):
    """Sums over neighbours by dense matrices in float64."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.features = graph.features.double()
        self._dense = coefficients(graph)
        self.exchange = Instead(self.exchange, lambda matrix, x, context: matrix @ x)

    def adjacency(self, alpha: str):
        return self._dense[alpha]


def logits_and_gradients(local: LocalGraph, graph: Graph, settings: ModelSettings, dtype: torch.dtype):
    model = build_model(settings, graph.num_features, graph.num_classes, seed=3).to(dtype)
    logits = model(local.open_pass(0, training=True), local.features)
    label_objective(graph).loss(logits).backward()
    return logits.detach().double(), torch.cat([each.grad.flatten().double() for each in model.parameters()])


@each(("directed", "features"), [(True, 12), (False, 40)])
def test_models_agree_with_dense_float64(directed, features):
    graph = random_graph(directed=directed, features=features, weighted=True, self_loops="remove", isolated=4)
    for name in SUMMING:
        found = logits_and_gradients(LocalGraph(graph), graph, shape(name, dropout=0.3), torch.float32)
        truth = logits_and_gradients(DenseGraph(graph), graph, shape(name, dropout=0.3), torch.float64)
        for what, mine, right in zip(("logits", "gradients"), found, truth, strict=True):
            assert (mine - right).abs().max() <= TOLERANCE * right.abs().max(), (name, what)


def test_coefficients_are_those_of_dgl():
    """``EdgeWeightNorm("both")``, which ``GraphConv`` takes, and ``SAGEConv``'s weighted mean."""
    dgl = pytest.importorskip("dgl", reason="DGL is not installed")
    graph = random_graph(directed=True, weighted=True)
    made, local = graph.to_dgl(), LocalGraph(graph)
    norm = dgl.nn.EdgeWeightNorm(norm="both")(made, made.edata["weight"])
    torch.testing.assert_close(local.adjacency("symmetric").weights, norm)
    right = dgl.nn.EdgeWeightNorm(norm="right")(made, made.edata["weight"])
    torch.testing.assert_close(local.adjacency("mean").weights, right)


def test_weights_of_one_change_no_bit():
    plain = random_graph()
    ones = replace(plain, edge_weights=torch.ones(plain.num_edges))
    owner = Random().assign(plain, 3)
    for alpha in ("symmetric", "mean", "sum"):
        for rank in range(3):
            shards = [build_shard(graph, owner, rank, 3) for graph in (plain, ones)]
            assert torch.equal(shards[0].alpha(alpha), shards[1].alpha(alpha))
        assert torch.equal(LocalGraph(plain).adjacency(alpha).weights, LocalGraph(ones).adjacency(alpha).weights)


def one_process(graph: Graph, settings: ModelSettings) -> dict:
    sizes = graph.num_features, graph.num_classes
    network = build_model(settings, *sizes, seed=SETTINGS.seed, edge_features=graph.num_edge_features)
    trainer = Trainer(LocalGraph(graph, seed=SETTINGS.seed), label_objective(graph), network, SETTINGS)
    losses, gradients = [], []
    for epoch in range(EPOCHS):
        losses.append(trainer.gradients(epoch))
        gradients.append(trainer.parameters.gradients.clone())
        trainer.optimizer.step()
    return what_came_out(trainer, EPOCHS, losses, gradients)


def several(graph: Graph, workers: int, system, settings: ModelSettings) -> list[dict]:
    """Return the losses and gradients of workers that are threads, each with those of all."""
    threads = ThreadedWorkers(graph, system.partition.cut(graph, workers), system, settings, SETTINGS, as_launched=True)
    losses, gradients = [], []
    for epoch in range(EPOCHS):
        loss, gradient = threads.gradients(epoch)
        losses.append(loss)
        gradients.append(gradient)
        for trainer in threads.trainers:
            trainer.parameters.gradients.copy_(gradient)
            trainer.optimizer.step()
    return threads.run(lambda trainer: what_came_out(trainer, EPOCHS, losses, gradients))


HALO = replace(vanilla(), partition=Random(seed=1))
REPLICAS = replace(vanilla(), partition=EdgesAtRandom(), exchange=Replicas())
PAIRS = [
    (1, True, HALO, SUMMING),
    (2, False, replace(HALO, schedule=Overlapped()), ["graphsage", "jknet"]),
    (3, True, HALO, SUMMING),
    (3, True, replace(sar(), partition=Random(seed=2)), ["gcnii", "graphsage"]),
    (4, True, replace(HALO, schedule=Sequential(depth=0)), ["gcn"]),
    (2, True, REPLICAS, SUMMING),
    (4, False, replace(REPLICAS, schedule=Overlapped()), ["dagnn", "graphsage"]),
    (2, True, cagnet(), SUMMING),
    (4, True, cagnet(replication=2), ["gcn", "graphsage"]),
    (3, False, sancus(epsilon=0.0), ["sgc", "graphsage"]),
]


@each(("workers", "directed", "system", "models"), PAIRS)
def test_workers_equal_one_process(workers, directed, system, models):
    graph = random_graph(nodes=61, directed=directed, features=12 + 28 * (workers == 3), weighted=True, seed=workers)
    for name in models:
        settings = shape(name, dropout=0.3, input_dropout=0.1)
        try:
            assert_same_training(several(graph, workers, system, settings), one_process(graph, settings))
        except AssertionError as error:
            error.add_note(name)
            raise


def test_workers_in_processes_equal_one():
    graph = random_graph(directed=True, weighted=True, isolated=5)
    owner = Random(seed=4).assign(graph, 2)
    assert_all_same(2, {name: (graph, owner, shape(name), SETTINGS) for name in ("gcn", "graphsage")})


def test_sampled_neighbours_have_their_weights():
    """Everything but the sampled share: a mean over epochs approaches the sum over all neighbours."""
    graph = random_graph(directed=True, weighted=True, edges=400)
    system = replace(HALO, sampler=BoundarySampling(p=0.5))
    threads = ThreadedWorkers(graph, system.partition.cut(graph, 2), system, shape("gcn"), SETTINGS, as_launched=True)
    x, truth = graph.features, coefficients(graph)["symmetric"] @ graph.features.double()

    sums = torch.zeros(200, *x.shape, dtype=torch.float64)

    def summed(trainer):
        view = trainer.graph
        with torch.no_grad():
            for epoch in range(len(sums)):
                sums[epoch, view.ids] = (
                    view.open_pass(epoch, training=True).aggregate(x[view.ids], alpha="symmetric").double()
                )

    threads.run(summed)
    error = (sums.mean(0) - truth).abs()
    # Standard error of a mean over 200 epochs; six of them leave a chance of 2e-9 for each of 720 elements. A row
    # whose neighbours are all on this worker has only rounding error.
    assert (error <= 6 * sums.std(0) / len(sums) ** 0.5 + 1e-5).all()
    assert (sums.std(0) > 0).any()


def test_assigner_uses_weighted_aggregation_coefficients():
    """AdaQP Eq. 12: the weight of a message is the sum of its squared α, here with weights of edges."""
    graph = random_graph(directed=True, weighted=True)
    owner = Random(seed=1).assign(graph, 3)
    matrix = coefficients(graph)["symmetric"]
    for rank in range(3):
        shard = build_shard(graph, owner, rank, 3)
        expected = matrix[shard.owned][:, shard.halo].square().sum(0)
        torch.testing.assert_close(use_of_halo(shard, shard.alpha("symmetric")).double(), expected, rtol=1e-5, atol=0)


@each("system", [HALO, REPLICAS, cagnet()])
def test_shards_with_weights_survive_the_disk(system, tmp_path):
    for graph in (random_graph(directed=True, weighted=True), random_graph(directed=True)):
        shard = system.partition.cut(graph, 2).shard(graph, 1)
        shard.save(tmp_path / "shard.npz")
        again = type(shard).load(tmp_path / "shard.npz")
        assert (again.edge_weights is None) == (graph.edge_weights is None)
        for alpha in ("symmetric", "mean", "sum"):
            one, other = (each.matrix(alpha) for each in (shard, again))
            assert torch.equal(one.weights, other.weights)
        assert shard.in_degrees.dtype == (torch.int64 if graph.edge_weights is None else torch.float64)


TEXT = "weighs neighbours by attention, which does not support edge weights, .*or train on graph.without_edge_weights"


def test_attention_refuses_weights():
    graph = random_graph(weighted=True)
    gat = shape("gat")
    with pytest.raises(ValueError, match=f"model gat {TEXT}"):
        gq.configure(graph, model="gat")
    shard: Shard = build_shard(graph, Random().assign(graph, 1), 0, 1)
    with pytest.raises(ValueError, match=f"model gat {TEXT}"):
        worker_trainer(shard, vanilla(), gat, SETTINGS)
    network = build_model(gat, graph.num_features, graph.num_classes, seed=0)
    with pytest.raises(ValueError, match=f"GraphPass.attend {TEXT}"):
        network(LocalGraph(graph).open_pass(0, training=False), graph.features)
    bare = LocalGraph(graph.without_edge_weights())
    assert network(bare.open_pass(0, training=False), graph.features).isfinite().all()


def test_mini_batches_refuse_weights():
    with pytest.raises(ValueError, match="mini-batches sample neighbours uniformly, graph 'random' has edge weights"):
        Batches(random_graph(weighted=True), MiniBatchSettings(batch_size=8), seed=0)
