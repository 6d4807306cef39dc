"""What a cut of either kind costs in connections (CDFGNN Table 3), asked of cut, graph and hosts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.partition.host_aggregation import representatives
from gnnqlab.partition.quality import Quality

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.vertex_cut import VertexCut

__all__ = ["Met", "copies_of", "count_met", "measure_vertex_cut"]


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


@dataclass(frozen=True, kw_only=True)
class Met:
    """Rows of one synchronisation where the copies of a node meet on their host, both ways."""

    inner: int
    outer: int
    """One for each pair of node and host other than its master's, there and back."""
    most_inner: int
    """Of one worker's sent rows, as ``most_outer``."""
    most_outer: int


def count_met(cut: VertexCut, graph: Graph, *, per_host: int) -> Met:
    """Count the rows that travel where copies meet, as :func:`measure_vertex_cut` counts those of copies that do not.

    CDFGNN's outer connections are of copies that do not meet: in the rows with γ = 0 of its Table 3 for 2 hosts x 8,
    outer / (inner + outer) of the RF - 1 mirrors of a node is 1.2, and distinct other hosts are 1 at most.

    Args:
        cut: of this graph.
        graph: the whole graph.
        per_host: workers on one host; consecutive ranks share a host.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.partition.streamed import RandomEdges
        >>> graph = sbm(40, 2, 8)
        >>> cut = RandomEdges().cut(graph, 4)
        >>> met, plain = count_met(cut, graph, per_host=2), measure_vertex_cut(cut, graph, per_host=2)
        >>> met.outer < plain.outer, met.inner + met.outer == plain.inner + plain.outer
        (True, True)
    """
    workers, nodes = cut.workers, graph.num_nodes
    node, worker = copies_of(cut, graph)
    held = torch.zeros(nodes, workers, dtype=torch.bool)
    held[node, worker] = True
    stands = representatives(torch.arange(nodes), held, cut.owner, workers // per_host)
    meets_at = stands[node, worker // per_host]
    goes_to = torch.where(meets_at == worker, cut.owner[node], meets_at)
    gathered = torch.bincount(worker * workers + goes_to, minlength=workers**2).view(workers, workers)
    gathered.fill_diagonal_(0)
    rows, host = gathered + gathered.T, torch.arange(workers) // per_host
    inner = rows * (host[:, None] == host[None, :])
    outer = rows - inner
    sums = int(inner.sum()), int(outer.sum()), int(inner.sum(1).max()), int(outer.sum(1).max())
    return Met(inner=sums[0], outer=sums[1], most_inner=sums[2], most_outer=sums[3])


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
