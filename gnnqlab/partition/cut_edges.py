"""Edges that cross an edge-cut, found once for the shards of all workers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from gnnqlab.partition.importance import importance

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["CutEdges", "distinct"]


@dataclass(frozen=True, kw_only=True, eq=False)
class CutEdges:
    """Ends of the edges between workers, in the order of the graph, and the importance of boundary nodes.

    Letters: N nodes of the graph, C cut edges.
    """

    source: Tensor
    """Global ids, int64 ``(C,)``."""
    destination: Tensor
    """Global ids, int64 ``(C,)``."""
    importance: Tensor
    """Importance of each boundary node, 0 for other nodes, float32 ``(N,)``."""
    extract_s: float
    """Seconds in which the importance was computed."""

    @classmethod
    def from_owner(cls, graph: Graph, owner: Tensor) -> Self:
        """Find the cut edges of a graph whose nodes have owners, int64 ``(N,)``."""
        degrees = graph.in_degrees
        source_owner = owner[graph.indices]  # (E,)
        position = (source_owner != torch.repeat_interleave(owner, degrees)).nonzero().flatten()  # (C,), of E
        source = graph.indices[position].long()
        # The row of a position is the last one that begins at it or before it; empty rows begin with the next one.
        destination = torch.searchsorted(graph.indptr, position, right=True) - 1
        start_s = time.perf_counter()
        boundary = distinct(source, graph.num_nodes)  # boundary nodes of all workers
        importances = torch.zeros(graph.num_nodes)
        importances[boundary] = importance(degrees[boundary])  # ranks among all boundary nodes of the graph
        extract_s = time.perf_counter() - start_s
        return cls(source=source, destination=destination, importance=importances, extract_s=extract_s)


def distinct(ids: Tensor, num_nodes: int) -> Tensor:
    """Return the distinct ids in ascending order, faster than by sorting.

    Example:
        >>> distinct(torch.tensor([3, 1, 3]), 5).tolist()
        [1, 3]
    """
    is_present = torch.zeros(num_nodes, dtype=torch.bool)
    is_present[ids] = True
    return is_present.nonzero().flatten()
