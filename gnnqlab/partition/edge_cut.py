"""Edge-cut partitioners: every node has one owner, edges between workers are cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from gnnqlab.partition.cut import NodeCut, Partitioner, check_workers
from gnnqlab.partition.metis import MetisEdges, metis_library

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["METIS", "Random", "fill_empty_parts"]

_QUICK_DEGREE = 8
"""Largest number of in-edges of a node for a quick cut."""


@dataclass(frozen=True, kw_only=True)
class METIS(Partitioner):
    """METIS k-way partition (Karypis & Kumar, 1997): few cut edges, balanced parts.

    The default of AdaQP, SYLVIE, PipeGCN and BNS-GCN. METIS comes from pymetis, with a fixed seed, so that cuts are
    reproducible across machines; if pymetis cannot be imported, or the graph has 2^31 edges or more, DGL's METIS is
    used, whose cuts differ between processes. ``cut.library`` names the library.
    """

    repeatable: ClassVar[bool] = False
    """False: METIS is slow, and DGL's differs from call to call, so the first cut is stored and reused."""

    objective: str = "cut"
    """Objective that METIS minimises: ``cut`` (cut edges) or ``vol`` (rows sent)."""
    balance_edges: bool = False
    """True to balance in-edges over the workers instead of nodes."""

    def __post_init__(self) -> None:
        if self.objective not in ("cut", "vol"):
            raise ValueError(f"METIS objective must be 'cut' or 'vol', got {self.objective!r}")

    def cut(self, graph: Graph, workers: int) -> NodeCut:
        """Assign every node to a worker.

        Args:
            graph: any graph; METIS treats it as undirected.
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
        # One part needs no library.
        if workers == 1:
            return NodeCut(owner=torch.zeros(graph.num_nodes, dtype=torch.int64), workers=1)
        return self._cut(graph, workers, max_degree=None)

    def quick_cut(self, graph: Graph, workers: int) -> NodeCut:
        """Assign every node by at most eight in-edges of each one, evenly spaced, in less time.

        On rmat:16,100 and sbm:100000,8,50, for 4 workers, it takes 0.48 and 0.62 of METIS's processor time, sends 0.04
        and 0.12 % more rows, and cuts 1 and 4 % more edges (``gnnqlab bench partitioners``).
        """
        check_workers(graph, workers)
        return self.cut(graph, workers) if workers == 1 else self._cut(graph, workers, max_degree=_QUICK_DEGREE)

    def _cut(self, graph: Graph, workers: int, *, max_degree: int | None) -> NodeCut:
        source, destination = graph.indices, torch.repeat_interleave(graph.in_degrees).to(torch.int32)  # (E,) int32
        # METIS does not allow self loops; with some, its cuts are worse and differ from call to call.
        taken = source != destination
        if max_degree is not None:
            degrees = graph.in_degrees[destination]  # (E,)
            place = torch.arange(source.numel()) - graph.indptr[destination]  # (E,), of an edge in its row
            # Of a longer row the edges at which the line from 0 to max_degree passes a whole number.
            taken &= (degrees <= max_degree) | (place * max_degree % degrees < max_degree)
        name, run_metis = metis_library(2 * int(taken.sum()))
        edges = MetisEdges(source[taken], destination[taken], graph.num_nodes)
        del source, destination, taken  # METIS needs many times the memory of the graph, so free these first
        owner = fill_empty_parts(run_metis(edges, workers, self.objective, self.balance_edges), workers)
        return NodeCut(owner=owner, workers=workers, library=name)

    def assign(self, graph: Graph, workers: int) -> Tensor:
        """Return the owners of a new cut, int64 ``(N,)``."""
        return self.cut(graph, workers).owner


def fill_empty_parts(owner: Tensor, workers: int) -> Tensor:
    """Move a node of the largest part into each empty part; partitioners leave parts empty if there are few nodes.

    Example:
        >>> fill_empty_parts(torch.tensor([0, 0, 0, 2]), 4).tolist()
        [1, 3, 0, 2]
    """
    sizes = owner.bincount(minlength=workers)
    empty_parts = (sizes == 0).nonzero().flatten().tolist()
    owner = owner.clone() if empty_parts else owner
    for part in empty_parts:
        largest = int(sizes.argmax())
        owner[(owner == largest).nonzero()[0]] = part  # the first node, so that the result is reproducible
        sizes[largest] -= 1
        sizes[part] += 1
    return owner


@dataclass(frozen=True, kw_only=True)
class Random(Partitioner):
    """Uniformly random owners in equal shares: the baseline with the largest halo."""

    seed: int = 0
    """Seed of the permutation."""

    def cut(self, graph: Graph, workers: int) -> NodeCut:
        """Assign every node to a worker; shares differ by at most one node.

        Raises:
            ValueError: if there are more workers than nodes.

        Example:
            >>> import gnnqlab as gq
            >>> Random(seed=0).cut(gq.load("sbm:10,2,3"), 2).owner.bincount().tolist()
            [5, 5]
        """
        check_workers(graph, workers)
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(graph.num_nodes, generator=generator)
        owner = torch.empty(graph.num_nodes, dtype=torch.int64)
        owner[order] = torch.arange(graph.num_nodes) % workers  # (N,) equal shares, up to one node
        return NodeCut(owner=owner, workers=workers)

    def assign(self, graph: Graph, workers: int) -> Tensor:
        """Return the owners, int64 ``(N,)``."""
        return self.cut(graph, workers).owner
