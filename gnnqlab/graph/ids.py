"""Ids of nodes and names of classes as users have them: conversion, checks and search.

Inside the package a node is its position 0 to N - 1, and a class its position 0 to C - 1. A graph with other ids or
class names stores them in addition to its arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnqlab.by_name import closest_words
from gnnqlab.graph.array_checks import refuse_masked

__all__ = ["ClassNames", "as_class_names", "as_ids", "check_class_names", "check_ids", "find_ids"]

ClassNames = tuple[str | int | float | bool, ...]
_KINDS = {"i": "integers", "u": "unsigned integers", "U": "text"}


def as_ids(ids: object, num_nodes: int) -> np.ndarray | None:
    """Return ids of nodes as an array of integers or text, or ``None`` for 0 to N - 1.

    Args:
        ids: one for each node: integers, texts, or objects such as UUIDs whose text is used; any sequence or array.
            Integers that no 64-bit type holds become text.
        num_nodes: N.

    Returns:
        int64, uint64 or text, shape ``(N,)``.

    Raises:
        TypeError: if ids are floating-point numbers or of several types.
        ValueError: if there is not one id for each node, or an id occurs twice.

    Example:
        >>> as_ids(["b", "a"], 2), as_ids(range(3), 3), as_ids([2**63, 5], 2).dtype
        (array(['b', 'a'], dtype='<U1'), None, dtype('uint64'))
    """
    if ids is None:
        return None
    refuse_masked("ids", ids)
    values = ids.numpy() if isinstance(ids, Tensor) else np.asarray(ids)
    if values.dtype.kind == "O":
        values = _of_objects(values)
    elif values.dtype.kind == "f" and not isinstance(ids, np.ndarray):
        # NumPy makes floating-point numbers of a list with integers above and below 2**63.
        values = _of_objects(np.array(list(ids), dtype=object))  # type: ignore[call-overload]
    if values.dtype.kind not in _KINDS:
        raise TypeError(f"ids of nodes must be integers or text, got {values.dtype}; convert them to text")
    if values.dtype.kind in "iu":
        values = values.astype(np.uint64 if values.dtype == np.uint64 else np.int64)
        if values.dtype == np.uint64 and values.size and values.max() <= np.iinfo(np.int64).max:
            values = values.astype(np.int64)
        if np.array_equal(values, np.arange(num_nodes)):
            return None
    check_ids(values, num_nodes)
    return np.ascontiguousarray(values)


def check_ids(ids: np.ndarray | None, num_nodes: int) -> None:
    """Check the ids of a graph.

    Raises:
        TypeError: if they are not an array of integers or text.
        ValueError: if there is not one for each node, or an id occurs twice.
    """
    if ids is None:
        return
    if not isinstance(ids, np.ndarray) or ids.dtype.kind not in _KINDS:
        raise TypeError(f"ids must be a NumPy array of integers or text, got {type(ids).__name__}")
    if ids.shape != (num_nodes,):
        raise ValueError(f"ids must be one for each of {num_nodes} nodes, got shape {ids.shape}")
    ordered = np.sort(ids)
    is_repeated = ordered[1:] == ordered[:-1]
    if is_repeated.any():
        value = ordered[1:][is_repeated][0]
        nodes = np.flatnonzero(ids == value)
        raise ValueError(
            f"ids must be unique, got {value.item()!r} for the nodes in positions {nodes[0]} and {nodes[1]}; remove one"
        )


def find_ids(ids: np.ndarray | None, wanted: object, num_nodes: int) -> Tensor:
    """Return the positions of nodes with some ids; see ``Graph.index_of``."""
    values = np.atleast_1d(wanted.numpy() if isinstance(wanted, Tensor) else np.asarray(wanted))
    known = np.arange(num_nodes) if ids is None else ids
    is_text = known.dtype.kind == "U"
    if values.size and (values.dtype.kind == "U") != is_text:
        given = _KINDS.get(values.dtype.kind, values.dtype)
        raise TypeError(f"ids of this graph are {_KINDS[known.dtype.kind]}, got {given} such as {values[0].item()!r}")
    order = np.argsort(known, kind="stable")
    places = np.searchsorted(known, values, sorter=order).clip(max=num_nodes - 1)  # (n,) positions in `order`
    found = order[places]
    is_absent = known[found] != values
    if is_absent.any():
        value = values[is_absent][0].item()
        near = closest_words(value, known[:10_000].tolist(), limit=1) if is_text else []
        hint = f"; did you mean {near[0]!r}?" if near else f"; ids are for instance {known[:3].tolist()}"
        raise ValueError(f"an id must be that of a node, got {value!r}{hint}")
    return torch.from_numpy(found.astype(np.int64, copy=False))


def as_class_names(names: Sequence[Any] | None, num_classes: int) -> ClassNames | None:
    """Return names of classes as a tuple of Python values, or ``None`` for 0 to C - 1.

    Raises:
        TypeError, ValueError: as :func:`check_class_names`.

    Example:
        >>> as_class_names(["cat", "dog"], 2), as_class_names([0, 1], 2)
        (('cat', 'dog'), None)
    """
    if names is None:
        return None
    values = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
    check_class_names(values, num_classes)
    is_plain = all(type(name) is int for name in values) and values == tuple(range(num_classes))
    return None if is_plain else values


def check_class_names(names: ClassNames | None, num_classes: int) -> None:
    """Check the class names of a graph.

    Raises:
        TypeError: if a name is neither text nor a number.
        ValueError: if there is not one name for each class, or a name occurs twice.
    """
    if names is None:
        return
    if not isinstance(names, tuple) or not all(isinstance(name, str | int | float | bool) for name in names):
        raise TypeError(f"class_names must be a tuple of texts or numbers, got {names!r}")
    if len(names) != num_classes:
        raise ValueError(f"class_names must be one for each of {num_classes} classes, got {len(names)}")
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"class_names must be unique, got {repeated!r} twice; merge these classes or rename one")


def _of_objects(values: np.ndarray) -> np.ndarray:
    """Return objects as integers if all are, or as text; Python has integers of any size."""
    kinds = {type(value) for value in values.tolist()}
    if kinds and all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        low, high = min(values.tolist(), default=0), max(values.tolist(), default=0)
        if np.iinfo(np.int64).min <= low and high <= np.iinfo(np.int64).max:
            return values.astype(np.int64)
        if low >= 0 and high <= np.iinfo(np.uint64).max:
            return values.astype(np.uint64)
        return np.array([str(value) for value in values.tolist()])
    if len(kinds) > 1 or any(issubclass(kind, float) or kind is type(None) for kind in kinds):
        names = sorted(kind.__name__ for kind in kinds)
        raise TypeError(f"ids of nodes must be integers or text, all of one type, got {', '.join(names)}")
    return np.array([str(value) for value in values.tolist()])
