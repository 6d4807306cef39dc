"""What edges carry beside their two ends: a weight and named features are taken, nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["WEIGHTS", "refuse_attention", "refuse_features", "take_weights"]

WEIGHTS = ("weight", "edge_weight")
"""What weights of edges are usually called."""


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


def refuse_attention(who: str) -> None:
    """Refuse attention on a graph whose edges have weights.

    Attention finds the weight of a neighbour itself; the paper (Velickovic et al., ICLR 2018) has no other, and
    libraries do not agree: PyTorch Geometric's ``GATConv`` takes none, DGL's multiplies the result of the softmax, so
    that shares no longer add up to 1.

    Raises:
        ValueError: always.
    """
    raise ValueError(
        f"{who} weighs neighbours by attention, which has no place for weights of edges, got a graph that has some; "
        "choose a model that sums, as gcn or graphsage, or train on graph.without_edge_weights()"
    )


def refuse_features(who: str, why: str) -> None:
    """Refuse a graph whose edges have features that nobody would look at.

    Raises:
        ValueError: always.

    Example:
        >>> refuse_features("model gcn", "sums rows of nodes alone")
        Traceback (most recent call last):
        ValueError: model gcn sums rows of nodes alone, got a graph whose edges have features; choose model gat or ...
    """
    raise ValueError(
        f"{who} {why}, got a graph whose edges have features; choose model gat or graphsage under a cut of nodes, or "
        "take graph.without_edge_features()"
    )


def _all_one(values: object) -> bool:
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    return array.dtype.kind in "biuf" and bool((array == 1).all())
