"""Clusters go to workers whole and in equal numbers, to others in every period, and edges have weights of coverage."""

from __future__ import annotations

import itertools

import torch

from gnnqlab.partition.random_clusters import RandomClusters
from gnnqlab.partition.shard import Shard
from tests.graphs import random_graph


def test_drawn_assignments_have_equal_numbers_of_whole_clusters():
    graph = random_graph(60, 240)
    cuts = [RandomClusters(clusters_per_worker=4, seed=seed).cut(graph, 3) for seed in range(40)]
    assert all(torch.equal(cut.clusters, cuts[0].clusters) for cut in cuts)
    workers_of = [[cut.owner[cut.clusters == cluster].unique().tolist() for cluster in range(12)] for cut in cuts]
    assert all(sorted(itertools.chain(*each_cut)) == [0] * 4 + [1] * 4 + [2] * 4 for each_cut in workers_of)
    together = sum(each_cut[0] == each_cut[1] for each_cut in workers_of)
    assert 3 <= together <= 20, "two clusters have one worker in 3 of 11 draws: 10.9 of 40"


def test_a_small_graph_has_fewer_clusters():
    graph = random_graph(9, 20)
    cut = RandomClusters(correction="coverage").cut(graph, 4)
    assert cut.num_clusters == 8 and cut.weight_between == 7.0
    alone = RandomClusters(correction="coverage").cut(graph, 5)
    assert alone.num_clusters == 5 and set(alone.shard(graph, 0).edge_coverage.tolist()) == {1.0}


def test_every_period_has_an_assignment_of_its_own():
    graph, partitioner = random_graph(60, 240), RandomClusters(seed=2)
    cuts = [partitioner.cut_in_period(graph, 3, period) for period in range(4)]
    assert torch.equal(cuts[0].owner, partitioner.cut(graph, 3).owner)
    assert all(torch.equal(cut.clusters, cuts[0].clusters) for cut in cuts)
    assert len({tuple(cut.owner.tolist()) for cut in cuts}) == 4
    again = RandomClusters(seed=2, partition_every=5).cut_in_period(graph, 3, 3)
    assert torch.equal(again.owner, cuts[3].owner), "a partition follows from seed and period"


def test_coverage_survives_the_file_of_a_shard(tmp_path):
    graph = random_graph()
    shard = RandomClusters(clusters_per_worker=4, correction="coverage").cut(graph, 2).shard(graph, 1)
    shard.save(tmp_path / "shard.npz")
    assert torch.equal(Shard.load(tmp_path / "shard.npz").edge_coverage, shard.edge_coverage)
    assert {round(value, 5) for value in shard.edge_coverage.tolist()} == {1.0, round(7 / 3, 5)}
