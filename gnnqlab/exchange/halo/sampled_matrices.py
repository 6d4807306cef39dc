"""Submatrices for sampled products: owned columns, and sampled halo columns.

Letters: N owned rows, H halo rows, M marginal rows, K sampled halo rows, E edges.

A product with all halo columns, with zeros for rows not sampled, takes as long for a small sample as for all rows. With
the sampled columns only it takes p times as long, and their edges are found in time proportional to their number.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["first_columns", "select_columns"]


def first_columns(adjacency: Adjacency, first_row: int, num_columns: int) -> Adjacency:
    """Return the submatrix of the rows from ``first_row`` on and the columns below ``num_columns``.

    Example:
        >>> matrix = Adjacency(torch.tensor([0, 1, 3]), torch.tensor([0, 2, 1], dtype=torch.int32), num_columns=3)
        >>> first = first_columns(matrix, 1, 2)
        >>> first.indptr.tolist(), first.indices.tolist()
        ([0, 1], [1])
    """
    # CSR: the edges of the rows from ``first_row`` on are the last ones.
    begin = int(adjacency.indptr[first_row])
    indices = adjacency.indices[begin:]
    mask = indices < num_columns  # (E,) bool, edges of these rows
    # Entry e of the prefix sum: number of selected edges before edge e, which maps old row pointers to new ones.
    num_before = torch.zeros(indices.numel() + 1, dtype=torch.int64, device=indices.device)  # (E + 1,)
    torch.cumsum(mask, 0, out=num_before[1:])
    weights = None if adjacency.weights is None else adjacency.weights[begin:][mask]
    indptr = num_before[adjacency.indptr[first_row:] - begin]  # (M + 1,)
    return Adjacency.of_checked(indptr, indices[mask], weights, num_columns=num_columns)


def select_columns(adjacency: Adjacency, first_row: int, columns: Tensor, factor: float) -> Adjacency:
    """Return the submatrix of the rows from ``first_row`` on and some columns, renumbered, weights times a factor.

    Builds the transpose first, from whole rows of ``adjacency.transposed``, without reading edges of other columns.

    Args:
        adjacency: matrix ``(N, N + H)``.
        first_row: first row with an edge from one of the columns, or an earlier row.
        columns: column indices, int64 ``(K,)``.
        factor: 1/p.

    Returns:
        Matrix ``(N - first_row, K)``, with its transpose cached.

    Example:
        >>> matrix = Adjacency(torch.tensor([0, 1, 3]), torch.tensor([0, 2, 1], dtype=torch.int32), num_columns=3)
        >>> kept = select_columns(matrix, 1, torch.tensor([2]), 10.0)
        >>> kept.indptr.tolist(), kept.indices.tolist(), kept.weights.tolist()
        ([0, 1], [0], [10.0])
    """
    transpose, columns = adjacency.transposed, columns.to(adjacency.device)
    first_edges = transpose.indptr[columns]  # (K,) first edge of each column in the transpose
    counts = transpose.indptr[columns + 1] - first_edges
    indptr = torch.zeros(columns.numel() + 1, dtype=torch.int64, device=columns.device)  # (K + 1,)
    torch.cumsum(counts, 0, out=indptr[1:])
    num_edges = int(indptr[-1])  # on a GPU the only synchronization, once per epoch
    # Edge indices into the whole transpose: consecutive within a column, with an offset per column.
    edges = torch.arange(num_edges, device=columns.device)
    edges += torch.repeat_interleave(first_edges - indptr[:-1], counts, output_size=num_edges)
    indices = transpose.indices[edges] - first_row  # (E of the sample,) row of each edge, from 0
    if transpose.weights is None:
        weights = torch.full((num_edges,), factor, device=columns.device)
    else:
        weights = transpose.weights[edges].mul_(factor)
    selected_transpose = Adjacency.of_checked(indptr, indices, weights, num_columns=adjacency.num_rows - first_row)
    # The transpose of the transpose is the matrix; both are cached, because backward needs the other one.
    matrix = selected_transpose.transposed
    return Adjacency.of_checked(*matrix.csr, num_columns=columns.numel(), turned=selected_transpose)
