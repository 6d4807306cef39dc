"""What ``load`` takes beside names and paths: the graphs of other libraries, told apart by what they have.

No library is imported for it: an object that has a DGL graph's ``ndata`` is read as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnnqlab.graph.convert.frameworks import edges_of_dgl, edges_of_pyg
from gnnqlab.graph.convert.networkx_graphs import edges_of_networkx
from gnnqlab.graph.convert.scipy_matrices import edges_of_scipy
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.graph import Graph

__all__ = ["GraphLike", "edges_of"]

GraphLike = Graph | str | Path | Any
"""A ``Graph``, a name, a path, or a graph of another library; ``gnnqlab.load`` says which."""


@dataclass(frozen=True)
class _Kind:
    """One library's graph."""

    what: str
    has: Callable[[Any], bool]
    read: Callable[..., EdgeList]
    names_values: bool = True
    """Whether edges can have several values, each by a name."""


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda graph: all(hasattr(graph, name) for name in names)


def _is_of_pyg(graph: Any) -> bool:
    """``HeteroData`` and a ``Data`` with ``adj_t`` too: their reader says how to convert them."""
    return any(hasattr(graph, name) for name in ("edge_index", "edge_index_dict", "adj_t"))


_KINDS = (
    _Kind("a dgl.DGLGraph", _has("ndata", "edges", "num_nodes"), edges_of_dgl),
    _Kind("a PyG Data", _is_of_pyg, edges_of_pyg),
    _Kind("a networkx graph", _has("nodes", "edges", "is_directed", "is_multigraph"), edges_of_networkx),
    _Kind("a square scipy.sparse adjacency", _has("tocoo", "shape"), edges_of_scipy, False),
)


def edges_of(graph: Any, *, edge_features: str | Sequence[str] | None = None, drop_edge_data: bool = False) -> EdgeList:
    """Return what another library's graph holds, before edge rules and a split are applied.

    Raises:
        TypeError: if it is none that is known; the text lists what is.
        ValueError: if its reader refuses it.

    Example:
        >>> edges_of([[0, 1], [1, 2]])
        Traceback (most recent call last):
        TypeError: a graph must be a gnnqlab.Graph, a name, a path, a dgl.DGLGraph, a PyG Data, a networkx graph or ...
    """
    for kind in _KINDS:
        if kind.has(graph):
            if edge_features is None:
                return kind.read(graph, drop_edge_data=drop_edge_data)
            if not kind.names_values:
                raise ValueError(
                    f"edge_features names values that edges have, got {edge_features!r} for {kind.what}, which has one "
                    "number an edge; give its edges and their features to gnnqlab.Graph.from_edges"
                )
            return kind.read(graph, edge_features=edge_features, drop_edge_data=drop_edge_data)
    *others, last = (kind.what for kind in _KINDS)
    raise TypeError(
        f"a graph must be a gnnqlab.Graph, a name, a path, {', '.join(others)} or {last}, got {type(graph).__name__}; "
        "arrays of edges go to gnnqlab.Graph.from_edges, pandas tables to gnnqlab.from_tables"
    )
