"""Values of nodes and edges as other libraries keep them, by name: those a caller asked for are found, none is dropped.

A node or an edge has one value, or one row, a name. A weight and named features of edges are taken; others are refused
unless the caller lets them go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnnqlab.graph.edge_attributes import as_array

__all__ = [
    "FEATURES", "LABELS", "MASKS", "WEIGHTS", "as_mask_column", "as_targets", "named_features", "node_values",
    "take_features", "take_weights",
]  # fmt: skip

FEATURES = ("feat", "features", "x")
LABELS = ("label", "labels", "y")
MASKS = ("train_mask", "val_mask", "test_mask")
WEIGHTS = ("weight", "edge_weight")
"""What weights of edges are usually called."""


def node_values(
    what: str,
    keys: Collection[str],
    column: Callable[[str], Any],
    given: object,
    usual: tuple[str, ...],
    *,
    of: str,
) -> Any:
    """Return what a caller gave: values as they are, or those under a key; by default under a usual one.

    Args:
        what: ``features`` or ``labels``, for the error.
        keys: there are.
        column: returns the values under a key.
        given: values, a key, or ``None``.
        usual: keys to look for where nothing was given; without any of them there are no such values.
        of: what the keys are those of, for the error.

    Raises:
        ValueError: if a key was given that is not there.

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
    """Return labels with one column of class numbers made single-label, however it is shaped.

    Example:
        >>> as_targets(torch.tensor([[1.0], [float("nan")]])).tolist()
        [1, -1]
    """
    if not isinstance(labels, Tensor):
        return labels
    flat = labels.flatten() if labels.dim() == 2 and labels.shape[1] == 1 else labels
    if flat.dim() == 1 and flat.dtype.is_floating_point:
        whole = torch.nan_to_num(flat, nan=-1.0)
        return whole.to(torch.int64) if torch.equal(whole, whole.round()) else flat
    return flat


def as_mask_column(mask: Tensor | None, split: int) -> Tensor | None:
    """Return one split's mask; ``split`` is its column where there are several.

    Raises:
        ValueError: if there are fewer columns.
    """
    if mask is None:
        return None
    if mask.dim() == 2:
        if not 0 <= split < mask.shape[1]:
            raise ValueError(f"split must be in [0, {mask.shape[1]}), the number of splits in the masks, got {split}")
        mask = mask[:, split]
    return mask.to(torch.bool)


def take_weights(
    reader: str, edge_data: Mapping[str, Any], given: object = None, *, drop: bool, features: Collection[str] = ()
) -> Any:
    """Return the weights of edges, ``None`` if there are none; refuse other values, unless the caller lets them go.

    What models make of features of edges is for them to say, so these are named. A 1 on every edge says nothing
    beyond the edge, and what DGL notes for itself (``_ID``, ``_TYPE``, ``__orig__``) is about the library: both pass.

    Args:
        reader: the function that reads the graph, for the error.
        edge_data: values by name, each with an entry an edge.
        given: the weights, or their name; by default one of ``WEIGHTS`` that is there.
        features: names of values that are taken as features.
        drop: what the reader's ``drop_edge_data`` says: all values go but weights that were ``given``.

    Raises:
        ValueError: if there are other values and ``drop`` is false, or a name is none of those there.

    Example:
        >>> take_weights("from_pyg", {"edge_weight": np.array([0.5, 1.0]), "edge_attr": np.ones(2)}, drop=False)
        array([0.5, 1. ])
        >>> take_weights("from_pyg", {"edge_attr": np.array([0.5, 1.0])}, drop=False)
        Traceback (most recent call last):
        ValueError: from_pyg takes one weight an edge (weight, edge_weight) and no other values, got edge_attr; ...
    """
    taken = given if isinstance(given, str) else None
    if taken is not None and taken not in edge_data:
        known = ", ".join(edge_data) or "none"
        raise ValueError(f"edge_weights must name values that edges have, got {taken!r}; there are {known}")
    if given is None and not drop:
        taken = next((key for key in WEIGHTS if key in edge_data and key not in features), None)
    others = [
        key
        for key, values in edge_data.items()
        if key != taken and key not in features and not key.startswith("_") and not _all_one(values)
    ]
    if others and not drop:
        raise ValueError(
            f"{reader} takes one weight an edge ({', '.join(WEIGHTS)}) and no other values, got {', '.join(others)}; "
            f"gnnqlab.load(..., drop_edge_data=True) makes a graph without these values, edge_features={others!r} one "
            "that has them as features, edge_weights= of from_dgl, from_pyg and from_networkx names those that are "
            "weights"
        )
    return given if taken is None else edge_data[taken]


def named_features(given: object) -> tuple[str, ...]:
    """Return the names among what a reader's ``edge_features=`` says; none where it is the values themselves.

    Example:
        >>> named_features("edge_attr"), named_features(["length", "lanes"]), named_features(np.ones((3, 2)))
        (('edge_attr',), ('length', 'lanes'), ())
    """
    if isinstance(given, str):
        return (given,)
    listed = isinstance(given, Sequence) and bool(given) and all(isinstance(name, str) for name in given)
    return tuple(given) if listed else ()  # type: ignore[arg-type]


def take_features(given: object, known: Collection[str], column: Callable[[str], Any]) -> Any:
    """Return features of edges ``(M, F)``: those named, side by side in the order of the names, or those given.

    Args:
        given: ``None``, a name, a sequence of names, or the values.
        known: names of the values that edges have.
        column: returns the values of a name, ``(M,)`` or ``(M, k)``.

    Raises:
        ValueError: if a name is none of those there, or stands twice.

    Example:
        >>> columns = {"length": np.array([1.0, 2.0]), "kind": np.array([[0, 1], [1, 0]])}
        >>> take_features(["kind", "length"], columns, columns.__getitem__).tolist()
        [[0.0, 1.0, 1.0], [1.0, 0.0, 2.0]]
    """
    names = named_features(given)
    if not names:
        return given
    unknown = [name for name in names if name not in known]
    if unknown or len(set(names)) < len(names):
        wrong = unknown[0] if unknown else next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"edge_features must name values that edges have, each once, got {wrong!r}; there are "
            f"{', '.join(known) or 'none'}"
        )
    columns = [_rows(column(name)) for name in names]
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)


def _rows(values: Any) -> np.ndarray:
    array = as_array(values)
    return array[:, None] if array.ndim == 1 else array


def _all_one(values: object) -> bool:
    array = as_array(values)
    return array.dtype.kind in "biuf" and bool((array == 1).all())
