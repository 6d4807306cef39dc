"""What makes a ``Graph`` and its sparse features well-formed; one rule a check.

Every message states the rule, then what came, then the way out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gnnqlab.graph.features import SparseRows
    from gnnqlab.graph.graph import Graph

__all__ = ["check_graph", "check_shapes", "check_sparse_rows"]

_CHUNK = 1 << 24  # values scanned at a time, so that a check needs no second copy of the array
MAX_NODES = 2**31 - 1  # node ids are int32 in ``indices``


def check_graph(graph: Graph) -> None:
    """Check a graph completely: types and shapes, then every value."""
    check_shapes(graph)
    _check_csr("graph", graph.indptr, graph.indices, graph.num_nodes, strict=False)
    if isinstance(graph.features, Tensor):
        _check_finite_rows(graph.features)
    _check_labels(graph)
    _check_splits(graph)


def check_shapes(graph: Graph) -> None:
    """Check only what the headers of the arrays tell: types, shapes, devices."""
    from gnnqlab.graph.features import SparseRows

    if not isinstance(graph.name, str) or not graph.name:
        raise ValueError(f"name must be a non-empty string, got {graph.name!r}")
    _check_array("indptr", graph.indptr, torch.int64, 1)
    _check_array("indices", graph.indices, torch.int32, 1)
    num_nodes = graph.indptr.numel() - 1
    if not 1 <= num_nodes <= MAX_NODES:
        raise ValueError(
            f"a graph must have between 1 and {MAX_NODES} nodes, got indptr with "
            f"{graph.indptr.numel()} entries, that is {num_nodes} nodes"
        )
    if not isinstance(graph.features, SparseRows):
        _check_array("features", graph.features, torch.float32, 2)
    _check_rows("features", graph.features.shape[0], num_nodes)
    labels = graph.labels
    if not isinstance(labels, Tensor) or (labels.dtype, labels.dim()) not in (
        (torch.int64, 1),
        (torch.uint8, 2),
    ):
        raise TypeError(
            "labels must be int64 of shape (N,) for one class a node (-1 = unlabelled), or uint8 "
            f"of shape (N, C) for several, got {_type_text(labels)}"
        )
    _check_array("labels", labels, labels.dtype, labels.dim())
    _check_rows("labels", labels.shape[0], num_nodes)
    if not isinstance(graph.num_classes, int) or graph.num_classes < 0:
        raise ValueError(f"num_classes must be an integer of at least 0, got {graph.num_classes!r}")
    if labels.dim() == 2 and labels.shape[1] != graph.num_classes:
        raise ValueError(
            "multi-label targets must have one column per class, got "
            f"{labels.shape[1]} columns and num_classes={graph.num_classes}"
        )
    for field in ("train_mask", "val_mask", "test_mask"):
        _check_array(field, getattr(graph, field), torch.bool, 1)
        _check_rows(field, getattr(graph, field).numel(), num_nodes)


def check_sparse_rows(rows: SparseRows) -> None:
    """Check sparse features completely."""
    _check_array("indptr of sparse features", rows.indptr, torch.int64, 1)
    _check_array("indices of sparse features", rows.indices, torch.int32, 1)
    _check_array("values of sparse features", rows.values, torch.float32, 1)
    if not isinstance(rows.num_columns, int) or rows.num_columns < 0:
        raise ValueError(f"num_columns must be an integer of at least 0, got {rows.num_columns!r}")
    if rows.values.numel() != rows.indices.numel():
        raise ValueError(
            "sparse features must have one column index per value, got "
            f"{rows.indices.numel()} indices and {rows.values.numel()} values"
        )
    _check_csr("sparse features", rows.indptr, rows.indices, rows.num_columns, strict=True)
    bad = _first_not_finite(rows.values)
    if bad is not None:
        row = int(torch.searchsorted(rows.indptr, bad, right=True)) - 1
        _refuse_not_finite(row, int(rows.indices[bad]), float(rows.values[bad]))


def _check_array(what: str, array: object, dtype: torch.dtype, dims: int) -> None:
    if not isinstance(array, Tensor) or array.dtype != dtype or array.dim() != dims:
        word = {1: "one-dimensional", 2: "two-dimensional"}[dims]
        raise TypeError(
            f"{what} must be a {word} {_dtype_name(dtype)} tensor, got {_type_text(array)}; "
            "Graph.from_edges converts lists, numpy arrays and other types"
        )
    if array.device.type != "cpu":
        raise ValueError(
            f"{what} must be in main memory, got a tensor on {array.device}; call .cpu() first "
            "(each worker moves its own share to its device)"
        )
    if not array.is_contiguous():
        raise ValueError(f"{what} must be contiguous, got strides {array.stride()}; call .contiguous()")


def _check_rows(what: str, rows: int, num_nodes: int) -> None:
    if rows != num_nodes:
        raise ValueError(f"{what} must have one row per node, got {rows} rows for {num_nodes} nodes")


def _check_csr(what: str, indptr: Tensor, indices: Tensor, num_columns: int, *, strict: bool) -> None:
    """``indptr`` rises from 0 to the number of indices; each row's indices are in range and sorted."""
    if indptr.numel() < 1 or int(indptr[0]) != 0 or int(indptr[-1]) != indices.numel():
        ends = f"{int(indptr[0])} to {int(indptr[-1])}" if indptr.numel() else "nothing"
        raise ValueError(
            f"indptr of the {what} must run from 0 to the number of indices, {indices.numel()}, got {ends}"
        )
    falling = indptr[1:] < indptr[:-1]
    if bool(falling.any()):
        row = int(falling.to(torch.uint8).argmax())
        raise ValueError(
            f"indptr of the {what} must never fall, got {int(indptr[row])} then {int(indptr[row + 1])} at row {row}"
        )
    if not indices.numel():
        return
    low, high = (int(x) for x in torch.aminmax(indices))
    if low < 0 or high >= num_columns:
        wrong = (indices < 0) | (indices >= num_columns)
        at = int(wrong.to(torch.uint8).argmax())
        row = int(torch.searchsorted(indptr, at, right=True)) - 1
        raise ValueError(f"indices of the {what} must lie in [0, {num_columns}), got {int(indices[at])} in row {row}")
    wrong = indices[1:] <= indices[:-1] if strict else indices[1:] < indices[:-1]
    borders = indptr[1:-1]
    wrong[borders[(borders > 0) & (borders < indices.numel())] - 1] = False
    if bool(wrong.any()):
        at = int(wrong.to(torch.uint8).argmax())
        row = int(torch.searchsorted(indptr, at, right=True)) - 1
        order = "strictly ascending" if strict else "ascending"
        raise ValueError(
            f"indices of the {what} must be {order} within a row, got {int(indices[at])} before "
            f"{int(indices[at + 1])} in row {row}; "
            + ("SparseRows.from_scipy" if strict else "Graph.from_edges")
            + " sorts them"
        )


