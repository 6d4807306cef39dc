"""HEP: parts grow from seeds over edges with a low-degree end; edges between hubs are streamed."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnnqlab.kernels.sparse.vertex_cut import Ends, empty_copies, place_by_worth
from gnnqlab.partition.cut import Partitioner
from gnnqlab.partition.undirected import add_copies, check_hosts, undirected

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.vertex_cut import VertexCut

__all__ = ["HEP", "grow", "incidence"]


@dataclass(frozen=True, kw_only=True)
class HEP(Partitioner):
    """HEP (Mayer & Jacobsen, SIGMOD 2021): NE++ for edges with an end of low degree, HDRF for those between hubs.

    A node is a hub if its degree exceeds τ times the mean degree. Each part but the last grows: the node x of its
    boundary with the fewest free edges moves to the core, x's neighbours join the boundary, and all their edges to
    boundary, core or hubs are assigned to the part until it is full; the remaining ones go to the next part. Free edges
    that remain, and then those between hubs, are assigned by HDRF's score with true degrees to parts below the limit.
    """

    cuts: ClassVar[str] = "edges"

    tau: float = 10.0
    """τ: 0 is HDRF alone, ``inf`` NE++ alone (the paper measures 100, 10 and 1)."""
    lam: float = 1.1
    """λ of HDRF's score."""

    def __post_init__(self) -> None:
        if not self.tau >= 0 or not self.lam >= 0:
            raise ValueError(f"HEP tau and lam must be at least 0, got {self.tau} and {self.lam}")

    def cut(self, graph: Graph, workers: int) -> VertexCut:
        """Assign every edge to a worker.

        Raises:
            ValueError: if there are more workers than nodes.

        Example:
            >>> import gnnqlab as gq
            >>> HEP().cut(gq.load("sbm:200,4,12"), 4).part.unique().tolist()
            [0, 1, 2, 3]
        """
        check_hosts(graph, workers)
        edges = undirected(graph)
        ends, degrees = edges.ends, edges.degrees
        hub = degrees > self.tau * (2 * len(ends) / max(graph.num_nodes, 1))  # (N,) bool; the mean degree is 2 E / N
        hub_edges = hub[ends.u] & hub[ends.v]  # (E,) bool
        # NE++: grow the parts over all edges but those between hubs.
        part = grow(ends, hub, hub_edges, workers)
        copies = empty_copies(graph.num_nodes, workers)  # (N, ceil(P / 8)) bits
        has_part = part >= 0
        add_copies(copies, Ends(ends.u[has_part], ends.v[has_part]), part[has_part])
        loads = np.bincount(part[has_part], minlength=workers).astype(np.int64)  # (P,)
        # HDRF: first the edges that no part took, then those between hubs, both with the replicas made so far.
        for indices in (np.flatnonzero(~has_part & ~hub_edges), np.flatnonzero(hub_edges)):
            # The limit exceeds an even share by one edge because NE++ fills parts up to E // P + 1 edges.
            part[indices] = place_by_worth(
                edges.in_order(indices), copies, loads, limit=math.ceil(len(ends) / workers) + 1, lam=self.lam, eps=1.0,
                degrees=degrees,
            )  # fmt: skip
        return edges.cut(part, graph, workers, copies=copies)


def incidence(ends: Ends, nodes: int, kept: NDArray[np.bool_]) -> list[list[tuple[int, int]]]:
    """Return each node's selected edges as ``(edge, other end)``, in the order of the edges.

    Args:
        ends: of the undirected edges.
        nodes: number of nodes N.
        kept: True for selected edges, ``(E,)``.
    """
    incident_edges: list[list[tuple[int, int]]] = [[] for _ in range(nodes)]
    edges = np.flatnonzero(kept)
    for edge, u, v in zip(edges.tolist(), ends.u[edges].tolist(), ends.v[edges].tolist()):
        incident_edges[u].append((edge, v))
        incident_edges[v].append((edge, u))
    return incident_edges


def grow(ends: Ends, hub: NDArray[np.bool_], between: NDArray[np.bool_], parts: int) -> NDArray[np.int32]:
    """Grow all parts but the last, one after another (NE++).

    Args:
        ends: of the undirected edges.
        hub: True for nodes that never move to a core and count as members of every core, ``(N,)``.
        between: True for edges between hubs, which are not assigned here, ``(E,)``.
        parts: P.

    Returns:
        The part of each edge, int32 ``(E,)``; -1 if unassigned.
    """
    state = _Growing(ends, hub, between, parts)
    for number in range(parts - 1):
        state.fill(number)
    return np.array(state.part, np.int32)


class _Growing:
    """State of the parts, which grow one after another."""

    def __init__(self, ends: Ends, hub: NDArray[np.bool_], between: NDArray[np.bool_], parts: int) -> None:
        nodes = len(hub)
        self.near = incidence(ends, nodes, ~between)  # edges between hubs are left to HDRF
        self.hub = hub.tolist()
        self.part = [-1] * len(ends)  # (E,); -1: free
        self.left = [len(each) for each in self.near]  # (N,) number of free edges
        # An even share of the edges that NE++ assigns.
        self.room = int((~between).sum()) // parts + 1
        self.loads = [0] * (parts + 1)
        self.joined = [-1] * nodes
        """Last part whose boundary or core the node joined."""
        self.core = [-1] * nodes  # (N,) part that has the node in its core
        self.heap: list[tuple[int, int]] = []  # boundary of the part that grows, as (free edges when pushed, node)
        self.seed = 0  # next candidate for a start node

    def fill(self, number: int) -> None:
        """Grow a part until it is full or no edge is free."""
        self.heap, self.seed = [], 0
        while self.loads[number] < self.room:
            if self.heap:
                edges_left, node = heapq.heappop(self.heap)
                if self.core[node] == number or edges_left != self.left[node]:
                    continue  # outdated entry: the node has moved to the core, or has fewer free edges now
            else:
                # The boundary is empty: start again at the next node with free edges that is no hub.
                while self.seed < len(self.hub) and (self.hub[self.seed] or not self.left[self.seed]):
                    self.seed += 1
                if self.seed == len(self.hub):
                    return
                node = self.seed
                self._join(node, number)
            self.core[node] = number
            for edge, neighbour in self.near[node]:
                if self.part[edge] < 0 and self.joined[neighbour] != number:
                    self._join(neighbour, number)

    def _join(self, node: int, number: int) -> None:
        """Move a node to the boundary, and assign its edges to boundary, core and hubs to the part."""
        self.joined[node] = number
        for edge, neighbour in self.near[node]:
            if self.part[edge] >= 0 or not (self.hub[neighbour] or self.joined[neighbour] == number):
                continue
            # The remaining edges of a full part go to the next one.
            target = number if self.loads[number] < self.room else number + 1
            self.part[edge] = target
            self.loads[target] += 1
            self.left[node] -= 1
            self.left[neighbour] -= 1
            # Its count has fallen: push it again; the entry with the higher count is skipped as outdated.
            if not self.hub[neighbour] and self.core[neighbour] != number and self.left[neighbour]:
                heapq.heappush(self.heap, (self.left[neighbour], neighbour))
        if self.left[node]:
            heapq.heappush(self.heap, (self.left[node], node))
