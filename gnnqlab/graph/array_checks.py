"""Checks of single arrays of a graph: type, shape, and valid CSR rows.

Every message states the rule, the value and the way out.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "MAX_NODES", "check_array", "check_csr", "check_rows", "first_not_finite", "refuse_masked", "refuse_not_finite",
    "refuse_out_of_float32", "type_text",
]  # fmt: skip

_CHUNK = 1 << 24  # number of values checked at a time, so that a check needs no second copy of the array
MAX_NODES = 2**31 - 1
"""Largest number of nodes of a graph, whose ids are int32 in ``indices``."""


def check_array(what: str, array: object, dtype: torch.dtype, dims: int) -> None:
    """Check that an array is a contiguous tensor in main memory with this dtype and number of dimensions."""
    if not isinstance(array, Tensor) or array.dtype != dtype or array.dim() != dims:
        word = {1: "one-dimensional", 2: "two-dimensional"}[dims]
        raise TypeError(
            f"{what} must be a {word} {_dtype_name(dtype)} tensor, got {type_text(array)}; "
            "Graph.from_edges converts lists, numpy arrays and other types"
        )
    if array.device.type != "cpu":
        raise ValueError(
            f"{what} must be in main memory, got a tensor on {array.device}; call .cpu() first "
            "(each worker moves its own share to its device)"
        )
    if not array.is_contiguous():
        raise ValueError(f"{what} must be contiguous, got strides {array.stride()}; call .contiguous()")


def check_rows(what: str, rows: int, num_nodes: int) -> None:
    """Check that there is one row per node."""
    if rows != num_nodes:
        raise ValueError(f"{what} must have one row per node, got {rows} rows for {num_nodes} nodes")


def check_csr(what: str, indptr: Tensor, indices: Tensor, num_columns: int, *, strict: bool) -> None:
    """Check that ``indptr`` rises from 0 to the number of indices, and that rows are sorted and in range."""
    if indptr.numel() < 1 or int(indptr[0]) != 0 or int(indptr[-1]) != indices.numel():
        ends = f"{int(indptr[0])} to {int(indptr[-1])}" if indptr.numel() else "nothing"
        raise ValueError(
            f"indptr of the {what} must run from 0 to the number of indices, {indices.numel()}, got {ends}"
        )
    is_falling = indptr[1:] < indptr[:-1]
    if bool(is_falling.any()):
        row = int(is_falling.to(torch.uint8).argmax())  # the first
        raise ValueError(
            f"indptr of the {what} must never fall, got {int(indptr[row])} then {int(indptr[row + 1])} at row {row}"
        )
    if not indices.numel():
        return
    low, high = (int(x) for x in torch.aminmax(indices))
    if low < 0 or high >= num_columns:
        is_wrong = (indices < 0) | (indices >= num_columns)
        i = int(is_wrong.to(torch.uint8).argmax())
        row = int(torch.searchsorted(indptr, i, right=True)) - 1  # row of position i; right=True passes empty rows
        raise ValueError(f"indices of the {what} must lie in [0, {num_columns}), got {int(indices[i])} in row {row}")
    # Compare each index with the one before it, then clear the pairs that span two rows.
    is_wrong = indices[1:] <= indices[:-1] if strict else indices[1:] < indices[:-1]
    borders = indptr[1:-1]
    # The border of an empty row at either end is no pair.
    is_wrong[borders[(borders > 0) & (borders < indices.numel())] - 1] = False
    if bool(is_wrong.any()):
        i = int(is_wrong.to(torch.uint8).argmax())
        row = int(torch.searchsorted(indptr, i, right=True)) - 1
        order = "strictly ascending" if strict else "ascending"
        raise ValueError(
            f"indices of the {what} must be {order} within a row, got {int(indices[i])} before "
            f"{int(indices[i + 1])} in row {row}; "
            + ("SparseRows.from_scipy" if strict else "Graph.from_edges")
            + " sorts them"
        )


def first_not_finite(flat: Tensor) -> int | None:
    """Return the index of the first NaN or infinity in a flat tensor, or ``None`` if there is none."""
    for start in range(0, flat.numel(), _CHUNK):
        chunk = flat[start : start + _CHUNK]
        # A sum of magnitudes would overflow on large finite values; minimum and maximum propagate NaN and Inf.
        if not all(bool(torch.isfinite(x)) for x in torch.aminmax(chunk)):
            return start + int((~torch.isfinite(chunk)).to(torch.uint8).argmax())
    return None


def refuse_not_finite(row: int, column: int, value: float) -> None:
    """Raise the error of a feature that is not finite."""
    raise ValueError(
        f"features must be finite, got {value} in row {row}, column {column}; "
        "repair or drop that node before building the graph"
    )


def refuse_masked(what: str, values: object) -> None:
    """Refuse a NumPy array that hides values, which conversions would uncover.

    Example:
        >>> refuse_masked("src", np.ma.masked_array([3, 4], mask=[False, True]))
        Traceback (most recent call last):
        TypeError: src must have a value everywhere, got a masked array with 1 hidden values; fill them, ...
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise TypeError(
            f"{what} must have a value everywhere, got a masked array with {int(np.ma.count_masked(values))} hidden "
            "values; fill them, for instance with values.filled(0)"
        )


def refuse_out_of_float32(what: str, values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> None:
    """Refuse stored values of a sparse matrix that are finite, but not as float32.

    Args:
        what: name of the matrix, for the error.
        values: stored values ``(nnz,)``, of any type.
        rows, columns: their places ``(nnz,)``.
    """
    if values.dtype.kind != "f" or values.dtype.itemsize <= 4:
        return
    is_lost = np.isfinite(values) & (np.abs(values) > np.finfo(np.float32).max)
    if is_lost.any():
        i = int(is_lost.argmax())
        raise ValueError(
            f"{what} must be within the range of float32, at most 3.4e38, got {values[i]:g} in row {rows[i]}, column "
            f"{columns[i]}; replace or scale it"
        )


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def type_text(value: object) -> str:
    """Describe a value for an error message: dtype and shape of a tensor, or the name of the class."""
    if isinstance(value, Tensor):
        return f"{_dtype_name(value.dtype)} of shape {tuple(value.shape)}"
    return type(value).__name__
