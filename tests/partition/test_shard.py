"""Shards: properties that hold for random cuts of random graphs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from gnnqlab.graph import Graph, SparseRows
from gnnqlab.partition import NodeCut, Random, Shard, build_shard, partition
from gnnqlab.partition.coefficients import aggregation_coefficients
from tests.graphs import random_graph

graphs = st.builds(
    random_graph,
    nodes=st.integers(12, 50),
    edges=st.integers(0, 120),
    seed=st.integers(0, 10**6),
    directed=st.booleans(),
    isolated=st.integers(0, 6),
    self_loops=st.sampled_from(["add", "remove"]),
)
CHECKED = given(graph=graphs, workers=st.integers(1, 7), seed=st.integers(0, 100))


def shards_of(graph: Graph, workers: int, seed: int) -> list[Shard]:
    owner = torch.randint(workers, (graph.num_nodes,), generator=torch.Generator().manual_seed(seed))
    return [build_shard(graph, owner, rank, workers) for rank in range(workers)]


@CHECKED
def test_shards_of_a_cut_are_those_of_each_worker(graph, workers, seed):
    alone = shards_of(graph, workers, seed)
    owner = torch.randint(workers, (graph.num_nodes,), generator=torch.Generator().manual_seed(seed))
    together = list(NodeCut(owner=owner, workers=workers).build_shards(graph))
    for one, other in zip(alone, together, strict=True):
        for name, value in vars(one).items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, getattr(other, name)), name
    seconds = sum(shard.extract_s for shard in together)
    assert seconds == pytest.approx(workers * together[0].extract_s), "one extraction, divided among the workers"


class _LongOperations(TorchDispatchMode):
    """Count the results with one element for each edge of a graph."""

    def __init__(self, length: int) -> None:
        self.length, self.count = length, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.count += isinstance(result, torch.Tensor) and result.numel() == self.length
        return result


def test_edges_of_the_graph_are_read_once_for_all_shards():
    graph = random_graph(nodes=50, edges=400, seed=3)
    counts = {}
    for workers in (2, 6):
        owner = torch.arange(graph.num_nodes) % workers
        with _LongOperations(graph.num_edges) as operations:
            list(NodeCut(owner=owner, workers=workers).build_shards(graph))
        counts[workers] = operations.count
    assert counts[2] == counts[6] > 0


@CHECKED
def test_every_node_has_one_owner(graph, workers, seed):
    owned = torch.cat([shard.owned for shard in shards_of(graph, workers, seed)])
    assert owned.sort().values.tolist() == list(range(graph.num_nodes))


@CHECKED
def test_every_edge_is_in_one_shard_with_its_global_endpoints(graph, workers, seed):
    found = set()
    for shard in shards_of(graph, workers, seed):
        nodes = torch.cat([shard.owned, shard.halo])
        sources = nodes[shard.indices.long()]
        destinations = torch.repeat_interleave(shard.owned, shard.indptr.diff())
        found |= set(zip(sources.tolist(), destinations.tolist(), strict=True))
    destinations = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    assert found == set(zip(graph.indices.tolist(), destinations.tolist(), strict=True))


@CHECKED
def test_central_rows_need_no_halo_and_marginal_rows_do(graph, workers, seed):
    for shard in shards_of(graph, workers, seed):
        remote = shard.indices >= shard.num_owned
        per_row = torch.zeros(shard.num_owned, dtype=torch.int64)
        per_row.index_add_(
            0, torch.repeat_interleave(torch.arange(shard.num_owned), shard.indptr.diff()), remote.long()
        )
        assert (per_row[: shard.num_central] == 0).all()
        assert (per_row[shard.num_central :] > 0).all()


@CHECKED
def test_sent_boundary_rows_match_the_halo_of_the_receiver(graph, workers, seed):
    shards = shards_of(graph, workers, seed)
    for receiver in shards:
        expected = receiver.halo.split(receiver.halo_splits.tolist())
        for sender in shards:
            rows = sender.boundary.split(sender.boundary_splits.tolist())[receiver.rank]
            assert sender.owned[rows].tolist() == expected[sender.rank].tolist()


@CHECKED
def test_alpha_comes_from_global_degrees(graph, workers, seed):
    degrees = graph.in_degrees, graph.out_degrees
    weights = aggregation_coefficients("symmetric", graph.indptr, graph.indices, *degrees)
    destinations = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    whole = dict(zip(zip(graph.indices.tolist(), destinations.tolist(), strict=True), weights.tolist(), strict=True))
    for shard in shards_of(graph, workers, seed):
        sources = torch.cat([shard.owned, shard.halo])[shard.indices.long()]
        local = torch.repeat_interleave(shard.owned, shard.indptr.diff())
        for source, destination, weight in zip(
            sources.tolist(), local.tolist(), shard.alpha("symmetric").tolist(), strict=True
        ):
            assert weight == whole[source, destination]


@CHECKED
def test_quality_agrees_with_a_count_over_edges(graph, workers, seed):
    owner = torch.randint(workers, (graph.num_nodes,), generator=torch.Generator().manual_seed(seed))
    parts = partition(graph, _Given(owner), workers=workers)
    destinations = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    cut = owner[graph.indices.long()] != owner[destinations]
    rows = {
        (int(u), int(owner[v])) for u, v in zip(graph.indices[cut].tolist(), destinations[cut].tolist(), strict=True)
    }
    assert parts.quality.edge_cut == int(cut.sum())
    assert int(parts.quality.halo_rows.sum()) == len(rows)
    assert parts.quality.remote_ratio == len(rows) / graph.num_nodes
    assert int(parts.quality.bytes_per_pair(10, bits=2).sum()) == 3 * len(rows)


class _Given:
    def __init__(self, owner):
        self.owner = owner

    def cut(self, graph, workers):
        return NodeCut(owner=self.owner, workers=workers)


def test_boundary_follows_out_edges_and_marginal_in_edges():
    # 0 -> 1 crosses; 0 has no in-edge from another worker, 1 has no out-edge to one.
    graph = Graph.from_edges(
        torch.tensor([0]),
        torch.tensor([1]),
        num_nodes=2,
        features=torch.eye(2),
        labels=torch.tensor([0, 1]),
        train_idx=torch.tensor([0]),
        val_idx=torch.tensor([1]),
        test_idx=torch.tensor([], dtype=torch.int64),
        name="arrow",
        symmetrize=False,
        self_loops="remove",
    )
    zero, one = (build_shard(graph, torch.tensor([0, 1]), rank, 2) for rank in (0, 1))
    assert (zero.num_central, zero.num_halo, zero.boundary.tolist()) == (1, 0, [0])
    assert (one.num_central, one.num_halo, one.boundary.tolist()) == (0, 1, [])


def test_a_shard_survives_the_disk(tmp_path):
    graph = random_graph()
    sparse = SparseRows(
        indptr=torch.arange(graph.num_nodes + 1),
        indices=torch.zeros(graph.num_nodes, dtype=torch.int32),
        values=torch.rand(graph.num_nodes),
        num_columns=5,
    )
    for features in (graph.features, sparse):
        shard = build_shard(_with(graph, features), Random().assign(graph, 3), 1, 3)
        shard.save(tmp_path / "shard.npz")
        back = Shard.load(tmp_path / "shard.npz")
        assert back.num_central == shard.num_central and torch.equal(back.halo, shard.halo)
        if isinstance(features, SparseRows):
            assert torch.equal(back.features.values, shard.features.values)
        else:
            assert torch.equal(back.features, shard.features)


def _with(graph, features):
    import dataclasses

    return dataclasses.replace(graph, features=features)


def test_a_file_that_is_no_shard_is_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="a shard must be an .npz written by Shard.save"):
        Shard.load(tmp_path / "x.npz")


def test_owners_are_checked():
    graph = random_graph()
    with pytest.raises(ValueError, match=r"owner must be an int64 tensor of shape \(60,\)"):
        build_shard(graph, torch.zeros(3, dtype=torch.int64), 0, 1)
    with pytest.raises(ValueError, match=r"owners must lie in \[0, 2\), got values from 0 to 5"):
        build_shard(graph, torch.full((60,), 5).index_fill_(0, torch.tensor([0]), 0), 0, 2)
    with pytest.raises(ValueError, match="alpha must be one of"):
        build_shard(graph, torch.zeros(60, dtype=torch.int64), 0, 1).alpha("max")
