"""Shards of a vertex-cut: every edge once, one master per node, both ends of a route in one order."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnqlab.partition.parts import load_shard, shard_path
from gnnqlab.partition.quality import measure_quality
from tests.exchange.random_edges import EdgesAtRandom
from tests.graphs import random_graph


@settings(max_examples=25, deadline=None)
@given(
    workers=st.integers(1, 5),
    edges=st.integers(0, 120),
    directed=st.booleans(),
    seed=st.integers(0, 99),
    loops=st.sampled_from(["add", "remove"]),
)
def test_edges_and_nodes_are_all_there_once(workers, edges, directed, seed, loops):
    graph = random_graph(nodes=30, edges=edges, directed=directed, seed=seed, self_loops=loops)
    cut = EdgesAtRandom(seed=seed).cut(graph, workers)
    shards = [cut.shard(graph, rank) for rank in range(workers)]
    assert torch.equal(torch.cat([shard.owned for shard in shards]).sort().values, torch.arange(30))
    found = []
    for rank, shard in enumerate(shards):
        ids = shard.row_ids
        target = ids[torch.repeat_interleave(torch.arange(ids.numel()), shard.indptr.diff())]
        found.append(target * 30 + ids[shard.indices.long()])
        assert (cut.owner[shard.owned] == rank).all() and (cut.owner[shard.halo] != rank).all()
        assert torch.equal(shard.labels, graph.labels[ids]) and torch.equal(shard.features, graph.features[ids])
        assert not shard.train_mask[shard.num_owned :].any()
        assert not shard.val_mask[shard.num_owned :].any() and not shard.test_mask[shard.num_owned :].any()
        gather, scatter, aside = shard.plan("forward"), shard.scatter(), shard.side_by_side()
        for route in gather.send:
            there = shards[route.peer]
            assert torch.equal(route.ids, there.plan("backward").from_peer(rank).ids)
            assert torch.equal(route.ids, there.side_by_side().from_peer(rank).ids)
            assert torch.equal(route.ids, there.scatter().to_peer(rank).ids)
            assert torch.equal(ids[route.rows], route.ids)
            came = there.boundary[there.side_by_side().from_peer(rank).rows]
            assert torch.equal(there.row_ids[came], route.ids)
            summed = there.summed[there.side_by_side().from_peer(rank).rows]
            assert torch.equal(summed, shard.indptr.diff()[route.rows] > 0)
        central = set(shard.owned[: shard.num_central].tolist())
        assert all(central.isdisjoint(other.halo.tolist()) for other in shards)
        assert set(shard.owned[shard.num_central :].tolist()) <= {
            node for other in shards for node in other.halo.tolist()
        }
        assert gather.accumulate and not scatter.accumulate and scatter.to_all and aside.parts and gather.parts
    target = torch.repeat_interleave(torch.arange(30), graph.in_degrees)
    assert torch.equal(torch.cat(found).sort().values, (target * 30 + graph.indices.long()).sort().values)
    for name in ("train", "val", "test"):
        there = sum(int(getattr(shard, f"{name}_mask").sum()) for shard in shards)
        assert there == int(getattr(graph, f"{name}_mask").sum()), name
    quality = measure_quality(shards)
    copies = torch.cat([shard.row_ids for shard in shards]).numel()
    assert quality.replication == copies / 30 and quality.inner == copies - 30
    assert quality.edge_cut == int((cut.owner[graph.indices.long()] != cut.owner[target]).sum())


def test_sums_use_the_degrees_of_the_whole_graph():
    graph = random_graph(directed=True, seed=3)
    cut = EdgesAtRandom(seed=3).cut(graph, 3)
    x = torch.randn(graph.num_nodes, 5, generator=torch.Generator().manual_seed(0))
    target = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    for kind in ("symmetric", "mean", "sum"):
        found = torch.zeros_like(x)
        for rank in range(3):
            shard = cut.shard(graph, rank)
            rows = shard.row_ids[torch.repeat_interleave(torch.arange(shard.row_ids.numel()), shard.indptr.diff())]
            found.index_add_(0, rows, shard.alpha(kind)[:, None] * x[shard.row_ids[shard.indices.long()]])
        source = graph.indices.long()
        into, out = graph.in_degrees.clamp(min=1).float(), graph.out_degrees.clamp(min=1).float()
        alpha = {
            "symmetric": (into[target] * out[source]).rsqrt(),
            "mean": 1 / into[target],
            "sum": torch.ones(source.numel()),
        }
        truth = torch.zeros_like(x).index_add_(0, target, alpha[kind][:, None] * x[source])
        assert torch.allclose(found, truth, atol=1e-5), kind


def test_replica_shard_can_be_saved_and_loaded(tmp_path):
    graph = random_graph(seed=1)
    shard = EdgesAtRandom().cut(graph, 3).shard(graph, 1)
    shard.save(shard_path(tmp_path, 1))
    again = load_shard(tmp_path, EdgesAtRandom(), 1)
    assert type(again) is type(shard) and torch.equal(again.summed, shard.summed)
    assert torch.equal(again.row_ids, shard.row_ids) and again.rows_by_kind == shard.rows_by_kind
