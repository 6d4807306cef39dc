"""Cuts: their shards, their refusals, and the exchanges that take them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import gnnqlab as gq
from gnnqlab.partition import NodeCut, Random, VertexCut, build_shard
from gnnqlab.partition.parts import CUTS
from gnnqlab.partition.random_clusters import ClusterCut
from gnnqlab.systems.parts import PARTS
from tests.graphs import random_graph


def test_a_cut_survives_the_disk(tmp_path):
    cut = NodeCut(owner=torch.tensor([1, 0, 2, 1]), workers=3, library="pymetis")
    for each in (cut, dataclasses.replace(cut, library=None)):
        each.save(tmp_path / "cut.npz")
        back = NodeCut.load(tmp_path / "cut.npz")
        assert torch.equal(back.owner, each.owner) and (back.workers, back.library) == (3, each.library)


def test_owners_are_checked():
    with pytest.raises(ValueError, match=r"owners must lie in \[0, 2\), got values from 0 to 2"):
        NodeCut(owner=torch.tensor([0, 2]), workers=2)
    with pytest.raises(ValueError, match="owner must be an int64 vector, got torch.float32"):
        NodeCut(owner=torch.zeros(3), workers=2)
    with pytest.raises(ValueError, match=r"owner must be an int64 tensor of shape \(60,\)"):
        NodeCut(owner=torch.zeros(3, dtype=torch.int64), workers=2).shard(random_graph(), 0)


def test_parts_have_the_shards_of_their_cut():
    graph = random_graph()
    parts = gq.partition(graph, Random(seed=2), workers=3)
    assert torch.equal(parts.owner, Random(seed=2).assign(graph, 3)) and parts.workers == 3
    for rank, shard in enumerate(parts.shards):
        other = build_shard(graph, parts.owner, rank, 3)
        for field in dataclasses.fields(shard):
            mine, theirs = getattr(shard, field.name), getattr(other, field.name)
            if field.name != "extract_s":
                assert torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else mine == theirs


@pytest.mark.parametrize("name", sorted(PARTS["partition"]))
def test_every_partitioner_makes_cuts_that_can_be_saved_and_loaded(name, tmp_path):
    partitioner, graph = PARTS["partition"][name](), random_graph()
    if reason := partitioner.unusable():
        pytest.skip(reason)
    kind = CUTS[getattr(partitioner, "cuts", "nodes")]
    cut = partitioner.cut(graph, 3)
    assert type(cut) is (ClusterCut if name == "random-clusters" else kind)
    assert cut.workers == 3 and cut.owner.shape == (graph.num_nodes,)
    cut.save(tmp_path / "cut.npz")
    back = type(cut).load(tmp_path / "cut.npz")
    assert torch.equal(back.owner, cut.owner) and getattr(back, "replication", 1) == getattr(cut, "replication", 1)
    if kind is not VertexCut:
        assert sum(cut.shard(graph, rank).num_owned for rank in range(3)) == graph.num_nodes
    else:
        assert torch.equal(back.part, cut.part)


@dataclass(frozen=True)
class ByEdge:
    """A vertex-cut partitioner that no exchange takes."""

    cuts: ClassVar[str] = "edges"

    def cut(self, graph, workers):
        raise AssertionError("a system with it is refused before anything is cut")


@dataclass(frozen=True)
class Replicas:
    """An exchange that takes vertex-cuts."""

    takes_cuts_of: ClassVar[str] = "edges"

    def join(self, shard, wires, schedule, **settings):
        raise AssertionError("a system with it is refused before anything runs")


def test_a_cut_that_the_exchange_does_not_take_is_refused_with_a_way_out():
    with pytest.raises(
        ValueError,
        match=r"exchange Halo needs an edge-cut .*, got partition ByEdge, a vertex-cut .*; choose a partition of "
        r"\['metis', 'mt-kahypar', 'random', 'random-clusters'\]",
    ):
        dataclasses.replace(gq.systems.vanilla(), partition=ByEdge())
    with pytest.raises(ValueError, match="exchange Replicas needs a vertex-cut .*, got partition Random"):
        dataclasses.replace(gq.systems.vanilla(), partition=Random(), exchange=Replicas())


def test_quality_by_hand():
    # A path 0 - 1 - 2 - 3 and 1 - 3, both ways; workers own {0, 1}, {2}, {3} and nothing, two a host.
    graph = gq.Graph.from_edges(
        [0, 1, 2, 1], [1, 2, 3, 3], num_nodes=4, features=torch.eye(4), labels=[0, 1, 0, 1], train_idx=[0],
        val_idx=[1], test_idx=[2], name="path", self_loops="remove",
    )  # fmt: skip

    @dataclass(frozen=True)
    class Given:
        def cut(self, graph, workers):
            return NodeCut(owner=torch.tensor([0, 0, 1, 2]), workers=4)

    quality = gq.partition(graph, Given(), hosts=2, per_host=2).quality
    assert quality.halo_rows.tolist() == [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert (quality.edge_cut, quality.edge_cut_share) == (6, 0.75)
    assert (quality.inner, quality.outer) == (2, 4)
    assert (quality.most_inner, quality.most_outer) == (1, 2), (
        "one row to the neighbour; worker 2 sends the other host two"
    )
    assert quality.replication == (4 + 6) / 4 and quality.remote_ratio == 6 / 4
    assert quality.node_imbalance == 2.0 and quality.edge_imbalance == 4 / 2
    assert {kind: rows.tolist() for kind, rows in quality.rows_by_kind.items()} == {
        "central": [1, 0, 0, 0], "marginal": [1, 1, 1, 0], "halo": [2, 2, 2, 0],
    }  # fmt: skip


def test_a_plan_finds_its_routes():
    graph = random_graph()
    shards = gq.partition(graph, Random(), workers=3).shards
    for shard in shards:
        forward, backward = shard.plan("forward"), shard.plan("backward")
        assert forward.received_rows.tolist() == shard.halo_splits.tolist() == backward.sent_rows.tolist()
        assert forward.sent_rows.tolist() == shard.boundary_splits.tolist() == backward.received_rows.tolist()
        assert not forward.accumulate and backward.accumulate
        for peer in {0, 1, 2} - {shard.rank}:
            assert forward.from_peer(peer).ids.tolist() == shards[peer].plan("forward").to_peer(shard.rank).ids.tolist()
    with pytest.raises(ValueError, match=r"worker 0 exchanges rows with the workers \[1, 2\], got 0"):
        shards[0].plan("forward").from_peer(0)
    with pytest.raises(ValueError, match="direction must be 'forward' or 'backward', got 'sideways'"):
        shards[0].plan("sideways")


def test_the_card_of_blocks_names_a_block_partition():
    card = gq.partition(gq.load("sbm:60,3,6"), gq.partitioners.Contiguous(), workers=3)._repr_html_()
    assert "block partition (blocks are assigned to workers)" in card and "edge-cut" not in card
