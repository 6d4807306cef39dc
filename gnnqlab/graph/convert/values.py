"""Named values of nodes and edges in graphs of other libraries; no value is dropped silently.

A node or an edge has one value, or one row, per name. A weight and named edge features are used; other edge values are
refused unless the caller drops them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.edge_attributes import as_array

__all__ = [
    "FEATURES", "LABELS", "WEIGHTS", "as_targets", "named_features", "node_values",
    "take_features", "take_weights",
]  # fmt: skip

FEATURES = ("feat", "features", "x")
LABELS = ("label", "labels", "y")
WEIGHTS = ("weight", "edge_weight")
"""Usual names of edge weights."""


def node_values(
    what: str,
    keys: Collection[str],
    column: Callable[[str], Any],
    given: object,
    usual: tuple[str, ...],
    *,
    of: str,
) -> Any:
    """Return node values: those passed, those of a key, or by default those of a usual key.

    Args:
        what: ``features`` or ``labels``, for the error.
        keys: existing keys.
        column: function that returns the values of a key.
        given: values, a key, or ``None``.
        usual: keys to try for ``None``; without any of them the result is ``None``.
        of: name of the collection of keys, for the error.

    Raises:
        ValueError: if ``given`` is a key that does not exist.

    Example:
        >>> node_values("labels", ["club"], {"club": [0, 1]}.get, "club", LABELS, of="ndata")
        [0, 1]
    """
    if given is None:
        return next((column(key) for key in usual if key in keys), None)
    if not isinstance(given, str):
        return given
    if given not in keys:
        raise ValueError(f"{what} must be a key of {of}, got {given!r}; there are {', '.join(keys) or 'none'}")
    return column(given)


def as_targets(labels: Any) -> Any:
    """Convert labels with a single column of class numbers to single-label targets ``(N,)``.

    Example:
        >>> as_targets(torch.tensor([[1.0], [float("nan")]])).tolist()
        [1, -1]
    """
    if not isinstance(labels, Tensor):
        return labels
    flat_labels = labels.flatten() if labels.dim() == 2 and labels.shape[1] == 1 else labels  # (N, 1) -> (N,)
    if flat_labels.dim() == 1 and flat_labels.dtype.is_floating_point:
        class_numbers = torch.nan_to_num(flat_labels, nan=-1.0)  # NaN: unlabelled
        # Fractions are returned unchanged, and refused by the check of labels.
        return class_numbers.to(torch.int64) if torch.equal(class_numbers, class_numbers.round()) else flat_labels
    return flat_labels


def take_weights(
    reader: str, edge_data: Mapping[str, Any], given: object = None, *, drop: bool, features: Collection[str] = ()
) -> Any:
    """Return the edge weights, ``None`` if there are none; refuse other values unless they are to be dropped.

    Edge features must be named by the caller. Values that are 1 on every edge carry no information, and DGL's internal
    values (``_ID``, ``_TYPE``, ``__orig__``) do not describe the graph: both are ignored.

    Args:
        reader: name of the reading function, for the error.
        edge_data: values by name, each with one entry per edge.
        given: the weights, or their name; by default one of ``WEIGHTS`` that exists.
        features: names of the values used as features.
        drop: the reader's ``drop_edge_data``: True to drop all values but weights passed as ``given``.

    Raises:
        ValueError: if there are other values and ``drop`` is False, or a name does not exist.

    Example:
        >>> take_weights("from_pyg", {"edge_weight": np.array([0.5, 1.0]), "edge_attr": np.ones(2)}, drop=False)
        array([0.5, 1. ])
        >>> take_weights("from_pyg", {"edge_attr": np.array([0.5, 1.0])}, drop=False)
        Traceback (most recent call last):
        ValueError: from_pyg takes one weight per edge (weight, edge_weight) and no other values, got edge_attr; ...
    """
    name = given if isinstance(given, str) else None
    if name is not None and name not in edge_data:
        known_names = ", ".join(edge_data) or "none"
        raise ValueError(f"edge_weights must name values that edges have, got {name!r}; there are {known_names}")
    if given is None and not drop:
        name = next((key for key in WEIGHTS if key in edge_data and key not in features), None)
    extras = [
        key
        for key, values in edge_data.items()
        if key != name and key not in features and not key.startswith("_") and not _all_one(values)
    ]
    if extras and not drop:
        raise ValueError(
            f"{reader} takes one weight per edge ({', '.join(WEIGHTS)}) and no other values, got {', '.join(extras)}; "
            f"use gnnqlab.load(..., drop_edge_data=True) to ignore these values, edge_features={extras!r} to use them "
            "as features, or edge_weights= of from_dgl, from_pyg or from_networkx to use one of them as weights"
        )
    return given if name is None else edge_data[name]


def named_features(given: object) -> tuple[str, ...]:
    """Return the names in a reader's argument ``edge_features=``; none if it holds the values themselves.

    Example:
        >>> named_features("edge_attr"), named_features(["length", "lanes"]), named_features(np.ones((3, 2)))
        (('edge_attr',), ('length', 'lanes'), ())
    """
    if isinstance(given, str):
        return (given,)
    are_names = isinstance(given, Sequence) and bool(given) and all(isinstance(name, str) for name in given)
    return tuple(given) if are_names else ()  # type: ignore[arg-type]


def take_features(given: object, known: Collection[str], column: Callable[[str], Any]) -> Any:
    """Return edge features ``(M, F)``: named ones, concatenated in the order of the names, or the values passed.

    Args:
        given: ``None``, a name, a sequence of names, or the values.
        known: names of the existing edge values.
        column: function that returns the values of a name, ``(M,)`` or ``(M, k)``.

    Raises:
        ValueError: if a name does not exist, or occurs twice.

    Example:
        >>> columns = {"length": np.array([1.0, 2.0]), "kind": np.array([[0, 1], [1, 0]])}
        >>> take_features(["kind", "length"], columns, columns.__getitem__).tolist()
        [[0.0, 1.0, 1.0], [1.0, 0.0, 2.0]]
    """
    names = named_features(given)
    if not names:
        return given
    unknown_names = [name for name in names if name not in known]
    if unknown_names or len(set(names)) < len(names):
        wrong_name = unknown_names[0] if unknown_names else next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"edge_features must name values that edges have, each once, got {wrong_name!r}; there are "
            f"{', '.join(known) or 'none'}"
        )
    columns = [_rows(column(name)) for name in names]  # (M, k) each
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)  # (M, F)


def _rows(values: Any) -> np.ndarray:
    array = as_array(values)
    return array[:, None] if array.ndim == 1 else array  # (M,) -> (M, 1)


def _all_one(values: object) -> bool:
    array = as_array(values)
    return array.dtype.kind in "biuf" and bool((array == 1).all())
