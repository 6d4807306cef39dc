"""Graphs that already exist in other libraries: DGL and PyTorch Geometric objects in memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.edges import SelfLoops
from gnnqlab.graph.graph import Graph

__all__ = ["edges_of_dgl", "from_dgl", "from_pyg"]

_FEATURES = ("feat", "features", "x")
_LABELS = ("label", "labels", "y")


def from_dgl(
    graph: Any,
    *,
    features: str | Tensor | None = None,
    labels: str | Tensor | None = None,
    name: str = "dgl",
    num_classes: int | None = None,
    split: int = 0,
    symmetrize: bool | None = None,
    deduplicate: bool | None = None,
    self_loops: SelfLoops | None = None,
    seed: int = 0,
) -> Graph:
    """Convert a homogeneous ``dgl.DGLGraph``.

    Args:
        graph: anything with ``edges()``, ``num_nodes()`` and ``ndata``.
        features: a tensor ``(N, D)`` or the key in ``ndata``; by default ``feat``, ``features`` or
            ``x``, whichever is there.
        labels: the same for targets; by default ``label``, ``labels`` or ``y``.
        name: how reports call the graph.
        num_classes: by default as the labels show.
        split: column of the masks where ``ndata`` has several splits.
        symmetrize, deduplicate, self_loops: edge rules; ``None`` means the papers', see
            ``build_csr``.
        seed: of the random 60/20/20 split that a graph without ``train_mask`` gets.

    Raises:
        TypeError, ValueError: if the object is not such a graph, or a key is not in ``ndata``.
    """
    edges = edges_of_dgl(graph, features=features, labels=labels, name=name, num_classes=num_classes, split=split)
    return edges.build(symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops, seed=seed)


def from_pyg(
    data: Any,
    *,
    name: str = "pyg",
    num_classes: int | None = None,
    split: int = 0,
    symmetrize: bool | None = None,
    deduplicate: bool | None = None,
    self_loops: SelfLoops | None = None,
    seed: int = 0,
) -> Graph:
    """Convert a homogeneous ``torch_geometric.data.Data``, or anything with its attributes.

    Read are ``edge_index`` ``(2, M)``, ``num_nodes``, ``x``, ``y``, ``train_mask``, ``val_mask``
    and ``test_mask``; all but the first may be missing or ``None``. The remaining arguments are
    those of ``from_dgl``.

    Raises:
        TypeError, ValueError: if the object has no ``edge_index`` of that shape.

    Example:
        >>> from types import SimpleNamespace
        >>> g = from_pyg(SimpleNamespace(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
        >>> g.num_nodes, g.num_edges
        (3, 7)
    """
    edge_index = getattr(data, "edge_index", None)
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise TypeError(
            f"from_pyg takes a homogeneous graph with edge_index of shape (2, M), got {type(data).__name__}; convert a "
            "heterogeneous one with to_homogeneous(), a sparse adj_t with to_edge_index"
        )
    src, dst = edge_index.cpu()
    x, y = getattr(data, "x", None), getattr(data, "y", None)
    num_nodes = getattr(data, "num_nodes", None)
    if num_nodes is None:
        num_nodes = x.shape[0] if x is not None else int(edge_index.max()) + 1 if edge_index.numel() else 0
    masks = [_mask(getattr(data, key, None), split) for key in ("train_mask", "val_mask", "test_mask")]
    return EdgeList(
        name=name,
        src=src,
        dst=dst,
        num_nodes=int(num_nodes),
        features=x,
        labels=_targets(y),
        train_idx=masks[0],
        val_idx=masks[1],
        test_idx=masks[2],
        num_classes=num_classes,
    ).build(symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops, seed=seed)


def edges_of_dgl(
    graph: Any,
    *,
    features: str | Tensor | None = None,
    labels: str | Tensor | None = None,
    name: str = "dgl",
    num_classes: int | None = None,
    split: int = 0,
) -> EdgeList:
    """What a DGL graph holds, before edge rules and a split are applied; see ``from_dgl``."""
    if not all(hasattr(graph, attribute) for attribute in ("edges", "num_nodes", "ndata")):
        raise TypeError(f"from_dgl takes a dgl.DGLGraph, got {type(graph).__name__}")
    if not getattr(graph, "is_homogeneous", True):
        raise TypeError("from_dgl takes a graph with one node and one edge type, got several; use dgl.to_homogeneous")
    src, dst = graph.edges()
    masks = [_mask(graph.ndata.get(key), split) for key in ("train_mask", "val_mask", "test_mask")]
    return EdgeList(
        name=name,
        src=src.cpu(),
        dst=dst.cpu(),
        num_nodes=int(graph.num_nodes()),
        features=_node_values("features", graph.ndata, features, _FEATURES),
        labels=_targets(_node_values("labels", graph.ndata, labels, _LABELS)),
        train_idx=masks[0],
        val_idx=masks[1],
        test_idx=masks[2],
        num_classes=num_classes,
    )


def _node_values(what: str, ndata: Any, given: str | Tensor | None, usual: tuple[str, ...]) -> Tensor | None:
    if isinstance(given, Tensor):
        return given
    if given is None:
        return next((ndata[key] for key in usual if key in ndata), None)
    if given not in ndata:
        raise ValueError(f"{what} must be a key of ndata, got {given!r}; there are {', '.join(ndata) or 'none'}")
    return ndata[given]


def _targets(labels: Tensor | None) -> Tensor | None:
    """One column of class numbers is single-label, however it is shaped."""
    if labels is None:
        return None
    flat = labels.flatten() if labels.dim() == 2 and labels.shape[1] == 1 else labels
    if flat.dim() == 1 and flat.dtype.is_floating_point:
        whole = torch.nan_to_num(flat, nan=-1.0)
        return whole.to(torch.int64) if torch.equal(whole, whole.round()) else flat
    return flat


def _mask(mask: Tensor | None, split: int) -> Tensor | None:
    if mask is None:
        return None
    if mask.dim() == 2:
        if not 0 <= split < mask.shape[1]:
            raise ValueError(f"split must be in [0, {mask.shape[1]}), the number of splits in the masks, got {split}")
        mask = mask[:, split]
    return mask.to(torch.bool)
