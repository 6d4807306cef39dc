"""Partitioners, partitions stored on disk, and the message before a large one."""

from __future__ import annotations

import pytest
import torch

import gnnqlab as gq
from gnnqlab.partition import METIS, Random
from gnnqlab.partition.cut import NodeCut
from gnnqlab.partition.parts import Parts, shard_folder, shard_path, store_shards, warn_if_large
from gnnqlab.partition.shard import Shard
from tests.graphs import random_graph


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path))


def test_random_shares_are_even_and_seeded():
    graph = random_graph()
    owner = Random(seed=3).assign(graph, 7)
    counts = owner.bincount()
    assert counts.max() - counts.min() <= 1
    assert torch.equal(owner, Random(seed=3).assign(graph, 7))
    assert not torch.equal(owner, Random(seed=4).assign(graph, 7))


def test_hosts_tell_inner_from_outer():
    graph = random_graph()
    quality = gq.partition(graph, Random(), hosts=2, per_host=2).quality
    halo = quality.halo_rows
    assert quality.inner == int(halo[0, 1] + halo[1, 0] + halo[2, 3] + halo[3, 2])
    assert quality.inner + quality.outer == int(halo.sum())


def test_dense_graph_in_many_parts_has_the_advice_that_no_cut_helps():
    pairs = torch.combinations(torch.arange(24))
    graph = gq.Graph.from_edges(*pairs.T, num_nodes=24, features=torch.ones(24, 2), labels=torch.arange(24) % 2)
    dense = gq.partition(graph, Random(), workers=8)
    assert "cut cannot" not in repr(dense) and dense.quality.remote_ratio == 7.0
    assert "a cut cannot help here: 7.0 rows per node are sent, of at most 7 with 8 workers" in repr(dense)
    assert gq.partition(graph, Random(), workers=2).quality.advice == ""
    assert gq.partition(random_graph(), Random(), workers=4).quality.advice == ""


def test_counts_must_agree():
    with pytest.raises(ValueError, match=r"workers must equal hosts \* per_host, got 3 != 2 \* 2"):
        gq.partition(random_graph(), Random(), workers=3, hosts=2)
    with pytest.raises(ValueError, match=r"workers must be between 1 and the number of nodes \(60\), got 61"):
        gq.partition(random_graph(), Random(), workers=61)


def test_shards_are_made_once_and_named_by_content():
    graph = random_graph()
    folder = store_shards(graph, Random(), 2)
    assert Shard.load(shard_path(folder, 1)).rank == 1
    stamp = shard_path(folder, 0).stat().st_mtime_ns
    assert store_shards(graph, Random(), 2) == folder
    assert shard_path(folder, 0).stat().st_mtime_ns == stamp
    others = {
        shard_folder(graph.content_hash, Random(seed=1), 2),
        shard_folder(graph.content_hash, Random(), 3),
        shard_folder(random_graph(seed=1).content_hash, Random(), 2),
    }
    assert len(others) == 3 and folder not in others


def test_memory_of_a_large_partition_is_printed_in_advance(capsys):
    class Large:
        name, num_nodes, num_edges, num_features = "large", 10**6, 2 * 10**7, 100

    warn_if_large(Large(), 4)
    said = capsys.readouterr().err
    assert "20,000,000 edges" in said and "B for the partition" in said and "B for the shard" in said
    warn_if_large(Large(), 4, cuts="columns")
    print(said, capsys.readouterr().err)
    warn_if_large(random_graph(), 4)
    assert capsys.readouterr().err == ""


def test_objective_is_checked():
    with pytest.raises(ValueError, match="METIS objective must be 'cut' or 'vol', got 'edges'"):
        METIS(objective="edges")


def test_repr_of_parts_counts_those_without_own_nodes():
    graph = gq.load("sbm:60,3,6")
    owner = torch.arange(60) % 3
    assert "empty" not in repr(Parts(graph=graph, cut=NodeCut(owner=owner, workers=3), per_host=3))
    assert "workers=5, 2 of them empty" in repr(Parts(graph=graph, cut=NodeCut(owner=owner, workers=5), per_host=5))
