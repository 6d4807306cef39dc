"""Held-back links: both directions of an edge, the same for every number of workers."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.graph import Graph
from gnnqlab.graph.link_split import TEST, TRAIN, VAL, split_links
from tests.cases import each
from tests.graphs import random_graph


def pairs_of(graph: Graph) -> set[tuple[int, int]]:
    target = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    return {(min(u, v), max(u, v)) for u, v in zip(graph.indices.tolist(), target.tolist(), strict=True) if u != v}


@each(("directed", "self_loops"), [(False, "add"), (True, "add"), (True, "remove")])
def test_split_graph_has_training_links_only_in_both_directions(directed, self_loops):
    graph = random_graph(directed=directed, self_loops=self_loops, seed=3)
    split = split_links(graph, val=0.15, test=0.25, seed=1)
    links = [(min(u, v), max(u, v)) for u, v in zip(split.sources.tolist(), split.targets.tolist(), strict=True)]
    assert links == sorted(pairs_of(graph))
    kept = {link for link, kind in zip(links, split.kinds.tolist(), strict=True) if kind == TRAIN}
    assert pairs_of(split.graph) == kept != set(links)
    loops = graph.num_nodes if self_loops == "add" else 0
    both = {
        (int(u), v) for v in range(60) for u in split.graph.indices[split.graph.indptr[v] : split.graph.indptr[v + 1]]
    }
    before = {(int(u), v) for v in range(60) for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]}
    assert both == {(u, v) for u, v in before if u == v or (min(u, v), max(u, v)) in kept}
    assert sum(u == v for u, v in both) == loops
    assert split.graph.is_symmetric is not directed


def test_shares_and_ends_are_drawn_evenly():
    graph = random_graph(nodes=2000, edges=20000, features=1)
    split = split_links(graph, val=0.1, test=0.2)
    count = split.kinds.numel()

    def expected(found: int, share: float) -> None:
        assert abs(found - count * share) < 5 * (count * share * (1 - share)) ** 0.5  # five standard deviations

    expected(split.count(VAL), 0.1)
    expected(split.count(TEST), 0.2)
    expected(split.count(TRAIN), 0.7)
    expected(int(split.scored.sum()), 0.1)
    expected(int((split.sources < split.targets).sum()), 0.5)
    assert not bool((split.scored & (split.kinds != TRAIN)).any())


def test_the_seed_decides_and_more_held_back_holds_the_same_back():
    graph = random_graph(nodes=300, edges=2000)
    one, again, other = (split_links(graph, test=0.1, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(one.kinds, again.kinds) and not torch.equal(one.kinds, other.kinds)
    more = split_links(graph, test=0.3, seed=4)
    assert bool((more.kinds[one.kinds == TEST] == TEST).all()) and more.count(TEST) > one.count(TEST)


def test_weights_stay_with_their_edges():
    graph = random_graph(weighted=True)
    looked = split_links(graph, seed=2).graph
    dense = torch.zeros(2, 60, 60)
    for place, each_graph in enumerate((graph, looked)):
        target = torch.repeat_interleave(torch.arange(60), each_graph.in_degrees)
        dense[place, target, each_graph.indices.long()] = each_graph.edge_weights
    there = dense[1] > 0
    assert torch.equal(dense[1], dense[0] * there) and not torch.equal(dense[0], dense[1])


def test_features_of_edges_stay_with_their_edges():
    graph = random_graph(directed=True, edge_features=2)
    looked = split_links(graph, seed=2).graph
    dense = torch.zeros(2, 60, 60, 2)
    for place, each_graph in enumerate((graph, looked)):
        target = torch.repeat_interleave(torch.arange(60), each_graph.in_degrees)
        dense[place, target, each_graph.indices.long()] = each_graph.edge_features
    there = (dense[1] != 0).any(-1, keepdim=True)
    assert looked.num_edges < graph.num_edges
    assert torch.equal(dense[1], dense[0] * there) and not torch.equal(dense[0], dense[1])


def test_split_without_training_links_raises_value_error():
    with pytest.raises(
        ValueError, match=r"shares of links must lie in \[0, 1\), their sum too, got val 0.5 and test 0.5"
    ):
        split_links(random_graph(), val=0.5, test=0.5)
    alone = Graph.from_edges([0], [0], num_nodes=3)
    with pytest.raises(ValueError, match="needs at least one training link, got 0 link"):
        split_links(alone)
