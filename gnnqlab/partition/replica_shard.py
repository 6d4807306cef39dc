"""One worker's shard of a graph under a vertex-cut.

Local ids: nodes with a single copy (central), masters with mirrors on other workers (marginal), then mirrors grouped by
the worker of their master. A shard's matrix has a row and a column for each of them: it gives the total of central
nodes, and a partial sum of all others.

Letters: M masters, H mirrors, R = M + H rows, E local edges, B mirrors of this worker's masters, P workers.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import torch
from torch import Tensor

from gnnqlab.graph.edge_data import refuse_features
from gnnqlab.partition.importance import importance
from gnnqlab.partition.plan import Plan, Route
from gnnqlab.partition.shard import Shard, graph_fields

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["ReplicaShard", "build_replica_shard"]


class _CutOfEdges(Protocol):
    """Interface of :class:`gnnqlab.partition.vertex_cut.VertexCut` used here, which avoids a cyclic import."""

    @property
    def part(self) -> Tensor: ...
    @property
    def owner(self) -> Tensor: ...
    @property
    def workers(self) -> int: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplicaShard(Shard):
    """One worker's shard of a vertex-cut: its edges, replicas of the nodes at their ends, ranks of other replicas.

    Fields of the base class: ``owned`` are its masters ``(M,)``, ``halo`` its mirrors ``(H,)``, ``halo_splits`` the
    number of mirrors per worker of their master, ``boundary`` the masters with mirrors, grouped by the mirror's worker,
    in that worker's order. Features, labels, masks, degrees and importance have a row for each replica ``(R,)``; masks
    are false on mirrors, so that a node's loss and score count once.
    """

    cuts: ClassVar[str] = "edges"
    version: ClassVar[int] = 4

    summed: Tensor
    """True for mirrors in ``boundary`` with an in-edge on the mirror's worker, bool ``(B,)``."""

    copies: Tensor
    """Replicas of each row's node on each worker, uint8 ``(R, P)``: 0 none, 1 without in-edges, 2 with in-edges."""

    @property
    def row_ids(self) -> Tensor:
        return torch.cat([self.owned, self.halo])

    @property
    def num_cut_edges(self) -> int:
        """Local edges whose ends have masters on different workers."""
        mirror_master = torch.repeat_interleave(torch.arange(self.workers), self.halo_splits)  # (H,)
        master = torch.cat([torch.full((self.num_owned,), self.rank), mirror_master])  # (R,)
        target = torch.repeat_interleave(master, self.indptr.diff())  # (R,) -> (E,)
        return int((master[self.indices.long()] != target).sum())

    def independent_edges(self, direction: str) -> int:
        """Count the edges that can be aggregated during communication; none backward, where sums need totals."""
        return int(self.indptr[self.num_central]) if direction == "forward" else 0  # central rows come first

    @property
    def edges_of_copies(self) -> int:
        """Zero: partial sums are exchanged, whose terms are all local."""
        return 0

    @property
    def rows_by_kind(self) -> dict[str, int]:
        return {"central": self.num_central, "marginal": self.num_marginal, "mirrors": self.num_halo}

    def plan(self, direction: str, device: torch.device | str = "cpu") -> Plan:
        """Return the plan that sends the partial sums of mirrors to their masters, in either direction.

        Raises:
            ValueError: if ``direction`` is neither ``forward`` nor ``backward``.
        """
        if direction not in ("forward", "backward"):
            raise ValueError(f"direction must be 'forward' or 'backward', got {direction!r}")
        mirrors, masters = self.mirror_routes(device), self._boundary_routes(device)
        return Plan(self.rank, self.workers, send=mirrors, receive=masters, accumulate=True, parts=True)

    def scatter(self, device: torch.device | str = "cpu") -> Plan:
        """Return the plan that sends the totals of masters to mirrors, an identical row to all mirrors of a node."""
        mirrors, masters = self.mirror_routes(device), self._boundary_routes(device)
        return Plan(self.rank, self.workers, send=masters, receive=mirrors, accumulate=False, to_all=True)

    def side_by_side(self, device: torch.device | str = "cpu") -> Plan:
        """Return :meth:`plan` with the received rows stacked, ``(B, D)``, instead of added up."""
        firsts = [0, *itertools.accumulate(self.boundary_splits.tolist())]  # (P + 1,) first stacked row of each peer
        masters = []
        for route in self._boundary_routes(device):
            first = firsts[route.peer]
            rows = torch.arange(first, first + route.num_rows, device=device)
            masters.append(Route(peer=route.peer, rows=rows, ids=route.ids, first=first))
        mirrors = self.mirror_routes(device)
        return Plan(self.rank, self.workers, send=mirrors, receive=tuple(masters), accumulate=False, parts=True)

    def mirror_routes(self, device: torch.device | str = "cpu") -> tuple[Route, ...]:
        """Return the routes of this worker's mirrors by the worker of their masters; local ids follow the masters."""
        splits = self.halo_splits.tolist()
        ids, firsts = self.halo.split(splits), [0, *itertools.accumulate(splits)]
        routes = []
        for peer in self._peers:
            first = self.num_owned + firsts[peer]
            rows = torch.arange(first, first + splits[peer])
            routes.append(Route(peer=peer, rows=rows.to(device), ids=ids[peer].to(device), first=first))
        return tuple(routes)


