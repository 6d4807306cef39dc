"""DNE: a vertex-cut whose parts grow in parallel, each from its own seeds."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnnqlab.kernels.sparse.vertex_cut import Ends
from gnnqlab.partition.cut import Partitioner
from gnnqlab.partition.hep import incidence
from gnnqlab.partition.undirected import check_hosts, undirected

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.vertex_cut import VertexCut

__all__ = ["DNE"]


@dataclass(frozen=True, kw_only=True)
class DNE(Partitioner):
    """DNE (Hanai et al., PVLDB 2019), its rounds in one process: P parts grow at once.

    In a round each part below its limit selects the max(1, ``λ |boundary|``) nodes of its boundary with the fewest free
    edges, or a random seed, and takes their free edges; the requests of all parts are served in random order. Then
    edges whose both ends have copies on the same part go to the least loaded such part. The limit is ``balance`` times
    an even share.
    """

    cuts: ClassVar[str] = "edges"

    lam: float = 0.1
    """λ: share of the boundary that moves to the core per round."""
    balance: float = 1.1
    """Maximum number of edges of a growing part, relative to an even share (1.01 in the released code)."""
    seed: int = 0
    """Random seed of the start nodes and of the order of requests."""

    def __post_init__(self) -> None:
        if not 0 <= self.lam <= 1 or not self.balance >= 1:
            raise ValueError(f"DNE lam must lie in [0, 1] and balance be at least 1, got {self.lam} and {self.balance}")

    def cut(self, graph: Graph, workers: int) -> VertexCut:
        """Assign every edge to a worker.

        Raises:
            ValueError: if there are more workers than nodes.

        Example:
            >>> import gnnqlab as gq
            >>> DNE().cut(gq.load("sbm:200,4,12"), 4).part.unique().tolist()
            [0, 1, 2, 3]
        """
        check_hosts(graph, workers)
        edges = undirected(graph)
        # P parts of this size hold all edges, so in every round some part takes a free edge, and the loop ends.
        room = math.ceil(self.balance * len(edges.ends) / workers)
        growth = _Growth(edges.ends, graph.num_nodes, workers, room, np.random.default_rng(self.seed))
        while growth.free:
            growth.round(self.lam)
        return edges.cut(np.array(growth.part, np.int32), graph, workers)


class _Growth:
    """State of the growing parts; the set of parts with a copy of a node is a bit mask."""

    def __init__(self, ends: Ends, nodes: int, parts: int, room: int, rng: np.random.Generator) -> None:
        self.near = incidence(ends, nodes, np.ones(len(ends), bool))
        self.part = [-1] * len(ends)  # (E,); -1: free
        self.left = [len(each) for each in self.near]  # (N,) number of free edges
        self.copies = [0] * nodes
        self.loads = [0] * parts
        # A heap per part, of pairs (free edges when pushed, node); entries with another number than now are outdated.
        self.boundary: list[list[tuple[int, int]]] = [[] for _ in range(parts)]
        self.sizes = [0] * parts  # (P,) nodes of the boundary with free edges
        self.moved = [0] * nodes
        """Bit mask of the parts with the node in their core."""
        self.free, self.room, self.rng = len(ends), room, rng
        self.seeds: NDArray[np.int64] = rng.permutation(nodes)  # (N,) order in which start nodes are tried
        self.next_seed = 0

    def round(self, lam: float) -> None:
        """Expand every part below its limit by some of its boundary; then assign edges between two of its nodes."""
        requests = [
            (node, number)
            for number in range(len(self.loads)) if self.loads[number] < self.room
            for node in self._select_nodes(number, lam)
        ]  # fmt: skip
        new_nodes: list[int] = []
        for index in self.rng.permutation(len(requests)).tolist():  # random order: no part is preferred
            node, number = requests[index]
            for edge, neighbour in self.near[node]:
                if self.part[edge] < 0 and self.loads[number] < self.room:
                    # Nodes that get their first edge on this part.
                    new_nodes += [end for end in (node, neighbour) if not self.copies[end] >> number & 1]
                    self._give(edge, node, neighbour, number)
        # Edges that need no further copy: both ends are on one part already.
        for node in dict.fromkeys(new_nodes):
            for edge, neighbour in self.near[node]:
                parts = self.copies[node] & self.copies[neighbour]
                if self.part[edge] >= 0 or not parts:
                    continue
                # The least loaded part with a copy of both ends.
                load, number = min((load, number) for number, load in enumerate(self.loads) if parts >> number & 1)
                if load < self.room:
                    self._give(edge, node, neighbour, number)

    def _select_nodes(self, number: int, lam: float) -> list[int]:
        """Return the nodes of a part's boundary with the fewest free edges, or a seed."""
        heap, bit = self.boundary[number], 1 << number
        quota = max(1, int(lam * self.sizes[number]))
        nodes: list[int] = []
        while heap and len(nodes) < quota:
            edges_left, node = heapq.heappop(heap)
            # Nodes of this part's core cannot grow it; those without free edges have no entry with their number.
            if edges_left == self.left[node] and not self.moved[node] & bit:
                self.moved[node] |= bit
                self.sizes[number] -= 1
                nodes.append(node)
        if not nodes:
            # The boundary is empty: start at the next node with free edges, which only decrease, so none is missed.
            while self.next_seed < len(self.seeds) and not self.left[self.seeds[self.next_seed]]:
                self.next_seed += 1
            nodes = self.seeds[self.next_seed : self.next_seed + 1].tolist()
        return nodes

    def _give(self, edge: int, node: int, neighbour: int, number: int) -> None:
        self.part[edge] = number
        self.loads[number] += 1
        self.free -= 1
        for end in (node, neighbour):
            old_parts = self.copies[end]
            self.copies[end] |= 1 << number
            self.left[end] -= 1
            # Every boundary with this node gets its new number, so that the fewest free edges come first.
            for part in range(len(self.loads)):
                if self.copies[end] & ~self.moved[end] & (1 << part):
                    self.sizes[part] += bool(self.left[end]) - (old_parts >> part & 1)
                    if self.left[end]:  # a node without free edges leaves the boundary
                        heapq.heappush(self.boundary[part], (self.left[end], end))
