"""Training without rows of other workers: compared with a dense matrix, with BNS-GCN, and over all partitions."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.message import BoundarySampling
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random
from gnnqlab.partition.parts import cut_graph
from gnnqlab.partition.random_clusters import ClusterCut, RandomClusters
from gnnqlab.systems import bns_gcn, gradients_only, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.agreement import assert_same_training, what_came_out
from tests.cases import each
from tests.exchange.dense import Instead, dense_of
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS = 3
SETTINGS = TrainSettings(seed=3)
SHAPES = {
    "gcn": ModelSettings(layers=3, hidden=16, dropout=0.3),
    "graphsage": ModelSettings(name="graphsage", layers=2, hidden=16, dropout=0.3),
    "gcnii": ModelSettings(name="gcnii", layers=4, hidden=16, dropout=0.3),
    "gat": ModelSettings(name="gat", layers=2, hidden=16, heads=2, dropout=0.3),
}
CLUSTERS = 3


class VisibleEdges(LocalGraph):
    """A whole dense graph in which training sums have the weighted edges inside workers only."""

    def __init__(self, graph, cut):
        super().__init__(graph, seed=SETTINGS.seed)
        self.exchange = Instead(self.exchange, self._aggregate)
        self.show(cut)

    def show(self, cut):
        between = cut.clusters[:, None] != cut.clusters[None, :]
        number = cut.num_clusters
        inside = (cut.owner[:, None] == cut.owner[None, :]).float()
        # Of the other clusters of the graph, those with the same worker.
        probability = (number // cut.workers - 1) / (number - 1)
        self.factors = torch.where(between, inside / probability, inside)

    def _aggregate(self, adjacency, x, context):
        factors = self.factors if context.training else 1.0
        return (dense_of(adjacency) * factors) @ context.own(x)


def train(trainer):
    losses, gradients, sent = [], [], []
    for epoch in range(EPOCHS):
        before = sum(one.bytes_payload for one in trainer.exchange.channels) if trainer.exchange else 0
        losses.append(trainer.gradients(epoch))
        gradients.append(trainer.parameters.gradients.clone())
        trainer.optimizer.step()
        sent.append(sum(one.bytes_payload for one in trainer.exchange.channels) - before if trainer.exchange else 0)
        trainer.evaluate(epoch)  # between two epochs: training weights must not reach it, nor its rows training
    return what_came_out(trainer, EPOCHS, losses, gradients) | {"sent": sent}


def on_rank(rank, workers, graph, shape, system):
    shard = cut_graph(graph, system.partition, workers).shard(graph, rank)
    return train(worker_trainer(shard, system, shape, SETTINGS))


@each("workers", [1, 2, 3])
@each("name", ["gcn", "graphsage", "gcnii"])
def test_training_is_that_of_the_weighted_visible_edges(name, workers):
    graph, system = random_graph(directed=True, isolated=4), gradients_only(clusters_per_worker=CLUSTERS)
    results = run_ranks(on_rank, workers, graph, SHAPES[name], system)
    dense = VisibleEdges(graph, cut_graph(graph, system.partition, workers))
    network = build_model(SHAPES[name], graph.num_features, graph.num_classes, seed=SETTINGS.seed)
    truth = train(Trainer(dense, label_objective(graph), network, SETTINGS))
    assert_same_training(results, truth)
    assert all(result["sent"] == [0] * EPOCHS for result in results)


def both_on_rank(rank, workers, graph, shapes):
    """Train without a correction, and BNS-GCN with p = 0 on the same cut."""
    plain = gradients_only(clusters_per_worker=CLUSTERS, correction="none", partition_every=0)
    rival = replace(bns_gcn(p=0.0), partition=RandomClusters(clusters_per_worker=CLUSTERS))
    shards = [cut_graph(graph, system.partition, workers).shard(graph, rank) for system in (plain, rival)]
    return {
        name: [
            train(worker_trainer(shard, system, shape, SETTINGS))
            for shard, system in zip(shards, (plain, rival), strict=True)
        ]
        for name, shape in shapes.items()
    }


@each("workers", [1, 2, 3])
def test_without_a_correction_it_is_bns_gcn_without_rows_bit_for_bit(workers):
    for result in run_ranks(both_on_rank, workers, random_graph(), SHAPES):
        for name, (plain, rival) in result.items():
            for what in ("losses", "gradients"):
                pairs = zip(plain[what], rival[what], strict=True)
                assert all(torch.equal(torch.as_tensor(one), torch.as_tensor(other)) for one, other in pairs), name


def corrected_sums(graph, cut, x):
    """Return the sums of all workers by their visible edges, float64 ``(N, D)``."""
    sums = torch.zeros(graph.num_nodes, x.shape[1], dtype=torch.float64)
    for shard in cut.build_shards(graph):
        is_visible = shard.indices < shard.num_owned
        weights = (shard.alpha("mean") * shard.edge_coverage)[is_visible].double()
        target = torch.repeat_interleave(shard.owned, shard.indptr.diff())[is_visible]
        sums.index_add_(0, target, weights[:, None] * x[shard.owned[shard.indices[is_visible].long()]])
    return sums


@each(("workers", "per_worker"), [(2, 2), (2, 3), (3, 2)])
def test_sums_are_unbiased_over_all_partitions(workers, per_worker):
    graph, number = random_graph(13, 40, directed=True), workers * per_worker
    x = torch.rand(graph.num_nodes, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    clusters = torch.arange(graph.num_nodes) % number
    truth = dense_of(graph_matrix(graph)).double() @ x
    assignments = set(itertools.permutations([rank for rank in range(workers) for _ in range(per_worker)]))
    total = torch.zeros_like(x)
    for assignment in assignments:
        owner = torch.tensor(assignment)[clusters]
        cut = ClusterCut(owner=owner, workers=workers, clusters=clusters, num_clusters=number, correction="coverage")
        total += corrected_sums(graph, cut, x)
    torch.testing.assert_close(total / len(assignments), truth, rtol=1e-6, atol=1e-6)


def graph_matrix(graph):
    return Random().cut(graph, 1).shard(graph, 0).matrix("mean")  # of one worker: the order of nodes is the graph's


def test_sums_without_hidden_edges_are_not_weighted():
    whole, cached, resent, *sampled = run_ranks(losses_on_rank, 2, random_graph(features=3))[0]
    assert cached == pytest.approx(whole, rel=1e-5)
    assert resent != pytest.approx(whole, rel=1e-5)
    assert sampled[0] == sampled[1], "a sample has weights of its own"


def losses_on_rank(rank, workers, graph):
    """Return losses of a layer that sums features: Vanilla's, ours with all features and without, and of samples."""
    ours, cached = gradients_only(clusters_per_worker=2), replace(SETTINGS, input_features="cache")
    samples = [
        replace(bns_gcn(p=0.5), partition=RandomClusters(clusters_per_worker=2, correction=correction))
        for correction in ("coverage", "none")
    ]
    found = []
    for system, settings in (
        (vanilla(), SETTINGS),
        (ours, cached),
        (ours, SETTINGS),
        *((sample, SETTINGS) for sample in samples),
    ):
        shard = cut_graph(graph, system.partition, workers).shard(graph, rank)
        found.append(worker_trainer(shard, system, ModelSettings(layers=1, hidden=8), settings).gradients(0))
    return found


def test_impossible_corrections_are_refused():
    with pytest.raises(ValueError, match="at least 2 clusters_per_worker, got 1"):
        gradients_only(clusters_per_worker=1)
    assert gradients_only(clusters_per_worker=1, correction="none").sampler == BoundarySampling(p=0.0)
    with pytest.raises(ValueError, match="protocol 'inductive' .*correction"):
        gq.configure("digits", system="gradients-only", protocol="inductive")