def build_replica_shard(graph: Graph, cut: _CutOfEdges, rank: int) -> ReplicaShard:
    """Cut one worker's :class:`ReplicaShard` out of a graph.

    A node has a replica on every worker with one of its edges, and on the worker of its master.

    Args:
        graph: the whole graph.
        cut: a worker for each edge and a master for each node.
        rank: rank of the shard's worker.

    Raises:
        ValueError: if the cut is of another graph, or edges have features.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> from gnnqlab.partition.vertex_cut import VertexCut
        >>> path = Graph.from_edges([0, 1], [1, 2], num_nodes=3, symmetrize=True, self_loops="remove")
        >>> halves = VertexCut(part=torch.tensor([0, 0, 1, 1]).int(), owner=torch.tensor([0, 0, 1]), workers=2)
        >>> [build_replica_shard(path, halves, rank).row_ids.tolist() for rank in (0, 1)]
        [[0, 1], [2, 1]]
    """
    if graph.edge_features is not None:
        refuse_features("a vertex-cut", "distributes edges without their features")
    workers, num_nodes, degrees = cut.workers, graph.num_nodes, graph.in_degrees
    if cut.part.shape != (graph.num_edges,) or cut.owner.shape != (num_nodes,):
        raise ValueError(
            f"a cut must have a worker for each of {graph.num_edges} edges and a master for each of {num_nodes} nodes, "
            f"got {tuple(cut.part.shape)} and {tuple(cut.owner.shape)}; cut this graph"
        )
    source, part, owner = graph.indices.long(), cut.part.long(), cut.owner
    target = torch.repeat_interleave(torch.arange(num_nodes), degrees)
    # One integer per pair of worker and node: unique() sorts by worker, then by node.
    receives = part * num_nodes + target  # (E,)
    pairs = torch.cat([receives, part * num_nodes + source, owner * num_nodes + torch.arange(num_nodes)])
    pairs = pairs.unique()  # (worker, node) of every copy, ascending
    holder, node = pairs // num_nodes, pairs % num_nodes
    copies = node.bincount(minlength=num_nodes)  # number of copies of each node

    is_owned = owner == rank
    central_ids = (is_owned & (copies == 1)).nonzero().flatten()
    marginal_ids = (is_owned & (copies > 1)).nonzero().flatten()
    owned_ids = torch.cat([central_ids, marginal_ids])
    local_nodes = node[holder == rank]
    halo = local_nodes[owner[local_nodes] != rank]
    halo = halo[torch.argsort(owner[halo], stable=True)]  # by the master's worker, ascending within one
    nodes = torch.cat([owned_ids, halo])

    local_ids = torch.full((num_nodes,), -1, dtype=torch.int32)  # global id -> local id
    local_ids[nodes] = torch.arange(nodes.numel(), dtype=torch.int32)
    # Ascending by holder, then by node: the order of the holder's own halo, so rows need no ids on the wire.
    is_mirror = (holder != rank) & (owner[node] == rank)
    boundary = node[is_mirror]
    is_summed = torch.isin(pairs[is_mirror], receives)  # (B,) otherwise the mirror's partial sum is zero

    replicas = torch.zeros(nodes.numel(), workers, dtype=torch.uint8)  # (R, P)
    is_local = local_ids[node] >= 0  # replicas, on any worker, of the nodes of this shard
    has_edges = torch.isin(pairs[is_local], receives)
    replicas[local_ids[node[is_local]].long(), holder[is_local]] = 1 + has_edges.to(torch.uint8)

    # CSR of this worker's edges by local row.
    edges = (part == rank).nonzero().flatten()
    rows = local_ids[target[edges]].long()
    order = torch.argsort(rows, stable=True)  # stable: a row's edges stay in the graph's order
    indptr = torch.zeros(nodes.numel() + 1, dtype=torch.int64)
    indptr[1:] = rows.bincount(minlength=nodes.numel()).cumsum(0)

    # SYLVIE ranks in-degrees among boundary nodes: under a vertex-cut these are the nodes with mirrors.
    start_s = time.perf_counter()
    pool = (copies > 1).nonzero().flatten()
    importances = torch.zeros(num_nodes)
    importances[pool] = importance(degrees[pool])
    extract_s = time.perf_counter() - start_s
    # A node counts in loss and score once, at its master.
    masters = torch.arange(nodes.numel()) < owned_ids.numel()  # (R,)
    return ReplicaShard(
        **graph_fields(graph, rows=nodes, nodes=nodes, edges=edges[order], masters=masters),
        rank=rank,
        workers=workers,
        num_central=central_ids.numel(),
        owned=owned_ids,
        halo=halo,
        halo_splits=owner[halo].bincount(minlength=workers),
        boundary=local_ids[boundary].long(),
        boundary_splits=holder[is_mirror].bincount(minlength=workers),
        summed=is_summed,
        copies=replicas,
        indptr=indptr,
        indices=local_ids[source[edges[order]]],
        importance=importances[nodes],
        extract_s=extract_s,
    )
