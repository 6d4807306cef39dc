"""One worker's share of a graph under a cut of edges (a vertex-cut).

Local ids: nodes whose only copy is here (central), masters that have mirrors elsewhere (marginal), then mirrors grouped
by the worker of their master. A shard's matrix has a row and a column for each of them: the sum of a row is whole for
central nodes, and one part of it for all others.

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
    """What is asked of a :class:`gnnqlab.partition.vertex_cut.VertexCut`."""

    @property
    def part(self) -> Tensor: ...
    @property
    def owner(self) -> Tensor: ...
    @property
    def workers(self) -> int: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplicaShard(Shard):
    """What one worker knows under a cut of edges: its edges, the nodes at their ends, and who else has a copy.

    Fields of the base class: ``owned`` are its masters ``(M,)``, ``halo`` its mirrors ``(H,)``, ``halo_splits`` mirrors
    by the worker of their master, ``boundary`` the masters that have a mirror, grouped by who has it, in that worker's
    order. Features, labels, masks, degrees and importance have a row for each copy ``(R,)``; masks are false on
    mirrors, so that a node's loss and score count once.
    """

    cuts: ClassVar[str] = "edges"
    version: ClassVar[int] = 3

    summed: Tensor
    """Which of the mirrors in ``boundary`` have a neighbour to sum where they are, bool ``(B,)``."""

    copies: Tensor
    """What each worker has of the node of each row, uint8 ``(R, P)``: 0 nothing, 1 a copy, 2 one with neighbours."""

    @property
    def row_ids(self) -> Tensor:
        return torch.cat([self.owned, self.halo])

    @property
    def num_cut_edges(self) -> int:
        """Local edges whose ends have masters on different workers."""
        elsewhere = torch.repeat_interleave(torch.arange(self.workers), self.halo_splits)
        master = torch.cat([torch.full((self.num_owned,), self.rank), elsewhere])
        target = torch.repeat_interleave(master, self.indptr.diff())
        return int((master[self.indices.long()] != target).sum())

    def independent_edges(self, direction: str) -> int:
        """Return how many terms of sums are computed while rows travel: backward, each waits for a total."""
        return int(self.indptr[self.num_central]) if direction == "forward" else 0

    @property
    def edges_of_copies(self) -> int:
        """None: sums travel, whose terms are all here."""
        return 0

    @property
    def rows_by_kind(self) -> dict[str, int]:
        return {"central": self.num_central, "marginal": self.num_marginal, "mirrors": self.num_halo}

    def plan(self, direction: str, device: torch.device | str = "cpu") -> Plan:
        """Return who sends which partial sums to whom: those of mirrors go to masters, in either direction.

        Raises:
            ValueError: if ``direction`` is neither ``forward`` nor ``backward``.
        """
        if direction not in ("forward", "backward"):
            raise ValueError(f"direction must be 'forward' or 'backward', got {direction!r}")
        mirrors, masters = self.mirror_routes(device), self._boundary_routes(device)
        return Plan(self.rank, self.workers, send=mirrors, receive=masters, accumulate=True, parts=True)

    def scatter(self, device: torch.device | str = "cpu") -> Plan:
        """Return who sends which totals to whom: those of masters go to mirrors, the same row to each of a node's."""
        mirrors, masters = self.mirror_routes(device), self._boundary_routes(device)
        return Plan(self.rank, self.workers, send=masters, receive=mirrors, accumulate=False, to_all=True)

    def side_by_side(self, device: torch.device | str = "cpu") -> Plan:
        """Return the plan of :meth:`plan` with the rows that come side by side, ``(B, D)``, in place of their sum."""
        firsts = [0, *itertools.accumulate(self.boundary_splits.tolist())]
        masters = []
        for route in self._boundary_routes(device):
            first = firsts[route.peer]
            rows = torch.arange(first, first + route.num_rows, device=device)
            masters.append(Route(peer=route.peer, rows=rows, ids=route.ids, first=first))
        mirrors = self.mirror_routes(device)
        return Plan(self.rank, self.workers, send=mirrors, receive=tuple(masters), accumulate=False, parts=True)

    def mirror_routes(self, device: torch.device | str = "cpu") -> tuple[Route, ...]:
        """Return the mirrors here by the worker of their masters; they stand behind the masters."""
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

    A copy of a node is wherever one of its edges lies, and where its master is.

    Args:
        graph: the whole graph.
        cut: a worker for each edge and a master for each node.
        rank: the worker whose share to build.

    Raises:
        ValueError: if another graph was cut.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> from gnnqlab.partition.vertex_cut import VertexCut
        >>> path = Graph.from_edges([0, 1], [1, 2], num_nodes=3, symmetrize=True, self_loops="remove")
        >>> halves = VertexCut(part=torch.tensor([0, 0, 1, 1]).int(), owner=torch.tensor([0, 0, 1]), workers=2)
        >>> [build_replica_shard(path, halves, rank).row_ids.tolist() for rank in (0, 1)]
        [[0, 1], [2, 1]]
    """
    if graph.edge_features is not None:
        refuse_features("a cut of edges (vertex-cut)", "shares out edges without their features")
    workers, num_nodes, degrees = cut.workers, graph.num_nodes, graph.in_degrees
    if cut.part.shape != (graph.num_edges,) or cut.owner.shape != (num_nodes,):
        raise ValueError(
            f"a cut must have a worker for each of {graph.num_edges} edges and a master for each of {num_nodes} nodes, "
            f"got {tuple(cut.part.shape)} and {tuple(cut.owner.shape)}; cut this graph"
        )
    source, part, owner = graph.indices.long(), cut.part.long(), cut.owner
    target = torch.repeat_interleave(torch.arange(num_nodes), degrees)
    receives = part * num_nodes + target
    pairs = torch.cat([receives, part * num_nodes + source, owner * num_nodes + torch.arange(num_nodes)])
    pairs = pairs.unique()  # (worker, node) of every copy, ascending
    holder, node = pairs // num_nodes, pairs % num_nodes
    copies = node.bincount(minlength=num_nodes)

    mine = owner == rank
    central = (mine & (copies == 1)).nonzero().flatten()
    marginal = (mine & (copies > 1)).nonzero().flatten()
    owned = torch.cat([central, marginal])
    here = node[holder == rank]
    halo = here[owner[here] != rank]
    halo = halo[torch.argsort(owner[halo], stable=True)]
    nodes = torch.cat([owned, halo])

    local = torch.full((num_nodes,), -1, dtype=torch.int32)
    local[nodes] = torch.arange(nodes.numel(), dtype=torch.int32)
    away = (holder != rank) & (owner[node] == rank)  # ascending by holder, then by node, as its holder has them
    boundary = node[away]
    summed = torch.isin(pairs[away], receives)

    known = torch.zeros(nodes.numel(), workers, dtype=torch.uint8)
    of_mine = local[node] >= 0
    filled = torch.isin(pairs[of_mine], receives)
    known[local[node[of_mine]].long(), holder[of_mine]] = 1 + filled.to(torch.uint8)

    edges = (part == rank).nonzero().flatten()
    rows = local[target[edges]].long()
    order = torch.argsort(rows, stable=True)
    indptr = torch.zeros(nodes.numel() + 1, dtype=torch.int64)
    indptr[1:] = rows.bincount(minlength=nodes.numel()).cumsum(0)

    begun = time.perf_counter()
    pool = (copies > 1).nonzero().flatten()
    important = torch.zeros(num_nodes)
    important[pool] = importance(degrees[pool])
    extract_s = time.perf_counter() - begun
    masters = torch.arange(nodes.numel()) < owned.numel()
    return ReplicaShard(
        **graph_fields(graph, rows=nodes, nodes=nodes, edges=edges[order], masters=masters),
        rank=rank,
        workers=workers,
        num_central=central.numel(),
        owned=owned,
        halo=halo,
        halo_splits=owner[halo].bincount(minlength=workers),
        boundary=local[boundary].long(),
        boundary_splits=holder[away].bincount(minlength=workers),
        summed=summed,
        copies=known,
        indptr=indptr,
        indices=local[source[edges[order]]],
        importance=important[nodes],
        extract_s=extract_s,
    )
