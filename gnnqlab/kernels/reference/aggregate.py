"""Weighted neighbour sums in plain PyTorch: the reference implementation of the compiled kernel.

Sums are computed by PyTorch's CSR product; its warning about a beta feature is suppressed.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

__all__ = ["spmm", "transpose"]


def spmm(
    indptr: Tensor,
    indices: Tensor,
    weights: Tensor | None,
    x_ND: Tensor,
    halo_HD: Tensor | None,
    *,
    start: int,
    stop: int,
    scales: tuple[Tensor, Tensor | None] | None = None,
) -> Tensor:
    """Sum the neighbours of rows ``start`` to ``stop``: ``out[i] = sum_e w_e s[indices_e]``.

    ``s`` holds the rows of ``x``, then those of ``halo``. Rows of 16 or 8 bits are converted to float32
    first (``scales`` multiplies each int8 row); float64 is preserved.

    Returns:
        ``(stop - start, D)``, float32 or float64.

    Raises:
        AssertionError: if an index of the range exceeds the last row.
    """
    columns_CD = _columns(x_ND, halo_HD, scales)  # (N, D), (H, D) -> (C, D)
    first, last = int(indptr[start]), int(indptr[stop])
    # Edges of the range, and each row's offset among them: a CSR matrix of its own.
    range_indices, local_indptr = indices[first:last], indptr[start : stop + 1] - first
    if range_indices.numel():
        assert int(range_indices.max()) < columns_CD.shape[0], "an index points into rows that were not given"
    if range_indices.numel() == 0 or columns_CD.shape[1] == 0:
        return columns_CD.new_zeros((stop - start, columns_CD.shape[1]))
    values = columns_CD.new_ones(range_indices.numel()) if weights is None else weights[first:last].to(columns_CD.dtype)
    # PyTorch needs both index tensors of one type; int32 is enough for fewer than 2**31 edges.
    fits_int32 = last - first < 2**31
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        product = torch.sparse_csr_tensor(
            local_indptr.to(torch.int32 if fits_int32 else torch.int64),
            range_indices if fits_int32 else range_indices.long(),
            values,
            size=(stop - start, columns_CD.shape[0]),
        )
        return product @ columns_CD  # (stop - start, C) (C, D) -> (stop - start, D)


def transpose(
    indptr: Tensor, indices: Tensor, weights: Tensor | None, num_columns: int
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Convert a CSR by row to the CSR by column, each column's rows in ascending order.

    Returns:
        ``indptr (C + 1,)`` int64, ``indices (E,)`` int32, the permuted weights, and the input index of each edge of the
        result, int32.
    """
    # No step synchronizes with a GPU, on which this implementation runs too.
    columns, edges = torch.sort(indices, stable=True)  # stable: rows ascend within a column
    # searchsorted requires bounds of the type of the columns.
    bounds = torch.arange(num_columns + 1, dtype=indices.dtype, device=indices.device)
    transposed_indptr = torch.searchsorted(columns, bounds)  # (C + 1,) int64: number of edges before each column
    row_numbers = torch.arange(indptr.numel() - 1, dtype=torch.int32, device=indptr.device)
    # The row of each edge, (E,); without output_size the host would wait for the sum of the counts.
    rows = torch.repeat_interleave(row_numbers, indptr.diff(), output_size=indices.numel())
    return transposed_indptr, rows[edges], None if weights is None else weights[edges], edges.int()


def _columns(x_ND: Tensor, halo_HD: Tensor | None, scales: tuple[Tensor, Tensor | None] | None) -> Tensor:
    rows = [x_ND] if halo_HD is None else [x_ND, halo_HD]
    if x_ND.dtype != torch.float64:
        rows = [row.float() for row in rows]
    if scales is not None:
        # (N, D) codes times (N, 1) scales; without a halo its scale has no rows to multiply.
        rows = [row * scale.unsqueeze(1) for row, scale in zip(rows, scales, strict=False) if scale is not None]
    return rows[0].contiguous() if len(rows) == 1 else torch.cat(rows)
