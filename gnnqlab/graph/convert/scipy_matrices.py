"""Graphs as sparse adjacency matrices of scipy."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.edges import SelfLoops
from gnnqlab.graph.graph import Graph

__all__ = ["edges_of_scipy", "from_scipy"]


def from_scipy(
    adjacency: Any,
    *,
    features: object = None,
    labels: object = None,
    train_idx: object = None,
    val_idx: object = None,
    test_idx: object = None,
    name: str = "scipy",
    num_classes: int | None = None,
    drop_edge_data: bool = False,
    symmetrize: bool | None = None,
    deduplicate: bool | None = None,
    self_loops: SelfLoops | None = None,
    seed: int = 0,
) -> Graph:
    """Convert a square ``scipy.sparse`` matrix or array: entry ``(u, v)`` is the edge ``u -> v`` and its weight.

    Args:
        adjacency: matrix ``(N, N)`` in any of scipy's formats, with finite entries of at least 0. Stored zeros are not
            edges; if all entries are 1, the graph has no weights; otherwise duplicates are added, as in scipy.
        features, labels, train_idx, val_idx, test_idx: as for ``Graph.from_edges``, in the matrix's order.
        name: name of the graph in reports.
        num_classes: number of classes; by default that of the labels.
        drop_edge_data: True to ignore the entries' values: every entry other than 0 is an edge without a weight.
        symmetrize, deduplicate, self_loops: edge rules; ``None`` means the papers', see ``build_csr``.
        seed: seed of the random 60/20/20 split of a graph with labels and without a split.

    Raises:
        TypeError, ValueError: if the object is not such a matrix, is not square, or has entries that are negative, NaN
            or infinite.

    Example:
        >>> from scipy.sparse import coo_array
        >>> adjacency = coo_array(([1, 1], ([0, 1], [1, 2])), shape=(3, 3))
        >>> from_scipy(adjacency, labels=[0, 1, 1]).num_edges
        7
    """
    edges = edges_of_scipy(adjacency, name=name, drop_edge_data=drop_edge_data)
    edges.features, edges.labels, edges.num_classes = features, labels, num_classes
    edges.train_idx, edges.val_idx, edges.test_idx = train_idx, val_idx, test_idx
    return edges.build(symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops, seed=seed)


def edges_of_scipy(adjacency: Any, *, name: str = "scipy", drop_edge_data: bool = False) -> EdgeList:
    """Read the edges of a sparse matrix; see ``from_scipy``."""
    if not all(hasattr(adjacency, attribute) for attribute in ("tocoo", "shape")):
        raise TypeError(f"from_scipy takes a scipy.sparse matrix or array, got {type(adjacency).__name__}")
    if len(adjacency.shape) != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(
            f"an adjacency matrix must be square, with a row and a column per node, got shape {tuple(adjacency.shape)}"
            "; for nodes of two kinds pass scipy.sparse.block_array([[None, B], [B.T, None]])"
        )
    entries = adjacency.tocoo()
    if entries.data.dtype.kind == "c":
        raise ValueError(f"an adjacency matrix must hold real numbers, got {entries.data.dtype}; pass its magnitudes")
    # A matrix of zeros and ones is an unweighted graph.
    is_weighted = not drop_edge_data and not bool(((entries.data == 0) | (entries.data == 1)).all())
    if is_weighted:
        entries = entries.copy()  # tocoo may return the caller's matrix, which must not change
        entries.sum_duplicates()
    is_nonzero = entries.data != 0  # (entries,)
    return EdgeList(
        name=name,
        src=entries.row[is_nonzero],
        dst=entries.col[is_nonzero],
        num_nodes=int(adjacency.shape[0]),
        edge_weights=np.asarray(entries.data[is_nonzero]) if is_weighted else None,
    )
