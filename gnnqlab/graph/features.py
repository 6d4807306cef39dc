"""Sparse node features: CSR by row, for graphs whose feature matrix is mostly zeros.

Shape legend: N nodes, D columns, nnz stored values, K selected rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.array_checks import (
    check_array,
    check_csr,
    first_not_finite,
    refuse_not_finite,
    refuse_out_of_float32,
)

__all__ = ["DEGREE_COLUMNS", "Features", "SparseRows", "degree_features"]

DEGREE_COLUMNS = 16
"""Number of columns of :func:`degree_features`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseRows:
    """A float32 matrix that stores only its non-zero values, row after row (CSR).

    Row ``v`` holds ``values[indptr[v]:indptr[v + 1]]`` in the columns
    ``indices[indptr[v]:indptr[v + 1]]``, which are strictly ascending within a row.

    Args:
        indptr: int64, shape ``(N + 1,)``, from 0 to nnz, non-decreasing.
        indices: int32, shape ``(nnz,)``, columns in ``[0, num_columns)``.
        values: float32, shape ``(nnz,)``, finite.
        num_columns: number of columns D.

    Raises:
        TypeError, ValueError: if an array has the wrong type, shape or content; the message states the rule, the first
            invalid row and a remedy.

    Example:
        >>> rows = SparseRows.from_dense(torch.tensor([[0.0, 2.0], [0.0, 0.0], [3.0, 0.0]]))
        >>> rows.shape, rows.indices.tolist(), rows.values.tolist()
        (torch.Size([3, 2]), [1, 0], [2.0, 3.0])
    """

    indptr: Tensor
    indices: Tensor
    values: Tensor
    num_columns: int

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def from_dense(cls, x_ND: Tensor) -> SparseRows:
        """Store the non-zero values of a dense matrix.

        Example:
            >>> SparseRows.from_dense(torch.eye(2)).to_dense().tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        row, column = torch.nonzero(x_ND, as_tuple=True)  # sorted by row, then by column
        counts = torch.bincount(row, minlength=x_ND.shape[0])  # (N,)
        return cls(
            indptr=torch.cat([counts.new_zeros(1), counts.cumsum(0)]),
            indices=column.to(torch.int32),
            values=x_ND[row, column].to(torch.float32),
            num_columns=x_ND.shape[1],
        )

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparseRows:
        """Convert any ``scipy.sparse`` matrix or array; duplicate entries are summed."""
        csr = matrix.tocsr().copy()  # sum_duplicates works in place: leave the caller's matrix unchanged
        csr.sum_duplicates()  # sorts the columns of each row, too
        row = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))  # (nnz,)
        refuse_out_of_float32("features", csr.data, row, csr.indices)
        return cls(
            indptr=torch.from_numpy(csr.indptr.astype("int64")),
            indices=torch.from_numpy(csr.indices.astype("int32")),
            values=torch.from_numpy(csr.data.astype("float32")),
            num_columns=int(csr.shape[1]),
        )

    @property
    def shape(self) -> torch.Size:
        """Shape ``(N, D)`` of the equivalent dense matrix."""
        return torch.Size((self.indptr.numel() - 1, self.num_columns))

    @property
    def dtype(self) -> torch.dtype:
        """Always ``torch.float32``."""
        return torch.float32

    @property
    def num_values(self) -> int:
        """Number of stored values, nnz."""
        return self.values.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of the three arrays."""
        return self.indptr.nbytes + self.indices.nbytes + self.values.nbytes

    def __len__(self) -> int:
        return self.indptr.numel() - 1

    def __repr__(self) -> str:
        return f"SparseRows(shape={tuple(self.shape)}, values={self.num_values:,})"

    def index_rows(self, ids: Tensor) -> SparseRows:
        """Select rows in the order of ``ids``; a row may be selected several times.

        Args:
            ids: integer tensor, shape ``(K,)``, each in ``[0, N)``.

        Returns:
            A new matrix of shape ``(K, D)``.

        Raises:
            ValueError: if an id lies outside ``[0, N)``.

        Example:
            >>> rows = SparseRows.from_dense(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
            >>> rows.index_rows(torch.tensor([1, 1])).to_dense().tolist()
            [[0.0, 2.0], [0.0, 2.0]]
        """
        ids = torch.as_tensor(ids).to(torch.int64)
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= len(self)):
            raise ValueError(
                f"row ids must lie in [0, {len(self)}), got values from {int(ids.min())} to {int(ids.max())}"
            )
        start = self.indptr[ids]  # (K,)
        counts = self.indptr[ids + 1] - start  # (K,) values of each row
        indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        # Position of every selected value: its row's start plus its rank within the row.
        positions = torch.arange(int(indptr[-1])) + torch.repeat_interleave(start - indptr[:-1], counts)
        return SparseRows(
            indptr=indptr,
            indices=self.indices[positions],
            values=self.values[positions],
            num_columns=self.num_columns,
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the rows as a dense array, so that NumPy accepts them."""
        return np.asarray(self.to_dense().numpy(), dtype=dtype)

    def to_dense(self) -> Tensor:
        """Convert to a dense float32 tensor, shape ``(N, D)``."""
        rows = torch.zeros(self.shape, dtype=torch.float32)
        row = torch.repeat_interleave(torch.arange(len(self)), self.indptr.diff())  # (nnz,)
        rows[row, self.indices.to(torch.int64)] = self.values
        return rows


Features = Tensor | SparseRows


def degree_features(degrees: Tensor) -> Tensor:
    """Return features of nodes that have none: functions of the degree d of each node alone.

    Column 0 is ``ln(1 + d)``, column ``1 + k`` is 1 where ``floor(log2(1 + d)) = k``, the last one where it is 14 or
    more. A row depends on its own degree only, so any part of a graph has the rows of the whole graph.

    Args:
        degrees: in-degrees, or sums of edge weights, ``(N,)``, at least 0.

    Returns:
        float32 ``(N, 16)``.

    Example:
        >>> rows = degree_features(torch.tensor([0, 1, 2, 3]))
        >>> rows.shape, rows[:, 1:].argmax(1).tolist(), round(float(rows[1, 0]), 4)
        (torch.Size([4, 16]), [0, 1, 1, 2], 0.6931)
    """
    values = 1.0 + degrees.double()  # (N,) float64: each row is rounded once, in whatever order rows are stored
    power = (torch.frexp(values).exponent.long() - 1).clamp(max=DEGREE_COLUMNS - 2)  # (N,) exact floor of log2
    rows = torch.zeros(degrees.numel(), DEGREE_COLUMNS)
    rows[:, 0] = values.log().float()
    rows[torch.arange(degrees.numel()), 1 + power] = 1.0
    return rows


def _check(rows: SparseRows) -> None:
    check_array("indptr of sparse features", rows.indptr, torch.int64, 1)
    check_array("indices of sparse features", rows.indices, torch.int32, 1)
    check_array("values of sparse features", rows.values, torch.float32, 1)
    if not isinstance(rows.num_columns, int) or rows.num_columns < 0:
        raise ValueError(f"num_columns must be an integer of at least 0, got {rows.num_columns!r}")
    if rows.values.numel() != rows.indices.numel():
        raise ValueError(
            "sparse features must have one column index per value, got "
            f"{rows.indices.numel()} indices and {rows.values.numel()} values"
        )
    check_csr("sparse features", rows.indptr, rows.indices, rows.num_columns, strict=True)  # no column twice in a row
    position = first_not_finite(rows.values)
    if position is not None:
        row = int(torch.searchsorted(rows.indptr, position, right=True)) - 1  # right=True skips empty rows
        refuse_not_finite(row, int(rows.indices[position]), float(rows.values[position]))
