"""Streaming vertex-cut partitioners, which read each edge once: HDRF and random placement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gnnqlab.kernels.sparse.vertex_cut import empty_copies, place_by_worth
from gnnqlab.partition.cut import Partitioner
from gnnqlab.partition.undirected import check_hosts, undirected

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.vertex_cut import VertexCut

__all__ = ["HDRF", "RandomEdges"]


@dataclass(frozen=True, kw_only=True)
class HDRF(Partitioner):
    """HDRF (Petroni et al., CIKM 2015): stream edges to parts with a replica of an end, preferably the low-degree end.

    Edge (u, v) goes to the part k with the highest [k has u] (2 - θ_u) + [k has v] (2 - θ_v) + λ (max - ℓ_k) / (ε + max
    - min), where θ_u = δ_u / (δ_u + δ_v) with the degrees δ so far, and ℓ are the parts' edges; the first on a tie.
    """

    cuts: ClassVar[str] = "edges"

    lam: float = 1.0
    """λ: weight of the balance."""
    eps: float = 1.0
    """ε: keeps the balance finite."""
    seed: int = 0
    """Random seed of the order of edges."""

    def __post_init__(self) -> None:
        if not self.lam >= 0 or not self.eps > 0:
            raise ValueError(f"HDRF lam must be at least 0 and eps above 0, got {self.lam} and {self.eps}")

    def cut(self, graph: Graph, workers: int) -> VertexCut:
        """Assign every edge to a worker; errors as :meth:`RandomEdges.cut`.

        Example:
            >>> import gnnqlab as gq
            >>> HDRF().cut(gq.load("sbm:200,4,12"), 4).part.unique().tolist()
            [0, 1, 2, 3]
        """
        check_hosts(graph, workers)
        edges, copies = undirected(graph), empty_copies(graph.num_nodes, workers)
        order = np.random.default_rng(self.seed).permutation(len(edges.ends))  # (E,) order of the stream
        part = np.empty(len(order), np.int32)
        # No part has a limit: the balance term alone spreads the edges.
        part[order] = place_by_worth(  # back to the order of the undirected edges
            edges.in_order(order), copies, np.zeros(workers, np.int64), limit=len(order), lam=self.lam, eps=self.eps
        )
        return edges.cut(part, graph, workers, copies=copies)


@dataclass(frozen=True, kw_only=True)
class RandomEdges(Partitioner):
    """Uniformly random workers of edges, in equal shares: the baseline with the most replicas."""

    cuts: ClassVar[str] = "edges"

    seed: int = 0
    """Seed of the permutation."""

    def cut(self, graph: Graph, workers: int) -> VertexCut:
        """Assign every edge to a worker; shares differ by at most one undirected edge.

        Raises:
            ValueError: if there are more workers than nodes.

        Example:
            >>> import gnnqlab as gq
            >>> RandomEdges().cut(gq.load("sbm:200,4,12"), 4).part.unique().tolist()
            [0, 1, 2, 3]
        """
        check_hosts(graph, workers)
        edges = undirected(graph)
        part = np.empty(len(edges.ends), np.int32)
        part[np.random.default_rng(self.seed).permutation(len(part))] = np.arange(len(part)) % workers
        return edges.cut(part, graph, workers)
