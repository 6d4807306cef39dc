"""Rows that multicast, or one copy per host, would save: counted node by node, and shown on the card of a partition."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
import torch

import gnnqlab as gq
from gnnqlab.graph.graph import Graph
from gnnqlab.partition.column_shard import WholeGraph
from gnnqlab.partition.connections import copies_of
from gnnqlab.partition.contiguous import BlockCut


def receivers(parts) -> dict[int, set[int]]:
    """Return the workers other than its owner that need the row of each node."""
    graph, owner = parts.graph, parts.cut.owner.tolist()
    workers = defaultdict(set)
    if isinstance(parts.cut, BlockCut):  # whole blocks are broadcast
        return {node: set(range(parts.workers)) - {owner[node]} for node in range(graph.num_nodes)}
    if parts.cut.kind == "edges":
        for node, worker in zip(*(each.tolist() for each in copies_of(parts.cut, graph)), strict=True):
            workers[node].add(worker)
    else:
        starts = graph.indptr.tolist()
        for target in range(graph.num_nodes):
            for source in graph.indices[starts[target] : starts[target + 1]].tolist():
                workers[source].add(owner[target])
    return {node: ranks - {owner[node]} for node, ranks in workers.items()}


def directed() -> Graph:
    ends = torch.randint(0, 90, (2, 400), generator=torch.Generator().manual_seed(1))
    return Graph.from_edges(ends[0], ends[1] * ends[1] % 90, num_nodes=90, symmetrize=False)


@pytest.mark.parametrize("source", ["sbm:90,3,8", "directed"])
@pytest.mark.parametrize("name", ["METIS", "Random", "EBV", "Contiguous"])
@pytest.mark.parametrize(("hosts", "per_host"), [(1, 2), (1, 5), (2, 3), (3, 2), (4, 1)])
def test_repeated_rows(source, name, hosts, per_host):
    graph = directed() if source == "directed" else gq.load(source)
    parts = gq.partition(graph, getattr(gq.partitioners, name)(), hosts=hosts, per_host=per_host)
    repeated = repeated_outer = 0
    for node, ranks in receivers(parts).items():
        own_host = int(parts.cut.owner[node]) // per_host
        repeated += max(0, len(ranks) - 1)
        by_host = Counter(rank // per_host for rank in ranks)
        repeated_outer += sum(count - 1 for host, count in by_host.items() if host != own_host)
    assert (parts.quality.repeated, parts.quality.repeated_outer) == (repeated, repeated_outer)
    card = parts._repr_html_()
    assert ("saved by multicast" in card) == (repeated > 0)
    assert ("saved by one copy per host" in card) == (repeated_outer > 0)


@pytest.mark.parametrize(("hosts", "per_host"), [(1, 3), (2, 2)])
def test_shares_of_a_row_are_not_repeated(hosts, per_host):
    """Every worker gets all rows, each in other columns: multicast saves nothing, and no cut is to blame."""
    parts = gq.partition(gq.load("sbm:90,3,8"), WholeGraph(), hosts=hosts, per_host=per_host)
    workers, quality = hosts * per_host, parts.quality
    assert quality.inner + quality.outer == (workers - 1) * 90 and (quality.repeated, quality.repeated_outer) == (0, 0)
    assert quality.remote_ratio == pytest.approx((workers - 1) / workers) and quality.advice == ""
    assert quality.replication == pytest.approx(2 - 1 / workers), "own rows, and a share of the columns of all others"
    card = parts._repr_html_()
    assert "column partition (columns are assigned to workers)" in card and "saved by" not in card
