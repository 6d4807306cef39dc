"""Weighted neighbour sums in plain PyTorch: what the compiled product must equal.

The framework's own CSR product does the sums (warned about as beta by the framework; the warning is of no use here).
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
    """Sum the neighbours of rows ``start`` to ``stop``: ``out[i] = sum_e w_e * column(indices_e)``.

    Column ``c`` is ``x[c]``, and ``halo[c - len(x)]`` from ``len(x)`` on. Rows of 16 or 8 bits are brought to float32
    first (``scales`` multiplies each int8 row); float64 stays float64.

    Returns:
        ``(stop - start, D)``, float32 or float64.

    Raises:
        AssertionError: if an index of the range points behind the last row.
    """
    columns_CD = _columns(x_ND, halo_HD, scales)
    first, last = int(indptr[start]), int(indptr[stop])
    span, local = indices[first:last], indptr[start : stop + 1] - first
    if span.numel():
        assert int(span.max()) < columns_CD.shape[0], "an index of the row range points into a halo that was not given"
    if span.numel() == 0 or columns_CD.shape[1] == 0:
        return columns_CD.new_zeros((stop - start, columns_CD.shape[1]))
    values = columns_CD.new_ones(span.numel()) if weights is None else weights[first:last].to(columns_CD.dtype)
    narrow = last - first < 2**31
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        product = torch.sparse_csr_tensor(
            local.to(torch.int32 if narrow else torch.int64),
            span if narrow else span.long(),
            values,
            size=(stop - start, columns_CD.shape[0]),
        )
        return product @ columns_CD


def transpose(
    indptr: Tensor, indices: Tensor, weights: Tensor | None, num_columns: int
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Turn a CSR by row into the CSR by column, each column's rows in ascending order.

    Returns:
        ``indptr (C + 1,)`` int64, ``indices (E,)`` int32, the permuted weights, and for each edge of the result its
        place in the input, int32.
    """
    # Nothing here waits for a GPU, which runs this as it stands.
    columns, edges = torch.sort(indices, stable=True)
    bounds = torch.arange(num_columns + 1, dtype=indices.dtype, device=indices.device)
    turned_indptr = torch.searchsorted(columns, bounds)
    row_numbers = torch.arange(indptr.numel() - 1, dtype=torch.int32, device=indptr.device)
    rows = torch.repeat_interleave(row_numbers, indptr.diff(), output_size=indices.numel())
    return turned_indptr, rows[edges], None if weights is None else weights[edges], edges.int()


def _columns(x_ND: Tensor, halo_HD: Tensor | None, scales: tuple[Tensor, Tensor | None] | None) -> Tensor:
    rows = [x_ND] if halo_HD is None else [x_ND, halo_HD]
    if x_ND.dtype != torch.float64:
        rows = [row.float() for row in rows]
    if scales is not None:
        rows = [row * scale.unsqueeze(1) for row, scale in zip(rows, scales, strict=False) if scale is not None]
    return rows[0].contiguous() if len(rows) == 1 else torch.cat(rows)
