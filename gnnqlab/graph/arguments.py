"""Conversion of the arguments of ``Graph.from_edges`` to the types of a ``Graph``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.array_checks import refuse_masked, refuse_out_of_float32
from gnnqlab.graph.features import Features, SparseRows

__all__ = [
    "as_any_targets",
    "as_features",
    "as_labels",
    "as_mask",
    "as_named_labels",
    "refuse_names_as_classes",
    "refuse_numbers_as_classes",
]


def as_features(features: object, num_nodes: int) -> Features:
    """Convert features: ``None`` to zero columns, sparse matrices to ``SparseRows``, anything else to float32."""
    if features is None:
        return torch.zeros((num_nodes, 0), dtype=torch.float32)
    if isinstance(features, SparseRows):
        return features
    if hasattr(features, "tocsr"):
        return SparseRows.from_scipy(features)
    values = _tensor("features", features)
    # Sparse tensors of any layout become rows of features.
    if values.layout != torch.strided:
        coo = values.to("cpu").to_sparse_coo().coalesce()  # ascending, duplicates summed
        row, column = coo.indices()
        refuse_out_of_float32("features", coo.values().numpy(), row.numpy(), column.numpy())
        counts = torch.bincount(row, minlength=coo.shape[0])  # (N,) values per row
        return SparseRows(
            indptr=torch.cat([counts.new_zeros(1), counts.cumsum(0)]),
            indices=column.to(torch.int32),
            values=coo.values().to(torch.float32),
            num_columns=coo.shape[1],
        )
    if values.dim() != 2 or values.dtype.is_complex:
        raise TypeError(f"features must be real numbers of shape (N, D), got {_describe(values)}")
    rows = values.to("cpu", torch.float32).contiguous()
    if values.dtype == torch.float64:
        is_lost = rows.isinf() & ~values.cpu().isinf()
        if bool(is_lost.any()):
            row, column = is_lost.nonzero()[0].tolist()
            raise ValueError(
                f"features must be within the range of float32, at most 3.4e38, got {values[row, column].item():g} in "
                f"row {row}, column {column}; replace or scale it"
            )
    return rows


def as_labels(labels: object, num_nodes: int, num_classes: int | None = None) -> tuple[Tensor, int]:
    """Return targets and the number of classes they imply; ``None`` means that all nodes are unlabelled.

    Raises:
        TypeError: if labels are neither classes nor zeros and ones.
        ValueError: if they look like numbers to predict; ``num_classes`` asserts that they are classes.
    """
    if labels is None:
        return torch.full((num_nodes,), -1, dtype=torch.int64), 0
    target = _tensor("labels", labels).to("cpu")
    # (N, 1), as PyG and OGB store one class per node, or (1, N), as .mat files, -> (N,)
    if tuple(target.shape) in ((num_nodes, 1), (1, num_nodes)) and not target.dtype.is_floating_point:
        target = target.flatten()
    if target.dim() == 1 and not target.dtype.is_floating_point and not target.dtype.is_complex:
        target = target.to(torch.int64).contiguous()
        largest = int(target.max()) if target.numel() else -1
        if num_classes is None:
            refuse_numbers_as_classes("labels", largest, num_nodes)
        # -1 stands for unlabelled: without any label there are no classes.
        return target, max(0, largest + 1)
    if target.dim() == 2 and not target.dtype.is_complex:
        is_wrong = (target != 0) & (target != 1)
        if bool(is_wrong.any()):
            # The first wrong node; argmax does not support bool.
            node = int(is_wrong.any(1).to(torch.uint8).argmax())
            raise ValueError(
                f"multi-label targets must be 0 or 1, got {target[node][is_wrong[node]][0].item()} at node {node} in "
                f"{_describe(target)}; one class for each node is integers of shape ({num_nodes},)"
            )
        return target.to(torch.uint8).contiguous(), target.shape[1]
    raise TypeError(
        "labels must be integers of shape (N,) with -1 for unlabelled nodes, or zeros and ones of "
        f"shape (N, C), got {_describe(target)}; numbers to predict are targets="
    )


_MANY = 100
"""Number of classes up to which labels are never taken for measurements."""


def refuse_numbers_as_classes(label: str, largest: int, num_nodes: int) -> None:
    """Refuse labels that look like prices or measurements: more classes than a tenth of the nodes.

    Args:
        label: name of the labels, for the error.
        largest: largest label, which implies one class more.
        num_nodes: N.

    Raises:
        ValueError: with the number of classes, and the way out.
    """
    if largest + 1 > max(_MANY, num_nodes // 10):
        raise ValueError(
            f"{label} must be classes 0 to C - 1, got values up to {largest}, which would be {largest + 1:,} classes "
            f"for {num_nodes:,} nodes; if they are classes with gaps, number them with pandas.factorize; if they are "
            f"all classes, pass num_classes={largest + 1}; pass numbers to predict, such as prices, as targets="
        )


_FEW = 10
"""Number of nodes up to which each may have a class of its own, as in examples."""


def refuse_names_as_classes(label: str, count: int, num_labelled: int, word: object) -> None:
    """Refuse words that look like names of nodes or measurements: one class per node, or more than a tenth of them.

    Args:
        label: name of the labels, for the error.
        count: number of different words.
        num_labelled: number of nodes with a word.
        word: one of them, for the error.

    Raises:
        ValueError: with the number of classes, and the way out.
    """
    if count > max(_MANY, num_labelled // 10) or (count == num_labelled and num_labelled > _FEW):
        raise ValueError(
            f"{label} must be classes that nodes share, got {count:,} different words such as {word!r} for "
            f"{num_labelled:,} nodes; if they are names of nodes, they are ids and not labels; if they are numbers, "
            f"group them first; if they are all classes, pass num_classes={count}"
        )


def as_named_labels(labels: object, num_classes: int | None = None) -> tuple[object, tuple[str, ...] | None]:
    """Return words as labels 0 to C - 1 in alphabetical order with -1 for ``None``, and the words; others as they are.

    Raises:
        ValueError: if the words look like names of nodes; ``num_classes`` asserts that they are classes.

    Example:
        >>> as_named_labels(["red", None, "blue"])
        (array([ 1, -1,  0]), ('blue', 'red'))
    """
    if labels is None or isinstance(labels, Tensor):
        return labels, None
    refuse_masked("labels", labels)
    values = np.asarray(labels)
    if values.ndim != 1 or values.dtype.kind not in "OU":
        return labels, None
    is_text = values.dtype.kind == "U"
    if is_text and not isinstance(labels, np.ndarray):
        values = np.array(labels, dtype=object)  # as text a missing value would be the word "nan"
    words = [None if _is_missing(word) else str(word) if is_text else word for word in values.tolist()]
    present = [word for word in words if word is not None]
    if not present or not all(isinstance(word, str) for word in present):
        return labels, None
    names = sorted(set(present))
    if num_classes is None:
        refuse_names_as_classes("labels", len(names), len(present), names[0])
    codes = {word: code for code, word in enumerate(names)}
    return np.array([-1 if word is None else codes[word] for word in words]), tuple(names)


def _is_missing(value: object) -> bool:
    """Return True for ``None``, NaN, and the ``NA`` of pandas, which has no truth value."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)


