"""One worker's share of a graph whose columns are split for aggregations (MixGCN, NeutronTP).

Nodes are split over workers for features, labels and dense layers; the matrix is not: each worker stores the structure
of the whole graph, because it aggregates all nodes on its columns. P workers store P copies, each of ``16 E`` bytes: 4
per edge for the structure and 4 for its weights, twice with the transpose, as one process does.

Letters: N owned nodes, V nodes, E edges of the graph, P workers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from gnnqlab.graph.edge_data import refuse_features
from gnnqlab.partition.block_shard import block_sizes
from gnnqlab.partition.cut import NodeCut, Partitioner, check_workers
from gnnqlab.partition.shard import Shard, build_shard, graph_fields
from gnnqlab.settings import check

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["ColumnCut", "ColumnShard", "WholeGraph", "build_column_shard"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnShard(Shard):
    """One worker's nodes, and the matrix of the whole graph.

    Fields of the base class: ``halo`` are all nodes of other workers and ``boundary`` all owned nodes, for every other
    worker; ``indptr`` and ``indices`` are the matrix ``(V, V)`` in local ids, owned nodes first; degrees are of all
    local nodes ``(V,)``.
    """

    cuts: ClassVar[str] = "columns"

    @property
    def num_edges(self) -> int:
        """Number of in-edges of owned nodes; all edges on a share of the columns are about as many multiplications."""
        return int(self.indptr[self.num_owned])

    @property
    def num_cut_edges(self) -> int:
        return int(self._of_copies[: self.num_edges].sum())

    def independent_edges(self, direction: str) -> int:
        """Return 0: rows are aggregated once all of their columns are received."""
        return 0


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnCut(NodeCut):
    """Node owners; each worker also stores the structure of the whole graph."""

    kind: ClassVar[str] = "columns"

    def shard(self, graph: Graph, rank: int) -> ColumnShard:
        return build_column_shard(graph, self.owner, rank, self.workers)


@dataclass(frozen=True, kw_only=True)
class WholeGraph(Partitioner):
    """Nodes in the order of their ids, in equal blocks; each worker also stores the structure of the whole graph.

    Every row is sent to every worker, in parts, so the traffic does not depend on the cut, and equal blocks balance it.

    Example:
        >>> import gnnqlab as gq
        >>> parts = gq.partition(gq.load("sbm:10,2,3"), WholeGraph(), workers=4)
        >>> parts.owner.tolist(), parts.shards[0].matrix("mean").num_rows
        ([0, 0, 0, 1, 1, 1, 2, 2, 3, 3], 10)
    """

    cuts: ClassVar[str] = "columns"

    def __post_init__(self) -> None:
        check(self)

    def cut(self, graph: Graph, workers: int) -> ColumnCut:
        """Assign every node to a worker.

        Raises:
            ValueError: if there are more workers than nodes.
        """
        check_workers(graph, workers)
        owner = torch.repeat_interleave(torch.arange(workers), block_sizes(graph.num_nodes, workers))  # (V,) int64
        return ColumnCut(owner=owner, workers=workers)


def build_column_shard(graph: Graph, owner: Tensor, rank: int, workers: int) -> ColumnShard:
    """Cut one worker's :class:`ColumnShard` out of a graph.

    Args:
        graph: the whole graph.
        owner: owner of every node, int64 ``(V,)``, in any order.
        rank: rank of the shard's worker.
        workers: P.

    Raises:
        ValueError: if ``owner`` does not fit the graph or holds a worker outside ``[0, P)``, or edges have features.
    """
    if graph.edge_features is not None:
        refuse_features("a column partition", "distributes edges without their features")
    edge_cut = build_shard(graph, owner, rank, workers)
    others = (owner != rank).nonzero().flatten()  # ascending
    halo = others[torch.argsort(owner[others], stable=True)]  # by owner; stable, so ascending within one
    nodes = torch.cat([edge_cut.owned, halo])  # (V,)
    local_ids = torch.empty(graph.num_nodes, dtype=torch.int32)  # global id -> local id
    local_ids[nodes] = torch.arange(graph.num_nodes, dtype=torch.int32)

    indptr = torch.zeros(graph.num_nodes + 1, dtype=torch.int64)
    indptr[1:] = graph.in_degrees[nodes].cumsum(0)
    # Index of each local edge in the graph: its row's offset there, minus the offset here, plus its index here.
    edge = torch.repeat_interleave(graph.indptr[nodes] - indptr[:-1], indptr.diff())
    edge += torch.arange(edge.numel())  # (E,)
    num_owned, is_peer = edge_cut.num_owned, torch.arange(workers) != rank
    # A receiver's halo has the nodes of one owner in ascending order, while owned nodes are central first.
    sent_rows = torch.argsort(edge_cut.owned)
    of_edge_cut = {field.name: getattr(edge_cut, field.name) for field in fields(Shard)}
    return ColumnShard(**{
        **of_edge_cut,
        **graph_fields(graph, rows=edge_cut.owned, nodes=nodes, edges=edge),
        "halo": halo,
        "halo_splits": owner.bincount(minlength=workers) * is_peer,
        "boundary": sent_rows.repeat(workers - 1),
        "boundary_splits": num_owned * is_peer,
        "indptr": indptr,
        "indices": local_ids[graph.indices.long()[edge]],
        "importance": torch.zeros(graph.num_nodes),
    })  # fmt: skip
