"""Parts of a worker's matrix that a sampled product runs over: owned columns, and the halo columns that were kept.

Letters: N owned rows, H halo rows, M marginal rows, K halo rows kept.

A product with all halo columns, rows left out being zero, takes as long for a small sample as for all rows. Over those
that were kept it takes p times as long, and their edges are found by column, in time that grows with them alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["first_columns", "kept_columns"]


def first_columns(adjacency: Adjacency, first_row: int, num_columns: int) -> Adjacency:
    """Return the rows from ``first_row`` on, with their edges from columns below ``num_columns`` only.

    Example:
        >>> matrix = Adjacency(torch.tensor([0, 1, 3]), torch.tensor([0, 2, 1], dtype=torch.int32), num_columns=3)
        >>> first = first_columns(matrix, 1, 2)
        >>> first.indptr.tolist(), first.indices.tolist()
        ([0, 1], [1])
    """
    begin = int(adjacency.indptr[first_row])
    indices = adjacency.indices[begin:]
    chosen = indices < num_columns
    counted = torch.zeros(indices.numel() + 1, dtype=torch.int64, device=indices.device)
    torch.cumsum(chosen, 0, out=counted[1:])
    weights = None if adjacency.weights is None else adjacency.weights[begin:][chosen]
    indptr = counted[adjacency.indptr[first_row:] - begin]
    return Adjacency.of_checked(indptr, indices[chosen], weights, num_columns=num_columns)


def kept_columns(adjacency: Adjacency, first_row: int, columns: Tensor, factor: float) -> Adjacency:
    """Return the rows from ``first_row`` on and some columns, counted anew, weights times a factor.

    The transpose comes first, as whole runs of ``adjacency.transposed``: edges of other columns are never looked at.

    Args:
        adjacency: ``(N, N + H)``.
        first_row: no row before it has an edge from one of the columns.
        columns: int64 ``(K,)``.
        factor: 1/p.

    Returns:
        ``(N - first_row, K)``, its transpose at hand.

    Example:
        >>> matrix = Adjacency(torch.tensor([0, 1, 3]), torch.tensor([0, 2, 1], dtype=torch.int32), num_columns=3)
        >>> kept = kept_columns(matrix, 1, torch.tensor([2]), 10.0)
        >>> kept.indptr.tolist(), kept.indices.tolist(), kept.weights.tolist()
        ([0, 1], [0], [10.0])
    """
    whole, columns = adjacency.transposed, columns.to(adjacency.device)
    first = whole.indptr[columns]
    counts = whole.indptr[columns + 1] - first
    indptr = torch.zeros(columns.numel() + 1, dtype=torch.int64, device=columns.device)
    torch.cumsum(counts, 0, out=indptr[1:])
    num_edges = int(indptr[-1])  # on a GPU the one wait, once an epoch
    edges = torch.arange(num_edges, device=columns.device)
    edges += torch.repeat_interleave(first - indptr[:-1], counts, output_size=num_edges)
    indices = whole.indices[edges] - first_row
    if whole.weights is None:
        weights = torch.full((num_edges,), factor, device=columns.device)
    else:
        weights = whole.weights[edges].mul_(factor)
    turned = Adjacency.of_checked(indptr, indices, weights, num_columns=adjacency.num_rows - first_row)
    plain = turned.transposed
    return Adjacency.of_checked(*plain.csr, num_columns=columns.numel(), turned=turned)
