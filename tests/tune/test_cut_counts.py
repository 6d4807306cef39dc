"""Counts from owners alone equal those of the shards of the same cut."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gnnqlab as gq
from gnnqlab.graph.graph import Graph
from gnnqlab.partition.cut import NodeCut
from gnnqlab.partition.parts import cut_graph
from gnnqlab.tune import cut_counts as place
from gnnqlab.tune.cut_counts import CutCounts, count_by_workers


@st.composite
def _cut_graphs(draw):
    """Draw a directed graph with some isolated nodes, and owners of which some own no node."""
    nodes, workers = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    ends = st.lists(st.integers(0, nodes - 1), max_size=30)
    source = draw(ends)
    target = draw(st.lists(st.integers(0, nodes - 1), min_size=len(source), max_size=len(source)))
    graph = Graph.from_edges(source, target, num_nodes=nodes, features=torch.zeros(nodes, 2))
    owner = draw(st.lists(st.integers(0, workers - 1), min_size=nodes, max_size=nodes))
    return graph, NodeCut(owner=torch.tensor(owner), workers=workers)


@settings(max_examples=60, deadline=None)
@given(_cut_graphs())
def test_counts_are_those_of_the_shards(case):
    graph, cut = case
    counts = CutCounts.from_cut(graph, cut)
    shards = [cut.shard(graph, rank) for rank in range(cut.workers)]
    for shard in shards:
        rank = shard.rank
        assert counts.rows[:, rank].tolist() == shard.halo_splits.tolist()
        assert counts.rows[rank].tolist() == shard.boundary_splits.tolist()
        assert (counts.owned_nodes[rank], counts.edges[rank]) == (shard.num_owned, shard.num_edges)
        assert counts.local_rows[rank] == shard.num_columns and counts.partners[rank] == (shard.halo_splits > 0).sum()
        for way in ("forward", "backward"):
            assert counts.independent_edges(way)[rank] == shard.independent_edges(way)
            assert counts.dependent_edges(way)[rank] == shard.num_edges - shard.independent_edges(way)
    assert counts.halo_rows == sum(shard.num_halo for shard in shards) and counts.workers == cut.workers


def test_a_node_a_worker_is_the_end_of_it():
    graph = gq.load("sbm:40,2,4")
    found = count_by_workers(graph, gq.partitioners.Random(), workers=(1, 2, 40))
    alone, ends = found.loc[1], found.loc[40]
    assert (alone["halo_rows"], alone["held_rows"], alone["partners"]) == (0, 40, 0)
    others = {(int(u), v) for v in range(40) for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]] if u != v}
    assert ends["halo_rows"] == len(others) and ends["halo_share"] == len(others) / 40
    assert found["central_share"].is_monotonic_decreasing and found["halo_rows"].is_monotonic_increasing
    assert ends["partners"] == max(sum(v == of for _, v in others) for of in range(40))
    degrees = graph.in_degrees.double()
    assert ends["imbalance"] == pytest.approx(float(degrees.max() / degrees.mean()))


def test_other_cuts_and_too_many_workers_are_refused(monkeypatch):
    graph = gq.load("sbm:40,2,4")
    with pytest.raises(ValueError, match="halo rows need an edge-cut, got a vertex-cut"):
        CutCounts.from_cut(graph, cut_graph(graph, gq.partitioners.EBV(), 2))
    monkeypatch.setattr(place, "MAX_WORKERS", 3)
    with pytest.raises(ValueError, match="workers must be at most 3 to count every pair, got 4"):
        CutCounts.from_cut(graph, cut_graph(graph, gq.partitioners.Random(), 4))
