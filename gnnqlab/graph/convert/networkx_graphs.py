"""Graphs of networkx in memory."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch

from gnnqlab.graph.convert.splits import SPLIT_NAMES, read_split
from gnnqlab.graph.convert.values import (
    FEATURES,
    LABELS,
    WEIGHTS,
    as_targets,
    named_features,
    node_values,
    take_features,
    take_weights,
)
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.edges import SelfLoops
from gnnqlab.graph.graph import Graph

__all__ = ["edges_of_networkx", "from_networkx"]


def from_networkx(
    graph: Any,
    *,
    features: object = None,
    labels: object = None,
    edge_weights: str | None = None,
    edge_features: str | Sequence[str] | None = None,
    name: str | None = None,
    num_classes: int | None = None,
    drop_edge_data: bool = False,
    symmetrize: bool | None = None,
    deduplicate: bool | None = None,
    self_loops: SelfLoops | None = None,
    seed: int = 0,
) -> Graph:
    """Convert a ``networkx`` graph of any of its four classes.

    Node ``i`` is the ``i``-th of ``list(graph.nodes)``, the order in which nodes were added; ``graph.ids`` has the
    nodes. The edges of a ``DiGraph`` keep their direction only with ``symmetrize=False``; parallel edges of a
    ``MultiGraph`` count separately only with ``deduplicate=False``.

    Args:
        graph: the graph; the attributes ``train_mask``, ``val_mask`` and ``test_mask`` of its nodes are its split,
            or ``split`` with the words train, val and test.
        features: values of shape ``(N, D)`` in node order, or the attribute that holds a number or a list of numbers
            on every node; by default ``feat``, ``features`` or ``x``, the first that exists.
        labels: integer targets, likewise; by default ``label``, ``labels`` or ``y``.
        name: name of the graph in reports; by default ``graph.name``, or ``networkx`` if that is empty.
        num_classes: number of classes; by default that of the labels.
        edge_weights: the attribute that holds a finite number of at least 0 on every edge; by default ``weight`` or
            ``edge_weight``, the first that exists; see ``Graph.from_edges``.
        edge_features: the attribute that holds a finite number, or a list of numbers of equal length, on every edge;
            or several attributes, whose values are concatenated.
        drop_edge_data: True to ignore edge attributes other than ``edge_weights=`` and ``edge_features=``. By default
            a graph with other attributes than a weight is refused.
        symmetrize, deduplicate, self_loops: edge rules; ``None`` means the papers', see ``build_csr``.
        seed: seed of the random 60/20/20 split of a graph with labels and without ``train_mask``.

    Raises:
        TypeError, ValueError: if the object is not such a graph, an attribute is missing on a node or not a number, or
            edges have other values.

    Example:
        >>> import networkx as nx
        >>> g = from_networkx(nx.path_graph(["a", "b", "c"]), features=[[1.0], [2.0], [3.0]])
        >>> g.name, g.num_edges, g.features.flatten().tolist()
        ('networkx', 7, [1.0, 2.0, 3.0])
    """
    edges = edges_of_networkx(
        graph,
        features=features,
        labels=labels,
        edge_weights=edge_weights,
        edge_features=edge_features,
        drop_edge_data=drop_edge_data,
    )
    edges.name, edges.num_classes = name or edges.name, num_classes
    return edges.build(symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops, seed=seed)


def edges_of_networkx(
    graph: Any,
    *,
    features: object = None,
    labels: object = None,
    edge_weights: str | None = None,
    edge_features: str | Sequence[str] | None = None,
    drop_edge_data: bool = False,
) -> EdgeList:
    """Read a networkx graph, without applying edge rules and a split; see ``from_networkx``."""
    if not all(hasattr(graph, attribute) for attribute in ("nodes", "edges", "is_directed", "is_multigraph")):
        raise TypeError(f"from_networkx takes a networkx graph, got {type(graph).__name__}")
    nodes = list(graph.nodes)
    number = {node: index for index, node in enumerate(nodes)}
    edges = list(graph.edges(data=True))
    edge_data, feature_names = _edge_data(edges), named_features(edge_features)
    weights = take_weights("from_networkx", edge_data, edge_weights, drop=drop_edge_data, features=feature_names)
    if weights is not None:
        _refuse_words(edge_weights or next(key for key in WEIGHTS if key in edge_data), edges)
    values = take_features(edge_features, edge_data, lambda key: _edge_column(key, edges))
    src = np.fromiter((number[u] for u, _, _ in edges), dtype=np.int64, count=len(edges))  # (M,)
    dst = np.fromiter((number[v] for _, v, _ in edges), dtype=np.int64, count=len(edges))
    if not graph.is_directed():  # networkx lists an undirected edge once; a self loop must stay single
        links = src != dst
        src, dst = np.concatenate([src, dst[links]]), np.concatenate([dst, src[links]])
        weights, values = (None if each is None else np.concatenate([each, each[links]]) for each in (weights, values))

    rows = [graph.nodes[node] for node in nodes]
    keys = list(dict.fromkeys(key for row in rows for key in row))  # in the order of first use
    notes = []
    if {"x", "y"} <= set(keys) and _are_coordinates(rows):
        # Positions on a map or page have the names of features and labels.
        left_out = [key for key, given in (("x", features), ("y", labels)) if given is None]
        keys = [key for key in keys if key not in left_out]
        notes += [f"left out: attribute {key}, which looks like a coordinate" for key in left_out]

    def column(key: str) -> torch.Tensor:
        return _column(key, nodes, rows)

    label_key = next((key for key in LABELS if key in keys), None) if labels is None else labels
    words = _words(label_key, rows) if isinstance(label_key, str) else None
    if words is not None and labels is None and len(set(words)) == len(words) > 1:
        notes.append(f"left out: attribute {label_key}, a different word on every node, which is a name, not a class")
        keys = [key for key in keys if key != label_key]
        words = None

    def split_values(key: str) -> Any:
        found_words = _words(key, rows)
        return column(key) if found_words is None else np.array(found_words, dtype=object)

    parts = read_split([key for key in keys if isinstance(key, str)], split_values, len(nodes))
    if {"x", "y"} <= set(keys) and features is labels is None and isinstance(rows[0].get("x"), Real):
        notes.append("x, one number, is the feature of nodes and y the class; features= and labels= choose others")
    location = "the nodes' attributes"
    return EdgeList(
        name=str(graph.name) or "networkx",
        src=src,
        dst=dst,
        num_nodes=len(nodes),
        edge_weights=weights,
        edge_features=values,
        features=_as_rows(node_values("features", keys, column, features, FEATURES, of=location)),
        labels=words or as_targets(node_values("labels", keys, column, labels, LABELS, of=location)),
        train_idx=parts.train,
        val_idx=parts.val,
        test_idx=parts.test,
        both_ways=not graph.is_directed(),
        ids=_ids(nodes),
        notes=(*notes, *((parts.note,) if parts.note else ()), *_unused(keys, features, labels)),
    )


def _words(key: str, rows: list[dict[str, Any]]) -> list[str | None] | None:
    """Return an attribute that holds words, ``None`` where it is missing; ``None`` for other attributes."""
    values = [row.get(key) for row in rows]
    return (
        values
        if any(isinstance(value, str) for value in values)
        and all(value is None or isinstance(value, str) for value in values)
        else None
    )


def _are_coordinates(rows: list[dict[str, Any]]) -> bool:
    """Return True if x and y are one number each on every node, and y has fractions or many values."""
    values = [(row.get("x"), row.get("y")) for row in rows]
    if not all(isinstance(x, Real) and isinstance(y, Real) for x, y in values):
        return False
    heights = [float(y) for _, y in values]  # type: ignore[arg-type]
    return any(y != int(y) for y in heights) or len(set(heights)) > max(10, len(rows) // 10) or max(heights) > 100


def _unused(keys: list[str], features: object, labels: object) -> tuple[str, ...]:
    """Return a note on node attributes that are not used."""
    used = {
        next((key for key in usual if key in keys), None) if given is None else given
        for given, usual in ((features, FEATURES), (labels, LABELS))
        if given is None or isinstance(given, str)
    }
    others = [str(key) for key in keys if key not in used and key not in SPLIT_NAMES]
    return (f"left out of the nodes' attributes: {', '.join(others)}",) if others else ()


def _ids(nodes: list[Any]) -> list[Any] | None:
    """Return the nodes as ids, if they are integers or texts; others as text, if that is unique."""
    kinds = {type(node) for node in nodes}
    if len(kinds) == 1 and kinds <= {int, str}:
        return nodes
    texts = [str(node) for node in nodes]
    return texts if len(set(texts)) == len(texts) else None


def _refuse_words(key: str, edges: list[tuple[Any, Any, dict[str, Any]]]) -> None:
    """Refuse weights that are not numbers, with the value and its edge."""
    for u, v, values in edges:
        if not isinstance(values.get(key), Real):
            shown = repr(values[key]) if key in values else "none"
            raise ValueError(
                f"attribute {key!r} must be a number on every edge, as a weight is, got {shown} on the edge {u!r} - "
                f"{v!r}; convert it, or pass drop_edge_data=True"
            )


def _edge_data(edges: list[tuple[Any, Any, dict[str, Any]]]) -> dict[str, np.ndarray]:
    """Return every attribute as one number per edge, with NaN for other values, which is invalid as a weight."""
    keys = dict.fromkeys(key for _, _, values in edges for key in values)
    return {
        str(key): np.array([values[key] if isinstance(values.get(key), Real) else np.nan for _, _, values in edges])
        for key in keys
    }


def _edge_column(key: str, edges: list[tuple[Any, Any, dict[str, Any]]]) -> np.ndarray:
    """Return one attribute of all edges, ``(M,)`` or ``(M, k)``."""
    gaps = [(u, v) for u, v, values in edges if key not in values]
    if gaps:
        raise ValueError(
            f"attribute {key!r} must be on every edge, got {len(gaps)} of {len(edges)} edges without it, the first "
            f"is {gaps[0]!r}; set it there"
        )
    rows = [np.asarray(values[key]) for _, _, values in edges]  # () or (k,) each
    shapes = sorted({row.shape for row in rows})
    if len(shapes) > 1 or any(len(shape) > 1 for shape in shapes):
        raise ValueError(
            f"attribute {key!r} must be a number, or a list of as many numbers on every edge, got shapes {shapes[0]} "
            f"and {shapes[-1]}"
        )
    return np.array(rows)  # (M,) or (M, k)


def _column(key: str, nodes: list[Any], rows: list[dict[str, Any]]) -> torch.Tensor:
    """Return one attribute of all nodes, ``(N,)`` or ``(N, D)``."""
    gaps = [node for node, row in zip(nodes, rows) if key not in row]
    if gaps:
        raise ValueError(
            f"attribute {key!r} must be on every node, got {len(gaps)} of {len(nodes)} nodes without it, the first "
            f"is {gaps[0]!r}; set it there (label -1: unlabelled), or pass the values in node order"
        )
    try:
        # NumPy refuses rows of different lengths.
        values = np.array([np.asarray(row[key]) for row in rows])
    except ValueError:
        lengths = sorted({np.size(row[key]) for row in rows})
        raise ValueError(
            f"attribute {key!r} must have as many numbers on every node, got {lengths[0]} to {lengths[-1]}"
        ) from None
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"attribute {key!r} must hold numbers, got {rows[0][key]!r} on node {nodes[0]!r}; pass numbers in node "
            "order instead, for instance classes counted from 0"
        )
    return torch.from_numpy(values)


def _as_rows(features: Any) -> Any:
    """Reshape one number per node to a column, ``(N,) -> (N, 1)``."""
    return features[:, None] if isinstance(features, torch.Tensor) and features.dim() == 1 else features
