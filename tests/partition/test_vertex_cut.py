"""Vertex-cut partitioners: every edge on one part, few replicas, bounded shares, reproducible; native = reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import gnnqlab as gq
from gnnqlab.kernels.sparse.vertex_cut import Ends, choose_masters, empty_copies, place_by_cost, place_by_worth
from gnnqlab.partition.connections import copies_of, measure_vertex_cut
from gnnqlab.partition.cut import on_hosts
from gnnqlab.partition.dne import DNE
from gnnqlab.partition.ebv import EBV
from gnnqlab.partition.hep import HEP, grow
from gnnqlab.partition.parts import shard_folder
from gnnqlab.partition.streamed import HDRF, RandomEdges
from gnnqlab.partition.undirected import add_copies, undirected
from tests.graphs import random_graph
from tests.kernels.backends import on_native, use

EVERY = (
    EBV(gamma=0),
    EBV(),
    EBV(hosts=2),
    EBV(hosts=2, host_term="copies"),
    HDRF(),
    HEP(),
    HEP(tau=1),
    DNE(),
    RandomEdges(),
)


def graph_of(source, target, nodes):
    return gq.Graph.from_edges(
        source, target, num_nodes=nodes, features=torch.eye(nodes), labels=[0, 1] * (nodes // 2) + [0] * (nodes % 2),
        train_idx=[0], val_idx=[1], test_idx=[2], name="made", self_loops="remove",
    )  # fmt: skip


def star(leaves):
    return graph_of([0] * leaves, list(range(1, leaves + 1)), leaves + 1)


def ends_of(graph):
    target = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    return graph.indices.long(), target


@pytest.mark.parametrize("partitioner", EVERY, ids=repr)
@pytest.mark.parametrize("workers", [2, 4, 6])
def test_every_edge_is_in_one_part_and_masters_are_copies(partitioner, workers):
    graph = gq.load("rmat:9,8")
    cut = partitioner.cut(graph, workers)
    source, target = ends_of(graph)
    pair = torch.minimum(source, target) * graph.num_nodes + torch.maximum(source, target)
    _, number = pair.unique(return_inverse=True)
    first = torch.zeros(int(number.max()) + 1, dtype=torch.int32)
    first[number] = cut.part
    assert torch.equal(first[number], cut.part), "both directions of an edge are on one part"
    loops = source == target
    assert torch.equal(cut.part[loops].long(), cut.owner[source[loops]])
    held = torch.zeros(workers, graph.num_nodes, dtype=torch.bool)
    held[cut.part[~loops].long(), source[~loops]] = True
    isolated = ~held.any(0)
    assert bool(isolated.any()) and bool(held[cut.owner, torch.arange(graph.num_nodes)][~isolated].all())
    held[cut.owner, torch.arange(graph.num_nodes)] = True
    node, worker = copies_of(cut, graph)
    assert torch.equal(torch.stack([worker, node]), held.nonzero().T), "replica sets are the ends of a part's edges"
    again = partitioner.cut(graph, workers)
    assert torch.equal(again.part, cut.part) and torch.equal(again.owner, cut.owner)


@pytest.mark.parametrize("partitioner", EVERY, ids=repr)
def test_one_worker_has_no_copies_and_many_may_have_no_edges(partitioner):
    graph = random_graph()
    if getattr(partitioner, "hosts", None) is None:
        one = partitioner.cut(graph, 1)
        assert int(one.part.max()) == 0 and measure_vertex_cut(one, graph).replication == 1.0
    few = partitioner.cut(graph_of([0, 1], [1, 2], 8), 8)
    assert few.owner.numel() == 8 and len(few.part.unique()) <= 2
    with pytest.raises(ValueError, match=r"workers must be between 1 and the number of nodes \(60\), got 61"):
        partitioner.cut(graph, 61)


def test_a_star_is_copied_at_its_hub_alone():
    graph = star(64)
    node, _ = copies_of(EBV(gamma=0).cut(graph, 4), graph)
    assert node.bincount().tolist() == [4] + [1] * 64


def test_large_weights_balance_the_parts():
    graph = gq.load("rmat:10,16")
    strict = EBV(gamma=0, alpha=1e6, beta=1e6, slack=9.0).cut(graph, 4)
    loops = torch.eq(*ends_of(graph))
    share = strict.part[~loops].long().bincount() / (~loops).sum()
    assert float(share.max()) * 4 < 1.02


@pytest.mark.parametrize("slack", [0.0, 0.01])
def test_no_part_takes_more_edges_than_the_slack(slack):
    graph = gq.load("rmat:11,16")
    loops = torch.eq(*ends_of(graph))
    for hosts in (1, 2):
        edges = EBV(hosts=hosts, slack=slack).cut(graph, 8).part[~loops].long().bincount() // 2
        assert int(edges.max()) <= -(-(1 + slack) * int(edges.sum()) // 8)


def test_cost_of_an_edge_by_hand():
    # Parts 0, 1 on host 0 and 2, 3 on host 1. Node 0 has a copy on 0, node 1 on 2; node 2 none.
    def placed(gamma, home=None):
        ends = Ends(np.array([0, 1, 0], np.int32), np.array([3, 4, 1], np.int32))
        copies = empty_copies(5, 4)
        copies[:, 0] = [1, 4, 0, 1, 4]
        settings = {"alpha": 0.3, "beta": 0.1, "gamma": gamma, "parts": 4, "hosts": 2, "limit": 3}
        return place_by_cost(ends, copies, home=home, **settings).tolist()

    assert placed(0.0) == [0, 2, 0], "the part with both copies; then that of either end, the first of equal ones"
    belongs = np.array([1, 1, 0, 0, 1], np.int32)
    assert placed(0.1, belongs) == [0, 2, 2], "both belong to host 1, one to host 0"
    assert placed(0.9) == [0, 2, 1], "a new copy within a host costs less than the load of the part that has one"


def test_worth_of_a_copy_by_hand():
    # Node 0 (degree 9) has a copy on part 0, node 1 (degree 1) on part 1: the end of lower degree gets no second copy.
    copies = np.array([[1], [2]], np.uint8)
    ends = Ends(np.array([0], np.int32), np.array([1], np.int32))
    settings = {"limit": 9, "lam": 1.0, "eps": 1.0, "degrees": np.array([9, 1])}
    assert place_by_worth(ends, copies.copy(), np.array([0, 0]), **settings).tolist() == [1]
    # 1.1 + λ 4 / (1 + 4) = 1.9 against 1.9: at λ = 1 both are equal and the first is used; above it balance decides.
    assert place_by_worth(ends, copies.copy(), np.array([0, 4]), **{**settings, "lam": 1.1}).tolist() == [0]
    assert place_by_worth(ends, copies.copy(), np.array([0, 4]), **{**settings, "lam": 0.9}).tolist() == [1]
    assert place_by_worth(ends, copies.copy(), np.array([0, 4]), **{**settings, "limit": 4}).tolist() == [0]
    with pytest.raises(ValueError, match="2 parts of at most 2 edges must hold 5; raise the limit"):
        place_by_worth(ends, copies, np.array([0, 4]), **{**settings, "limit": 2})


def test_masters_by_hand():
    copies = np.array([[0b1101], [0b0011], [0b0011], [0], [0b1110]], np.uint8)
    # Node 0 has two copies on host 1; nodes 1 and 2 alternate; of node 4's two there, part 2 is master for mirrors.
    assert choose_masters(copies, parts=4, hosts=2).tolist() == [2, 0, 1, 0, 3]
    assert choose_masters(copies, parts=4).tolist() == [0, 1, 1, 3, 2]


@on_native
def test_compiled_loops_place_as_the_reference_does(backend):
    graph = gq.load("rmat:8,8", seed=3)
    for partitioner in (EBV(gamma=0), EBV(hosts=3), EBV(hosts=3, host_term="copies"), HDRF(), HEP(tau=1)):
        with use(backend):
            mine = partitioner.cut(graph, 12)
        with use("reference"):
            theirs = partitioner.cut(graph, 12)
        assert torch.equal(mine.part, theirs.part) and torch.equal(mine.owner, theirs.owner), partitioner


def test_copies_are_the_ends_of_the_edges():
    graph, workers = gq.load("rmat:8,8"), 11
    edges = undirected(graph)
    part = np.arange(len(edges.ends), dtype=np.int32) % workers
    copies = empty_copies(graph.num_nodes, workers)
    add_copies(copies, edges.ends, part)
    held = np.unpackbits(copies, axis=1, bitorder="little")
    expected = np.zeros_like(held)
    expected[edges.ends.u, part] = expected[edges.ends.v, part] = 1
    assert np.array_equal(held, expected) and held.shape[1] == 16


def test_a_home_saves_rows_between_hosts_and_costs_rows_within():
    graph = gq.load("rmat:12,24")
    plain, copies, home = (
        gq.partition(graph, partitioner, hosts=2, per_host=4).quality
        for partitioner in (EBV(gamma=0), EBV(host_term="copies"), EBV())
    )
    assert home.most_outer < 0.75 * plain.most_outer and home.most_outer < copies.most_outer
    assert home.most_inner > plain.most_inner
    assert all(each.edge_imbalance < 1.01 for each in (plain, home))


def test_partitioner_receives_the_hosts_of_the_run():
    graph = gq.load("rmat:9,8")
    told = EBV(hosts=2)
    assert on_hosts(EBV(), 2) == told and on_hosts(told, 4) == told and on_hosts(RandomEdges(), 2) == RandomEdges()
    parts = gq.partition(graph, EBV(), hosts=2, per_host=2)
    assert torch.equal(parts.cut.part, told.cut(graph, 4).part)
    assert not torch.equal(parts.cut.part, EBV().cut(graph, 4).part), "on one host it is plain EBV"
    assert shard_folder("a", told, 4) != shard_folder("a", EBV(), 4)
    with pytest.raises(
        ValueError, match=r"workers must be a multiple of the hosts, got 4 worker\(s\) on 3 hosts; choose 6 workers"
    ):
        EBV(hosts=3).cut(graph, 4)


def test_quality_of_a_vertex_cut_by_hand():
    # A triangle 0 - 1 - 2 and 2 - 3; node 4 alone. Parts: {01}, {12}, {02}, {23}.
    graph = graph_of([0, 1, 0, 2], [1, 2, 2, 3], 5)
    source, target = ends_of(graph)
    part = {(0, 1): 0, (1, 2): 1, (0, 2): 2, (2, 3): 3}
    of = [part[min(pair), max(pair)] for pair in zip(source.tolist(), target.tolist())]
    cut = gq.partition.VertexCut(
        part=torch.tensor(of, dtype=torch.int32), owner=torch.tensor([0, 1, 2, 3, 3]), workers=4
    )
    quality = measure_vertex_cut(cut, graph, per_host=2)
    # Copies: 0 on {0, 2}, 1 on {0, 1}, 2 on {1, 2, 3}, 3 on {3}, 4 on {3}. Mirrors: 0@2, 1@0, 2@1, 2@3.
    assert quality.replication == 9 / 5
    assert quality.halo_rows.tolist() == [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]
    assert (quality.inner, quality.outer, quality.most_inner, quality.most_outer) == (4, 4, 1, 2)
    assert quality.edge_imbalance == 1.0 and quality.marginal_share == 3 / 5
    assert {kind: rows.tolist() for kind, rows in quality.rows_by_kind.items()} == {
        "central": [0, 0, 0, 2], "marginal": [1, 1, 1, 0], "mirrors": [1, 1, 1, 1],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"host_term": "host"}, r"EBV host_term must be one of \('home', 'copies'\), got 'host'"),
        ({"gamma": 1.5}, r"EBV gamma must lie in \[0, 1\], got 1.5"),
        ({"alpha": -1.0}, "EBV alpha must be at least 0, got -1.0"),
        ({"hosts": 0}, "EBV hosts must be at least 1, got 0"),
    ],
)
def test_bad_settings_of_ebv_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        replace(EBV(), **settings)


def test_hep_without_hubs_only_grows_parts_and_with_only_hubs_is_hdrf():
    graph = gq.load("rmat:9,8")
    edges = undirected(graph)
    none = np.zeros(graph.num_nodes, bool)
    grown = grow(edges.ends, none, np.zeros(len(edges.ends), bool), 4)
    left = grown < 0
    room = len(edges.ends) // 4 + 1
    assert np.bincount(grown[~left]).tolist()[:3] == [room] * 3
    pure = HEP(tau=float("inf")).cut(graph, 4)
    numbers = edges.edge_ids[edges.edge_ids >= 0]
    assert np.array_equal(pure.part.numpy()[edges.edge_ids >= 0][~left[numbers]], grown[numbers][~left[numbers]])
    copies, loads = empty_copies(graph.num_nodes, 4), np.zeros(4, np.int64)
    limit = -(-len(edges.ends) // 4) + 1
    alone = place_by_worth(edges.ends, copies, loads, limit=limit, lam=1.1, eps=1.0, degrees=edges.degrees)
    assert np.array_equal(HEP(tau=0.0).cut(graph, 4).part.numpy()[edges.edge_ids >= 0], alone[numbers])


def test_a_part_grows_where_fewest_edges_are_left():
    # Two cliques of four, joined by one edge: a part takes one clique and, if its limit allows, the edge.
    pairs = [(a + shift, b + shift) for shift in (0, 4) for a in range(4) for b in range(a)] + [(0, 4)]
    graph = graph_of([a for a, _ in pairs], [b for _, b in pairs], 8)
    edges = undirected(graph)
    grown = grow(edges.ends, np.zeros(8, bool), np.zeros(13, bool), 2)
    assert sorted(zip(edges.ends.u[grown == 0], edges.ends.v[grown == 0])) == sorted(
        [(b, a) for a, b in pairs[:6]] + [(0, 4)]
    )


def test_a_hub_is_never_at_the_core():
    edges = undirected(star(12))
    grown = grow(edges.ends, edges.degrees == 12, np.zeros(12, bool), 3)
    assert grown.tolist() == [0] * 5 + [1] * 5 + [-1] * 2, "leaf by leaf; from the hub all would be added at once"


@pytest.mark.parametrize("partitioner", [HEP(), DNE()], ids=repr)
def test_parts_that_grow_copy_less_than_chance_within_their_room(partitioner):
    graph = gq.load("sbm:2000,8,10")
    quality, chance = (gq.partition(graph, each, workers=4).quality for each in (partitioner, RandomEdges()))
    assert quality.replication < 0.75 * chance.replication
    loops = torch.eq(*ends_of(graph))
    edges = partitioner.cut(graph, 4).part[~loops].long().bincount() // 2
    assert int(edges.max()) <= 1.1 * int(edges.sum()) / 4 + 8
