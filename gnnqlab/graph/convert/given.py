"""Graphs of other libraries as arguments of ``load``, recognized by their attributes.

No library is imported for this: an object with the attributes of a DGL graph is read as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnnqlab.graph.convert.annotated_matrices import edges_of_anndata
from gnnqlab.graph.convert.frameworks import edges_of_dgl, edges_of_pyg
from gnnqlab.graph.convert.networkx_graphs import edges_of_networkx
from gnnqlab.graph.convert.scipy_matrices import edges_of_scipy
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.graph import Graph

__all__ = ["GraphLike", "edges_of"]

GraphLike = Graph | str | Path | Any
"""A ``Graph``, a name, a path, or a graph of another library; see ``gnnqlab.load``."""


@dataclass(frozen=True)
class _Kind:
    """Kind of graph of another library: its name, a test and a reader."""

    label: str
    has: Callable[[Any], bool]
    read: Callable[..., EdgeList]
    names_values: bool = True
    """True if edges can have several named values."""
    has_splits: bool = False
    """True if nodes can have several splits."""


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda graph: all(hasattr(graph, name) for name in names)


def _is_of_pyg(graph: Any) -> bool:
    """Return True for PyG graphs, also for ``HeteroData`` and ``adj_t``, which the reader refuses with a way out."""
    return any(hasattr(graph, name) for name in ("edge_index", "edge_index_dict", "adj_t"))


_KINDS = (
    _Kind("a dgl.DGLGraph", _has("ndata", "edges", "num_nodes"), edges_of_dgl, has_splits=True),
    _Kind("a PyG Data", _is_of_pyg, edges_of_pyg, has_splits=True),
    _Kind("a networkx graph", _has("nodes", "edges", "is_directed", "is_multigraph"), edges_of_networkx),
    _Kind("an AnnData", _has("obsp", "obs", "obs_names", "X"), edges_of_anndata, False),
    _Kind("a square scipy.sparse adjacency", _has("tocoo", "shape"), edges_of_scipy, False),
)


def edges_of(
    graph: Any, *, edge_features: str | Sequence[str] | None = None, drop_edge_data: bool = False, split: int = 0
) -> EdgeList:
    """Read another library's graph, without applying edge rules and a split.

    Raises:
        TypeError: if it is of no known kind; the text lists them.
        ValueError: if its reader refuses it.

    Example:
        >>> edges_of([[0, 1], [1, 2]])
        Traceback (most recent call last):
        TypeError: a graph must be a gnnqlab.Graph, a name, a path, a dgl.DGLGraph, a PyG Data, a networkx graph, ...
    """
    for kind in _KINDS:
        if kind.has(graph):
            options: dict[str, Any] = {"drop_edge_data": drop_edge_data}
            if kind.has_splits:
                options["split"] = split
            elif split:
                raise ValueError(f"split must be 0 for {kind.label}, which has one split, got {split}")
            if edge_features is None:
                return kind.read(graph, **options)
            if not kind.names_values:
                raise ValueError(
                    f"edge_features must name values of edges, got {edge_features!r} for {kind.label}, which has one "
                    "number per edge; pass its edges and their features to gnnqlab.Graph.from_edges"
                )
            return kind.read(graph, edge_features=edge_features, **options)
    *labels, label = (kind.label for kind in _KINDS)
    raise TypeError(
        f"a graph must be a gnnqlab.Graph, a name, a path, {', '.join(labels)} or {label}, got {type(graph).__name__}; "
        "arrays of edges go to gnnqlab.Graph.from_edges, pandas tables to gnnqlab.read_edges"
    )