def _check_finite_rows(features: Tensor) -> None:
    bad = _first_not_finite(features.reshape(-1))
    if bad is not None:
        row, column = divmod(bad, features.shape[1])
        _refuse_not_finite(row, column, float(features[row, column]))


def _first_not_finite(flat: Tensor) -> int | None:
    for start in range(0, flat.numel(), _CHUNK):
        chunk = flat[start : start + _CHUNK]
        # A sum of magnitudes would overflow on large finite values; the extremes carry NaN and Inf.
        if not all(bool(torch.isfinite(x)) for x in torch.aminmax(chunk)):
            return start + int((~torch.isfinite(chunk)).to(torch.uint8).argmax())
    return None


def _refuse_not_finite(row: int, column: int, value: float) -> None:
    raise ValueError(
        f"features must be finite, got {value} in row {row}, column {column}; "
        "repair or drop that node before building the graph"
    )


def _check_labels(graph: Graph) -> None:
    labels = graph.labels
    low, high = (int(x) for x in torch.aminmax(labels)) if labels.numel() else (0, 0)
    if graph.multi_label:
        if high > 1:
            node = int((labels > 1).any(1).to(torch.uint8).argmax())
            raise ValueError(f"multi-label targets must be 0 or 1, got {int(labels[node].max())} at node {node}")
        return
    if low < -1 or high >= max(graph.num_classes, 0):
        wrong = (labels < -1) | (labels >= graph.num_classes)
        if bool(wrong.any()):
            node = int(wrong.to(torch.uint8).argmax())
            raise ValueError(
                f"labels must lie in [0, {graph.num_classes}) or be -1 (unlabelled), got "
                f"{int(labels[node])} at node {node}; raise num_classes or renumber the labels"
            )


def _check_splits(graph: Graph) -> None:
    masks = {"train": graph.train_mask, "val": graph.val_mask, "test": graph.test_mask}
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        shared = masks[first] & masks[second]
        if bool(shared.any()):
            raise ValueError(
                f"splits must not overlap, got {int(shared.sum())} nodes in both {first} and "
                f"{second}, the first is node {int(shared.to(torch.uint8).argmax())}; "
                f"remove them from one of the two"
            )
    if not bool(masks["train"].any()):
        others = [name for name in ("val", "test") if bool(masks[name].any())]
        if others:
            raise ValueError(
                f"the train split must not be empty when there is another split, got nodes only in "
                f"{' and '.join(others)}; give train_idx, or no split at all"
            )
        return
    if graph.multi_label:
        return
    for name, mask in masks.items():
        unlabelled = mask & (graph.labels < 0)
        if bool(unlabelled.any()):
            raise ValueError(
                f"every node of a split must have a label, got {int(unlabelled.sum())} unlabelled "
                f"nodes in {name}, the first is node "
                f"{int(unlabelled.to(torch.uint8).argmax())}; remove them from the split"
            )


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _type_text(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{_dtype_name(value.dtype)} of shape {tuple(value.shape)}"
    return type(value).__name__
