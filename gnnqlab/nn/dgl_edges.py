"""Edges of a DGL graph as adjacencies, sorted by target and in DGL's order."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["TypedEdges", "edges_of"]


class TypedEdges:
    """Edges of one type of a DGL graph, sorted by target and in DGL's order."""

    def __init__(self, gidx: Any) -> None:
        # A row per target; ``numbers`` are the edges' ids in DGL.
        _, columns, indptr, indices, numbers = gidx.adjacency_matrix_tensors(0, True, "csr")
        indptr, count = indptr.long(), len(indices)
        # DGL omits the ids if its order is that of the matrix.
        self.numbers: Tensor = numbers.long() if len(numbers) else torch.arange(count, device=indices.device)
        """DGL edge id of each edge, sorted by target, int64 ``(E,)``."""
        self.matrix = Adjacency(indptr, indices.int(), num_columns=columns)  # (targets, sources)
        self.incidence = Adjacency(indptr, self.numbers.int(), num_columns=count)  # (targets, E)

    def by_row(self, values: Tensor) -> Tensor:
        """Reorder edge values ``(E, K)`` from DGL's order to that of the matrix; differentiable."""
        return values.index_select(0, self.numbers)

    def by_number(self, values: Tensor) -> Tensor:
        """Reorder edge values ``(E, K)`` from the order of the matrix to DGL's; differentiable."""
        return torch.zeros_like(values).index_copy(0, self.numbers, values)


_known_edges: dict[int, TypedEdges] = {}
"""Edges by ``id()`` of DGL's graph index, which is not hashable; removed when the index is collected."""


def edges_of(gidx: Any) -> TypedEdges:
    """Return the edges of DGL's graph index of one edge type, cached."""
    edges = _known_edges.get(id(gidx))
    if edges is None:
        edges = _known_edges[id(gidx)] = TypedEdges(gidx)
        # Removed with the index, since a later object may have the same id().
        weakref.finalize(gidx, _known_edges.pop, id(gidx), None)
    return edges
