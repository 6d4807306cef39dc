"""Importance by the rank of global in-degrees among the boundary nodes."""

from __future__ import annotations

import torch

from gnnqlab.partition import Random, build_shard
from gnnqlab.partition.importance import importance
from tests.graphs import random_graph


def test_equal_degrees_are_equally_important_and_the_largest_has_one():
    degrees = torch.randint(1, 9, (50,), generator=torch.Generator().manual_seed(0))
    p = importance(degrees)
    order = degrees.argsort()
    assert (p[order].diff() >= 0).all() and p.min() == 0.0 and p[degrees == degrees.max()].eq(1.0).all()
    for degree in degrees.unique():
        assert p[degrees == degree].unique().numel() == 1


def test_a_pool_of_equals_and_an_empty_one():
    assert importance(torch.tensor([3, 3, 3])).tolist() == [1.0, 1.0, 1.0]
    assert importance(torch.empty(0, dtype=torch.int64)).numel() == 0


def test_shards_agree_about_every_boundary_node():
    graph = random_graph(directed=True)
    owner = Random(seed=1).assign(graph, 4)
    shards = [build_shard(graph, owner, rank, 4) for rank in range(4)]
    known = torch.zeros(graph.num_nodes)
    boundary = torch.zeros(graph.num_nodes, dtype=torch.bool)
    for shard in shards:
        known[shard.owned] = shard.importance[: shard.num_owned]
        boundary[shard.halo] = True
    for shard in shards:
        assert torch.equal(shard.importance[shard.num_owned :], known[shard.halo])
    assert not known[~boundary].any()
    assert torch.equal(known[boundary], importance(graph.in_degrees[boundary]))
