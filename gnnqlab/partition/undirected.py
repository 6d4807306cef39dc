"""Undirected edges of a graph, each once, so that vertex-cut partitioners place both directions on one worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from gnnqlab.kernels.sparse.vertex_cut import Ends, choose_masters, empty_copies
from gnnqlab.partition.cut import check_host_count, check_workers
from gnnqlab.partition.vertex_cut import VertexCut

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["Undirected", "add_copies", "check_hosts", "undirected"]


@dataclass(frozen=True, eq=False)
class Undirected:
    """The undirected edges of a graph without self loops, and the undirected edge of each stored edge."""

    ends: Ends
    """Lower and higher end of each edge, in ascending order of both."""
    edge_ids: NDArray[np.int64]
    """Undirected edge of each stored edge, ``(E,)`` in the order of the graph's ``indices``; -1 for a self loop."""
    num_nodes: int

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Number of neighbours of each node, int64 ``(N,)``."""
        return np.bincount(self.ends.u, minlength=self.num_nodes) + np.bincount(self.ends.v, minlength=self.num_nodes)

    def in_order(self, order: NDArray[np.int64]) -> Ends:
        """Return the edges in another order."""
        return Ends(self.ends.u[order], self.ends.v[order])

    def cut(
        self, part: NDArray[np.int32], graph: Graph, workers: int, *, copies: NDArray[np.uint8] | None = None,
        hosts: int = 1,
    ) -> VertexCut:  # fmt: skip
        """Build the vertex-cut of a placement of edges, with masters by `choose_masters`.

        Args:
            part: worker of each undirected edge, int32.
            graph: the graph of these edges.
            workers: P.
            copies: replicas of each node as bits, uint8; computed from ``part`` if omitted.
            hosts: number of hosts; a master is on the host with most of its node's replicas. 1: on any worker.
        """
        if copies is None:
            copies = empty_copies(self.num_nodes, workers)
            add_copies(copies, self.ends, part)
        owner = choose_masters(copies, parts=workers, hosts=hosts)
        loop = self.edge_ids < 0
        # Self loops have index -1: they get the appended value, which the next line replaces.
        edge_parts = np.append(part, np.int32(0))[self.edge_ids]  # (E,)
        edge_parts[loop] = owner[graph.indices.numpy()[loop]]
        return VertexCut(part=torch.from_numpy(edge_parts), owner=torch.from_numpy(owner), workers=workers)


def undirected(graph: Graph) -> Undirected:
    """Collect the undirected edges of a graph.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> graph = sbm(40, 2, 4)
        >>> edges = undirected(graph)
        >>> 2 * len(edges.ends) + graph.num_nodes == graph.num_edges  # one self loop a node
        True
    """
    source = graph.indices.numpy().astype(np.int64)  # int64: keys reach N * N
    target = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), np.diff(graph.indptr.numpy()))
    key = np.minimum(source, target) * graph.num_nodes + np.maximum(source, target)  # (E,) equal for both directions
    no_loop = source != target
    del source, target  # frees 16 bytes per edge before the sort
    pairs, number = np.unique(key[no_loop], return_inverse=True)  # ascending pairs; index of each edge's pair
    edge_of = np.full(len(key), -1, np.int64)
    edge_of[no_loop] = number
    ends = Ends((pairs // graph.num_nodes).astype(np.int32), (pairs % graph.num_nodes).astype(np.int32))
    return Undirected(ends, edge_of, graph.num_nodes)


def add_copies(copies: NDArray[np.uint8], ends: Ends, part: NDArray[np.int32]) -> None:
    """Set the bits of the replicas required by edges on these parts."""
    for number in np.unique(part):
        mask = part == number
        nodes = np.unique(np.concatenate([ends.u[mask], ends.v[mask]]))
        copies[nodes, number // 8] |= np.uint8(1 << (number % 8))  # part i is bit i % 8 of byte i // 8


def check_hosts(graph: Graph, workers: int, hosts: int = 1) -> None:
    """Check that a graph can be partitioned among these workers and hosts.

    Raises:
        ValueError: if there are no workers, more workers than nodes, or workers are not a multiple of the hosts.
    """
    check_workers(graph, workers)
    check_host_count(workers, hosts)
