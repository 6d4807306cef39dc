"""A DGL graph's edges as adjacencies, in the order of targets and in DGL's."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["Edges", "edges_of"]


class Edges:
    """The edges of a DGL graph of one type, by target and in DGL's order."""

    def __init__(self, gidx: Any) -> None:
        _, columns, indptr, indices, numbers = gidx.adjacency_matrix_tensors(0, True, "csr")
        indptr, count = indptr.long(), len(indices)
        self.numbers: Tensor = numbers.long() if len(numbers) else torch.arange(count, device=indices.device)
        """Of each edge by target, its number in DGL."""
        self.matrix = Adjacency(indptr, indices.int(), num_columns=columns)
        self.incidence = Adjacency(indptr, self.numbers.int(), num_columns=count)

    def by_row(self, values: Tensor) -> Tensor:
        """Put numbers of edges in the order of the matrix; differentiable."""
        return values.index_select(0, self.numbers)

    def by_number(self, values: Tensor) -> Tensor:
        """Put numbers of edges in DGL's order; differentiable."""
        return torch.zeros_like(values).index_copy(0, self.numbers, values)


_known_edges: dict[int, Edges] = {}
"""By the identity of DGL's graph, which cannot be hashed, as long as it lives."""


def edges_of(gidx: Any) -> Edges:
    """Return the edges of DGL's graph index of one type, found once."""
    known = _known_edges.get(id(gidx))
    if known is None:
        known = _known_edges[id(gidx)] = Edges(gidx)
        weakref.finalize(gidx, _known_edges.pop, id(gidx), None)
    return known
