"""Edge-cut partitioners: every node is owned by one worker, edges between workers are cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from gnnqlab.partition.cut import NodeCut, Partitioner, check_workers
from gnnqlab.partition.metis import Edges, metis_library

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["METIS", "Random"]


@dataclass(frozen=True, kw_only=True)
class METIS(Partitioner):
    """METIS k-way partition (Karypis & Kumar, 1997): few cut edges, balanced parts.

    The default of AdaQP, SYLVIE, PipeGCN and BNS-GCN. pymetis brings it, with a seed, so that a graph is cut alike
    everywhere; where pymetis does not import, or the graph has 2^31 edges and more, DGL does, whose cuts differ from
    process to process. A cut says which one it was.
    """

    repeatable: ClassVar[bool] = False
    """A cut takes long, and DGL's METIS cuts the same graph differently from call to call: the first cut is kept."""

    objective: str = "cut"
    """What METIS minimises: ``cut`` (edges) or ``vol`` (rows that travel)."""
    balance_edges: bool = False
    """Balance the number of in-edges over the workers, in place of the number of nodes."""

    def __post_init__(self) -> None:
        if self.objective not in ("cut", "vol"):
            raise ValueError(f"METIS objective must be 'cut' or 'vol', got {self.objective!r}")

    def cut(self, graph: Graph, workers: int) -> NodeCut:
        """Share the nodes out.

        Args:
            graph: any graph; METIS sees it as undirected.
            workers: number of parts, at most the number of nodes.

        Raises:
            RuntimeError: if neither pymetis nor DGL can be used.
            ValueError: if there are more workers than nodes.

        Example:
            >>> import gnnqlab as gq
            >>> cut = METIS().cut(gq.load("sbm:200,4,12"), 4)
            >>> cut.library in ("pymetis", "dgl"), cut.owner.unique().tolist()
            (True, [0, 1, 2, 3])
        """
        check_workers(graph, workers)
        if workers == 1:
            return NodeCut(owner=torch.zeros(graph.num_nodes, dtype=torch.int64), workers=1)
        source, destination = graph.indices, torch.repeat_interleave(graph.in_degrees).to(torch.int32)
        # METIS does not allow self loops; given some, it cuts worse and differently at every call.
        between = source != destination
        name, ask = metis_library(2 * int(between.sum()))
        edges = Edges(source[between], destination[between], graph.num_nodes)
        del source, destination, between  # METIS takes many times the graph: nothing lies beside it for no reason
        return NodeCut(owner=ask(edges, workers, self.objective, self.balance_edges), workers=workers, library=name)

    def assign(self, graph: Graph, workers: int) -> Tensor:
        """Return the owners alone of a new cut, int64 ``(N,)``."""
        return self.cut(graph, workers).owner


@dataclass(frozen=True, kw_only=True)
class Random(Partitioner):
    """Uniformly random owners in equal shares: the worst cut, and the one that needs nothing."""

    seed: int = 0
    """Seed of the permutation."""

    def cut(self, graph: Graph, workers: int) -> NodeCut:
        """Share the nodes out; shares differ by at most one node.

        Raises:
            ValueError: if there are more workers than nodes.

        Example:
            >>> import gnnqlab as gq
            >>> Random(seed=0).cut(gq.load("sbm:10,2,3"), 2).owner.bincount().tolist()
            [5, 5]
        """
        check_workers(graph, workers)
        generator = torch.Generator().manual_seed(self.seed)
        shuffled = torch.randperm(graph.num_nodes, generator=generator)
        owner = torch.empty(graph.num_nodes, dtype=torch.int64)
        owner[shuffled] = torch.arange(graph.num_nodes) % workers
        return NodeCut(owner=owner, workers=workers)

    def assign(self, graph: Graph, workers: int) -> Tensor:
        """Return the owners alone, int64 ``(N,)``."""
        return self.cut(graph, workers).owner