def as_any_targets(
    labels: object, targets: object, num_nodes: int, num_classes: int | None, names: Sequence[Any] | None
) -> tuple[Tensor, int, Sequence[Any] | None]:
    """Return classes, or numbers to predict, with their number of columns or classes, and names.

    Raises:
        TypeError, ValueError: as :func:`as_labels`; if both labels and targets are given, or targets are no numbers.
    """
    if targets is None:
        if names is None:
            labels, names = as_named_labels(labels, num_classes)
        return (*as_labels(labels, num_nodes, num_classes), names)
    if labels is not None:
        raise ValueError(
            "a graph must have labels (classes) or targets (numbers to predict), got both; pass one of them"
        )
    values = _tensor("targets", targets).to("cpu")
    if values.dim() not in (1, 2) or values.dtype.is_complex:
        raise TypeError(f"targets must be numbers of shape (N,) or (N, K), got {_describe(values)}")
    rows = values.reshape(values.shape[0], -1).to(torch.float32).contiguous()  # (N,) -> (N, 1)
    return rows, rows.shape[1], names


def as_mask(what: str, nodes: object, num_nodes: int) -> Tensor:
    """Return a split as a boolean mask ``(N,)``, from node ids or from a mask; ``None`` gives an empty split."""
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    if nodes is None:
        return mask
    ids = _tensor(what, nodes).to("cpu")
    if ids.dtype == torch.bool:
        if ids.shape != mask.shape:
            raise ValueError(f"{what} as a mask must have shape ({num_nodes},), got {tuple(ids.shape)}")
        return ids.clone()  # a copy: changes by the caller must not reach the graph
    if ids.numel() == 0:
        # The splits for validation and test may be empty.
        if what == "train_idx":
            raise ValueError("train_idx must name at least one node, got none; leave it out for a graph with no split")
        return mask
    if ids.dim() != 1 or ids.dtype.is_floating_point or ids.dtype.is_complex:
        raise TypeError(f"{what} must be a one-dimensional list of node ids or a boolean mask, got {_describe(ids)}")
    ids = ids.to(torch.int64)
    low, high = (int(x) for x in torch.aminmax(ids))
    if low < 0 or high >= num_nodes:
        position = int(((ids < 0) | (ids >= num_nodes)).to(torch.uint8).argmax())
        raise ValueError(
            f"{what} must hold node ids in [0, {num_nodes}), got {int(ids[position])} at position {position}"
        )
    mask[ids] = True  # (K,) -> (N,)
    return mask


def _tensor(name: str, value: object) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    refuse_masked(name, value)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        example = next((each for each in array.flat if not isinstance(each, int | float | np.number)), None)
        shown = "" if example is None else f" such as {example!r}"
        raise TypeError(f"{name} must be numbers, got {type(value).__name__} that holds {array.dtype}{shown}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))  # PyTorch has no types of the other byte order
    # torch.from_numpy needs writable memory and no negative strides.
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    # PyTorch has few operations for these types.
    if array.dtype in (np.uint16, np.uint32, np.uint64):
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{name} must be below 2**63, got {array.max()}; number the values from 0")
        array = array.astype(np.int64)
    return torch.from_numpy(array)


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
