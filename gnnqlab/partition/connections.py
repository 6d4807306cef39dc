"""Connections of a vertex-cut (CDFGNN Table 3), counted from cut, graph and hosts without building shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.partition.host_copies import representatives
from gnnqlab.partition.quality import Quality

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.vertex_cut import VertexCut

__all__ = ["AggregatedRows", "copies_of", "count_aggregated_rows", "measure_vertex_cut"]


def copies_of(cut: VertexCut, graph: Graph) -> tuple[Tensor, Tensor]:
    """Return node and worker of every copy, masters and mirrors, int64, sorted by worker, then by node.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.partition.streamed import RandomEdges
        >>> graph = sbm(20, 2, 4)
        >>> nodes, workers = copies_of(RandomEdges().cut(graph, 2), graph)
        >>> 20 <= len(nodes) <= 40, workers.unique().tolist()
        (True, [0, 1])
    """
    nodes = graph.num_nodes
    part, source = cut.part.long(), graph.indices.long()  # (E,), (E,)
    target = torch.repeat_interleave(torch.arange(nodes), graph.in_degrees)
    # A row per worker, so that nonzero() returns the copies sorted by worker, then by node.
    has_copy = torch.zeros(cut.workers, nodes, dtype=torch.bool)  # (P, N)
    has_copy[part, source] = True
    has_copy[part, target] = True
    has_copy[cut.owner, torch.arange(nodes)] = True  # nodes without edges have a copy, too
    worker, node = has_copy.nonzero(as_tuple=True)
    return node, worker


@dataclass(frozen=True, kw_only=True)
class AggregatedRows:
    """Rows sent in one synchronisation with host aggregation, in both directions."""

    inner: int
    """Rows within hosts."""
    outer: int
    """Rows between hosts: one each way for each pair of a node and a host that has a mirror but not the master."""
    most_inner: int
    """Largest number of rows that one worker sends within its host."""
    most_outer: int
    """Largest number of rows that one worker sends to other hosts."""


def count_aggregated_rows(cut: VertexCut, graph: Graph, *, per_host: int) -> AggregatedRows:
    """Count the rows exchanged with host aggregation; :func:`measure_vertex_cut` counts those without it.

    CDFGNN counts its outer connections without host aggregation: by its Table 3, for 2 hosts with 8 workers each and
    γ = 0, a node has 1.2 mirrors on other hosts on average, (replication factor - 1) · outer / (inner + outer). With
    host aggregation it would have at most 1, on the only other host.

    Args:
        cut: a vertex-cut of ``graph``.
        graph: the whole graph.
        per_host: number of workers per host; consecutive ranks share a host.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.partition.streamed import RandomEdges
        >>> graph = sbm(40, 2, 8)
        >>> cut = RandomEdges().cut(graph, 4)
        >>> met, plain = count_aggregated_rows(cut, graph, per_host=2), measure_vertex_cut(cut, graph, per_host=2)
        >>> met.outer < plain.outer, met.inner + met.outer == plain.inner + plain.outer
        (True, True)
    """
    workers, nodes = cut.workers, graph.num_nodes
    node, worker = copies_of(cut, graph)
    has_copy = torch.zeros(nodes, workers, dtype=torch.bool)
    has_copy[node, worker] = True
    representative = representatives(torch.arange(nodes), has_copy, cut.owner, workers // per_host)  # (N, hosts)
    relay = representative[node, worker // per_host]  # (copies,) the representative on the host of each copy
    # Within a host copies send to their representative, which alone sends to the master.
    receiver = torch.where(relay == worker, cut.owner[node], relay)
    # Rows [sender, receiver], (P, P).
    gathered_rows = torch.bincount(worker * workers + receiver, minlength=workers**2).view(workers, workers)
    gathered_rows.fill_diagonal_(0)  # a worker sends nothing to itself
    # Totals take the way back, between the same pairs of workers.
    rows, host = gathered_rows + gathered_rows.T, torch.arange(workers) // per_host
    inner = rows * (host[:, None] == host[None, :])
    outer = rows - inner
    # Sums of rows: what one worker sends.
    sums = int(inner.sum()), int(outer.sum()), int(inner.sum(1).max()), int(outer.sum(1).max())
    return AggregatedRows(inner=sums[0], outer=sums[1], most_inner=sums[2], most_outer=sums[3])


def measure_vertex_cut(cut: VertexCut, graph: Graph, *, per_host: int | None = None) -> Quality:
    """Compute the :class:`Quality` of a vertex-cut; exchanged rows are those of one synchronisation.

    In a synchronisation every mirror sends its partial sum to its master and receives the total, so ``most_inner`` and
    ``most_outer`` count the rows that one worker sends in both rounds, for its mirrors and its masters (CDFGNN Table
    3). ``edge_cut`` counts edges whose ends have masters on two workers; nodes with more than one copy are marginal;
    ``edge_imbalance`` counts edges between two nodes, since self loops are placed with masters.

    Args:
        cut: a vertex-cut of ``graph``.
        graph: the whole graph.
        per_host: number of workers per host; consecutive ranks share a host. Default: all on one host.
    """
    workers = cut.workers
    per_host = per_host or workers
    node, worker = copies_of(cut, graph)
    master = cut.owner[node]
    # Rows [mirror's worker, master's worker], (P, P).
    gathered_rows = torch.bincount(worker * workers + master, minlength=workers**2).view(workers, workers)
    gathered_rows.fill_diagonal_(0)  # masters send no partial sum to themselves
    rows = gathered_rows + gathered_rows.T  # mirrors send partial sums, masters send totals
    host = torch.arange(workers) // per_host
    inner = rows * (host[:, None] == host[None, :])  # rows between workers of one host
    outer = rows - inner
    number = torch.bincount(node, minlength=graph.num_nodes)  # (N,) copies of each node
    # A master sends the same total to all of its mirrors; partial sums differ, so none is repeated.
    repeated = int((number - 2).clamp(min=0).sum())
    far = worker // per_host != master // per_host  # mirrors on other hosts than their master
    far_hosts = (node[far] * (workers // per_host) + worker[far] // per_host).unique()  # (node, host) as one key
    repeated_outer = int(far.sum()) - far_hosts.numel()
    num_owned = torch.bincount(cut.owner, minlength=workers)
    num_central = torch.bincount(cut.owner[number == 1], minlength=workers)  # (P,) masters without mirrors
    source, target = graph.indices.long(), torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    edges = torch.bincount(cut.part[source != target].long(), minlength=workers).double()  # (P,)
    cut_edges = int((cut.owner[source] != cut.owner[target]).sum())
    nodes = max(graph.num_nodes, 1)
    return Quality(
        edge_cut=cut_edges,
        edge_cut_share=cut_edges / max(graph.num_edges, 1),
        remote_ratio=int(rows.sum()) / nodes,
        replication=len(node) / nodes,
        inner=int(inner.sum()),
        outer=int(outer.sum()),
        most_inner=int(inner.sum(1).max()),
        most_outer=int(outer.sum(1).max()),
        repeated=repeated,
        repeated_outer=repeated_outer,
        node_imbalance=float(num_owned.max() / num_owned.double().mean()) if graph.num_nodes else 1.0,
        edge_imbalance=float(edges.max() / edges.mean()) if float(edges.sum()) else 1.0,
        marginal_share=int((number > 1).sum()) / nodes,
        halo_rows=rows,
        rows_by_kind={"central": num_central, "marginal": num_owned - num_central, "mirrors": gathered_rows.sum(1)},
    )
