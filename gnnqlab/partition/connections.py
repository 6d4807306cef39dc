"""What a cut of either kind costs in connections (CDFGNN Table 3), asked of cut, graph and hosts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.partition.quality import Quality

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.vertex_cut import VertexCut

__all__ = ["copies_of", "measure_vertex_cut"]


def copies_of(cut: VertexCut, graph: Graph) -> tuple[Tensor, Tensor]:
    """Return every copy of a node, mirrors and masters: its node and its worker, int64, by worker, then by node.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.partition.streamed import RandomEdges
        >>> graph = sbm(20, 2, 4)
        >>> nodes, workers = copies_of(RandomEdges().cut(graph, 2), graph)
        >>> 20 <= len(nodes) <= 40, workers.unique().tolist()
        (True, [0, 1])
    """
    nodes = graph.num_nodes
    part, source = cut.part.long(), graph.indices.long()
    target = torch.repeat_interleave(torch.arange(nodes), graph.in_degrees)
    held = torch.zeros(cut.workers, nodes, dtype=torch.bool)
    held[part, source] = True
    held[part, target] = True
    held[cut.owner, torch.arange(nodes)] = True
    worker, node = held.nonzero(as_tuple=True)
    return node, worker


def measure_vertex_cut(cut: VertexCut, graph: Graph, *, per_host: int | None = None) -> Quality:
    """Compute :class:`Quality` of a cut of edges; rows that travel are those of one synchronisation.

    In a synchronisation every mirror sends its partial sum to its master and gets the total back, so ``most_inner`` and
    ``most_outer`` count what one worker sends in both rounds: its mirrors' rows and its masters' (CDFGNN Table 3).
    ``edge_cut`` counts edges whose ends have masters on two workers; marginal are nodes with more than one copy;
    ``edge_imbalance`` counts edges between two nodes, since self loops go with masters.

    Args:
        cut: of this graph.
        graph: the whole graph.
        per_host: workers on one host; consecutive ranks share a host. Default: all on one.
    """
    workers = cut.workers
    per_host = per_host or workers
    node, worker = copies_of(cut, graph)
    master = cut.owner[node]
    gathered = torch.bincount(worker * workers + master, minlength=workers**2).view(workers, workers)
    gathered.fill_diagonal_(0)
    rows = gathered + gathered.T
    host = torch.arange(workers) // per_host
    inner = rows * (host[:, None] == host[None, :])
    outer = rows - inner
    number = torch.bincount(node, minlength=graph.num_nodes)
    owned = torch.bincount(cut.owner, minlength=workers)
    alone = torch.bincount(cut.owner[number == 1], minlength=workers)
    source, target = graph.indices.long(), torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    edges = torch.bincount(cut.part[source != target].long(), minlength=workers).double()
    apart = int((cut.owner[source] != cut.owner[target]).sum())
    nodes = max(graph.num_nodes, 1)
    return Quality(
        edge_cut=apart,
        edge_cut_share=apart / max(graph.num_edges, 1),
        remote_ratio=int(rows.sum()) / nodes,
        replication=len(node) / nodes,
        inner=int(inner.sum()),
        outer=int(outer.sum()),
        most_inner=int(inner.sum(1).max()),
        most_outer=int(outer.sum(1).max()),
        node_imbalance=float(owned.max() / owned.double().mean()) if graph.num_nodes else 1.0,
        edge_imbalance=float(edges.max() / edges.mean()) if float(edges.sum()) else 1.0,
        marginal_share=int((number > 1).sum()) / nodes,
        halo_rows=rows,
        rows_by_kind={"central": alone, "marginal": owned - alone, "mirrors": gathered.sum(1)},
    )
