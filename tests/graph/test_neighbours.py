"""Sampled neighbours: the requested number, uniformly distributed, and the same in every call."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.graph.neighbours import Frontier, sample_neighbours, shuffled
from tests.cases import each
from tests.graphs import random_graph

GRAPH = random_graph(nodes=80, edges=700, directed=True)
ALL = torch.arange(80)


@each("fanout", [1, 3, 8, 100])
def test_neighbours_are_neighbours_each_once(fanout):
    indptr, found = sample_neighbours(GRAPH, ALL, fanout, seed=1, step=2, layer=0)
    for node in range(80):
        neighbours = GRAPH.indices[GRAPH.indptr[node] : GRAPH.indptr[node + 1]].tolist()
        sampled = found[indptr[node] : indptr[node + 1]].tolist()
        assert len(set(sampled)) == len(sampled) == min(fanout, len(neighbours))
        assert set(sampled) <= set(neighbours)


def test_sampled_neighbours_of_a_node_do_not_depend_on_the_batch():
    indptr, found = sample_neighbours(GRAPH, ALL, 3, seed=1, step=2, layer=1)
    some = torch.tensor([41, 7, 7, 66, 0])
    own, sampled = sample_neighbours(GRAPH, some, 3, seed=1, step=2, layer=1)
    for row, node in enumerate(some.tolist()):
        assert torch.equal(sampled[own[row] : own[row + 1]], found[indptr[node] : indptr[node + 1]])
    for other in ({"seed": 2}, {"step": 3}, {"layer": 0}):
        key = {"seed": 1, "step": 2, "layer": 1} | other
        assert not torch.equal(sample_neighbours(GRAPH, ALL, 3, **key)[1], found)


def test_every_set_of_neighbours_is_as_likely():
    degrees = GRAPH.indptr.diff()
    node = int((degrees == 6).nonzero()[0])  # 15 pairs
    neighbours = GRAPH.indices[GRAPH.indptr[node] : GRAPH.indptr[node + 1]].tolist()
    draws, counts = 3000, {}
    for step in range(draws):
        _, pair = sample_neighbours(GRAPH, torch.tensor([node]), 2, seed=0, step=step, layer=0)
        counts[frozenset(pair.tolist())] = counts.get(frozenset(pair.tolist()), 0) + 1
    assert len(counts) == 15 and set().union(*counts) == set(neighbours)
    # Chi-squared of 14 degrees of freedom exceeds 45.1 in one of 10^4 seeds.
    assert sum((count - draws / 15) ** 2 / (draws / 15) for count in counts.values()) < 45.1


def test_no_nodes_have_no_neighbours():
    indptr, found = sample_neighbours(GRAPH, ALL[:0], 3, seed=0, step=0, layer=0)
    assert indptr.tolist() == [0] and len(found) == 0
    with pytest.raises(ValueError, match="fanout must be at least 1, got 0"):
        sample_neighbours(GRAPH, ALL, 0, seed=0, step=0, layer=0)


def test_orders_are_new_in_every_epoch_and_the_same_again():
    first, second = (shuffled(ALL + 5, seed=3, epoch=epoch) for epoch in (0, 1))
    assert not torch.equal(first, second) and torch.equal(first, shuffled(ALL + 5, seed=3, epoch=0))
    assert torch.equal(second.sort().values, ALL + 5)


def test_a_frontier_forgets_between_layers():
    frontier = Frontier(10)
    for targets, neighbours in ((torch.tensor([3, 9]), torch.tensor([9, 1, 1, 0])), (torch.tensor([1]), ALL[:0])):
        sources, places = frontier.number(targets, neighbours)
        assert torch.equal(sources[: len(targets)], targets) and len(sources.unique()) == len(sources)
        assert torch.equal(sources[places], neighbours)
