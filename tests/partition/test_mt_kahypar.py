"""Mt-KaHyPar: its objective is the number of rows sent, also on directed graphs, and it needs an optional package."""

from __future__ import annotations

import pytest
import torch

import gnnqlab as gq
from gnnqlab.graph.graph import Graph
from gnnqlab.partition import cut as cuts
from gnnqlab.partition.mt_kahypar import MtKaHyPar, _nets
from gnnqlab.partition.quality import measure_quality
from gnnqlab.tune.recommendation.candidates import list_candidates

needs_package = pytest.mark.skipif(bool(MtKaHyPar.unusable()), reason=MtKaHyPar.unusable() or "installed")


def sent_rows(graph: Graph, owner: torch.Tensor, workers: int) -> int:
    cut = cuts.NodeCut(owner=owner, workers=workers)
    return int(measure_quality([cut.shard(graph, rank) for rank in range(workers)]).halo_rows.sum())


@pytest.mark.parametrize("symmetrize", [True, False])
def test_connectivity_of_the_nets_is_the_number_of_rows_sent(symmetrize: bool) -> None:
    source, target = torch.randint(0, 80, (2, 300), generator=torch.Generator().manual_seed(1))
    graph = Graph.from_edges(source, target % 7, num_nodes=80, symmetrize=symmetrize)  # into few hubs
    owner = torch.randint(0, 3, (graph.num_nodes,), generator=torch.Generator().manual_seed(0))
    connectivity = sum(len(set(owner[net].tolist())) - 1 for net in _nets(graph))
    assert connectivity == sent_rows(graph, owner, 3) > 0


@needs_package
@pytest.mark.parametrize("balance_edges", [False, True])
def test_cuts_are_balanced_reproducible_and_send_fewer_rows(balance_edges: bool) -> None:
    graph = gq.load("sbm:2000,8,12")
    partitioner = MtKaHyPar(balance_edges=balance_edges)
    owner = partitioner.cut(graph, 4).owner
    assert torch.equal(partitioner.cut(graph, 4).owner, owner)
    load = graph.in_degrees if balance_edges else torch.ones_like(graph.in_degrees)
    loads = torch.zeros(4, dtype=torch.int64).index_add_(0, owner, load)
    assert loads.max() <= 1.031 * loads.double().mean()
    assert sent_rows(graph, owner, 4) <= sent_rows(graph, gq.partitioners.METIS().assign(graph, 4), 4)


@needs_package
def test_graphs_without_edges_and_parts_of_one_node() -> None:
    without_edges = Graph.from_edges(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64), num_nodes=5)
    assert MtKaHyPar().cut(without_edges, 2).owner.unique().tolist() == [0, 1]
    graph = gq.load("sbm:6,2,2")
    assert sorted(MtKaHyPar().cut(graph, 6).owner.tolist()) == list(range(6))
    assert MtKaHyPar().cut(graph, 1).owner.tolist() == [0] * 6


def test_without_the_package_it_is_refused_and_not_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "find_spec", lambda name: None)
    with pytest.raises(
        RuntimeError, match=r"needs the package mtkahypar, .* run pip install 'gnnqlab\[partition\]', or"
    ):
        MtKaHyPar().cut(gq.load("sbm:60,3,6"), 2)
    assert "mt-kahypar" not in {candidate.partition for candidate in list_candidates(["vanilla"])}
    monkeypatch.setattr(cuts, "find_spec", lambda name: object())
    assert "mt-kahypar" in {candidate.partition for candidate in list_candidates(["vanilla"])}
