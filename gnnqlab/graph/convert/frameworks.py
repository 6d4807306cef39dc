"""Graphs of other libraries in memory: from DGL and PyTorch Geometric, and to DGL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from gnnqlab.graph.convert.splits import SPLIT_NAMES, Split, read_split
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

__all__ = ["edges_of_dgl", "edges_of_pyg", "from_dgl", "from_pyg", "to_dgl"]


def from_dgl(
    graph: Any,
    *,
    features: str | Tensor | None = None,
    labels: str | Tensor | None = None,
    edge_weights: str | Tensor | None = None,
    edge_features: str | Sequence[str] | Tensor | None = None,
    name: str = "dgl",
    num_classes: int | None = None,
    split: int = 0,
    drop_edge_data: bool = False,
    symmetrize: bool | None = None,
    deduplicate: bool | None = None,
    self_loops: SelfLoops | None = None,
    seed: int = 0,
) -> Graph:
    """Convert a homogeneous ``dgl.DGLGraph``.

    Args:
        graph: anything with ``edges()``, ``num_nodes()`` and ``ndata``.
        features: a tensor ``(N, D)`` or the key in ``ndata``; by default ``feat``, ``features`` or
            ``x``, the first that exists.
        labels: targets, likewise; by default ``label``, ``labels`` or ``y``.
        edge_weights: a tensor ``(M,)`` of finite numbers of at least 0 or the key in ``edata``; by default ``weight``
            or ``edge_weight``, the first that exists; see ``Graph.from_edges``.
        edge_features: a tensor ``(M, F)`` of finite numbers, the key in ``edata``, or several keys, whose values are
            concatenated; see ``Graph.from_edges``.
        name: name of the graph in reports.
        num_classes: number of classes; by default that of the labels.
        split: column of the masks if ``ndata`` has several splits.
        drop_edge_data: True to ignore values in ``edata`` other than ``edge_weights=`` and ``edge_features=``. By
            default a graph with other values than a weight is refused.
        symmetrize, deduplicate, self_loops: edge rules; ``None`` means the papers', see
            ``build_csr``.
        seed: seed of the random 60/20/20 split of a graph without ``train_mask``.

    Raises:
        TypeError, ValueError: if the object is not such a graph, a key is missing, a weight is negative, NaN or
            infinite, or edges have other values.
    """
    edges = edges_of_dgl(
        graph,
        features=features,
        labels=labels,
        edge_weights=edge_weights,
        edge_features=edge_features,
        split=split,
        drop_edge_data=drop_edge_data,
    )
    edges.name, edges.num_classes = name, num_classes
    return edges.build(symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops, seed=seed)


def to_dgl(graph: Graph) -> Any:
    """Convert a graph to a ``dgl.DGLGraph`` with the same edges, including self loops, for models written in DGL.

    Its ``ndata`` has ``train_mask``, ``val_mask``, ``test_mask`` and, if the graph has them, ``feat`` (float32, dense)
    and ``label``; its ``edata`` has ``weight`` (float32) if edges have weights, and ``feat`` (float32) if they have
    features.

    Args:
        graph: the graph; a DGL edge leads from the neighbour in a row of the CSR to the node of the row.

    Raises:
        RuntimeError: if DGL is not installed.
    """
    try:
        import dgl
    except ImportError as error:
        raise RuntimeError(f"to_dgl needs the package dgl, got {error}; pip install 'gnnqlab[dgl]'") from error
    src, dst = graph.edge_list()  # (E,), (E,)
    dgl_graph = dgl.graph((src.long(), dst.long()), num_nodes=graph.num_nodes)
    if graph.edge_weights is not None:
        dgl_graph.edata[WEIGHTS[0]] = graph.edge_weights
    if graph.edge_features is not None:
        dgl_graph.edata["feat"] = graph.edge_features
    if graph.num_features:
        dgl_graph.ndata["feat"] = graph.features if isinstance(graph.features, Tensor) else graph.features.to_dense()
    for name in ("train_mask", "val_mask", "test_mask"):
        dgl_graph.ndata[name] = getattr(graph, name)
    if graph.num_classes:
        dgl_graph.ndata["label"] = graph.labels
    return dgl_graph


def from_pyg(
    data: Any,
    *,
    edge_weights: str | Tensor | None = None,
    edge_features: str | Sequence[str] | Tensor | None = None,
    name: str = "pyg",
    num_classes: int | None = None,
    split: int = 0,
    drop_edge_data: bool = False,
    symmetrize: bool | None = None,
    deduplicate: bool | None = None,
    self_loops: SelfLoops | None = None,
    seed: int = 0,
) -> Graph:
    """Convert a homogeneous ``torch_geometric.data.Data``, or anything with its attributes.

    Uses ``edge_index`` ``(2, M)``, ``edge_weight``, ``num_nodes``, ``x``, ``y``, ``train_mask``, ``val_mask``
    and ``test_mask``; all but the first may be missing or ``None``. The other arguments are those of
    ``from_dgl``; ``edge_features="edge_attr"`` uses this attribute as features, ``edge_weights="edge_attr"`` as
    weights; ``drop_edge_data`` applies to ``edge_weight``, ``edge_attr`` and other attributes of edges.

    Raises:
        TypeError, ValueError: if the object has no ``edge_index`` of that shape, a weight is negative, NaN or infinite,
            or edges have other values.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> g = from_pyg(SimpleNamespace(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
        >>> g.num_nodes, g.num_edges
        (3, 7)
    """
    edges = edges_of_pyg(
        data,
        edge_weights=edge_weights,
        edge_features=edge_features,
        split=split,
        drop_edge_data=drop_edge_data,
    )
    edges.name, edges.num_classes = name, num_classes
    return edges.build(symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops, seed=seed)


def edges_of_dgl(
    graph: Any,
    *,
    features: str | Tensor | None = None,
    labels: str | Tensor | None = None,
    edge_weights: str | Tensor | None = None,
    edge_features: str | Sequence[str] | Tensor | None = None,
    split: int = 0,
    drop_edge_data: bool = False,
) -> EdgeList:
    """Read a DGL graph, without applying edge rules and a split; see ``from_dgl``."""
    if not all(hasattr(graph, attribute) for attribute in ("edges", "num_nodes", "ndata")):
        raise TypeError(f"from_dgl takes a dgl.DGLGraph, got {type(graph).__name__}")
    if not getattr(graph, "is_homogeneous", True):
        raise TypeError("from_dgl takes a graph with one node and one edge type, got several; use dgl.to_homogeneous")
    edata = getattr(graph, "edata", {})
    feature_names = named_features(edge_features)
    weights = take_weights("from_dgl", edata, edge_weights, drop=drop_edge_data, features=feature_names)
    src, dst = graph.edges()  # (M,), (M,)
    keys, column = list(graph.ndata), graph.ndata.__getitem__
    num_nodes = int(graph.num_nodes())
    parts = read_split(keys, column, num_nodes, split=split)
    feature_key, label_key = _key(keys, features, FEATURES), _key(keys, labels, LABELS)
    return EdgeList(
        name="dgl",
        src=src.cpu(),
        dst=dst.cpu(),
        num_nodes=num_nodes,
        edge_weights=weights,
        edge_features=take_features(edge_features, list(edata), lambda key: edata[key]),
        features=node_values("features", keys, column, features, FEATURES, of="ndata"),
        labels=as_targets(node_values("labels", keys, column, labels, LABELS, of="ndata")),
        train_idx=parts.train,
        val_idx=parts.val,
        test_idx=parts.test,
        notes=_notes(parts, "ndata", [key for key in keys if key not in (feature_key, label_key)]),
    )


def edges_of_pyg(
    data: Any,
    *,
    edge_weights: str | Tensor | None = None,
    edge_features: str | Sequence[str] | Tensor | None = None,
    split: int = 0,
    drop_edge_data: bool = False,
) -> EdgeList:
    """Read a PyG graph, without applying edge rules and a split; see ``from_pyg``."""
    edge_index = getattr(data, "edge_index", None)
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise TypeError(
            f"from_pyg takes a homogeneous graph with edge_index of shape (2, M), got {type(data).__name__}; convert a "
            "heterogeneous one with to_homogeneous(), a sparse adj_t with to_edge_index"
        )
    # PyG names the values of edges ``edge_...``.
    edge_keys = [key for key in _keys(data) if key.startswith("edge_") and key != "edge_index"]
    edge_data = {key: getattr(data, key) for key in edge_keys if getattr(data, key) is not None}
    edge_type = edge_data.get("edge_type")
    if isinstance(edge_type, Tensor) and not bool((edge_type != edge_type[:1]).any()):
        del edge_data["edge_type"]  # one type of edges carries no information
    of_edges = named_features(edge_features)
    weights = take_weights("from_pyg", edge_data, edge_weights, drop=drop_edge_data, features=of_edges)
    src, dst = edge_index.cpu()  # (2, M) -> (M,), (M,)
    x, y = getattr(data, "x", None), getattr(data, "y", None)
    num_nodes = getattr(data, "num_nodes", None)
    if num_nodes is None:
        # Without num_nodes and features, isolated nodes with the highest ids are not counted.
        num_nodes = x.shape[0] if x is not None else int(edge_index.max()) + 1 if edge_index.numel() else 0
    keys = [key for key in _keys(data) if getattr(data, key, None) is not None]
    parts = read_split(keys, lambda key: getattr(data, key), int(num_nodes), split=split)
    _refuse_types(data, keys)
    return EdgeList(
        name="pyg",
        src=src,
        dst=dst,
        num_nodes=int(num_nodes),
        edge_weights=weights,
        edge_features=take_features(edge_features, edge_data, edge_data.__getitem__),
        features=x,
        labels=as_targets(y),
        train_idx=parts.train,
        val_idx=parts.val,
        test_idx=parts.test,
        notes=_notes(parts, "the data", [key for key in keys if key not in _USED and not key.startswith("edge_")]),
    )


_USED = ("x", "y", "num_nodes", "name")


def _refuse_types(data: Any, keys: Sequence[str]) -> None:
    """Refuse nodes of several types, which ``to_homogeneous`` marks by a number per node."""
    types = getattr(data, "node_type", None) if "node_type" in keys else None
    if types is not None and bool((types != types[0]).any()):
        raise ValueError(
            f"from_pyg takes a graph with one type of nodes, got node_type with {int(types.unique().numel())} types; "
            "add the type to the features, for instance one-hot, and delete data.node_type"
        )


def _notes(parts: Split, source: str, left_out: Sequence[str]) -> tuple[str, ...]:
    """Return notes on the split, and on values that are not used."""
    others = [key for key in left_out if key not in SPLIT_NAMES and not key.startswith("_")]
    notes = [parts.note] if parts.note else []
    return (*notes, f"left out of {source}: {', '.join(others)}") if others else tuple(notes)


def _key(keys: Sequence[str], given: object, usual: Sequence[str]) -> object:
    """Return the key of node values that is used, if it is a key."""
    return (
        next((key for key in usual if key in keys), None)
        if given is None
        else given
        if isinstance(given, str)
        else None
    )


def _keys(data: Any) -> list[str]:
    """Return the attribute names of a ``Data``: ``keys`` is a method in current PyG, a property in older versions."""
    keys = getattr(data, "keys", None)
    return list(keys() if callable(keys) else vars(data) if keys is None else keys)
