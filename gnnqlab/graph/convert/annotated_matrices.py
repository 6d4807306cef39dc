"""Annotated matrices of single-cell analysis: an ``anndata.AnnData``, or anything with its attributes."""

from __future__ import annotations

from typing import Any

from gnnqlab.graph.convert.scipy_matrices import edges_of_scipy
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.graph import Graph

__all__ = ["edges_of_anndata", "from_anndata"]


def from_anndata(
    data: Any, *, labels: str | None = None, name: str = "anndata", seed: int = 0, **settings: Any
) -> Graph:
    """Convert an ``anndata.AnnData`` with a graph of neighbours, as ``scanpy.pp.neighbors`` computes it.

    Args:
        data: anything with ``X`` (features ``(N, D)``, dense or sparse, or ``None``), ``obs`` (a table of the nodes),
            ``obs_names`` (ids) and ``obsp`` (sparse matrices ``(N, N)``).
        labels: column of ``obs`` with one class per node, words or integers; a missing word is "unlabelled". By default
            the graph has no labels.
        name: name of the graph in reports.
        seed: seed of the random 60/20/20 split of a graph with labels.
        **settings: ``connectivities``, the key of ``obsp`` (by default ``"connectivities"``, edge weights), and
            ``drop_edge_data=True`` to ignore its values.

    Raises:
        ValueError: if ``obsp`` lacks the key, or ``obs`` the column.
    """
    edges = edges_of_anndata(data, labels=labels, **settings)
    edges.name = name
    return edges.build(seed=seed)


def edges_of_anndata(
    data: Any, *, labels: str | None = None, connectivities: str = "connectivities", drop_edge_data: bool = False
) -> EdgeList:
    """Read edges, features, ids and classes; see ``from_anndata``."""
    if connectivities not in data.obsp:
        raise ValueError(
            f"connectivities must be a key of obsp, which has {sorted(data.obsp)}, got {connectivities!r}; "
            "scanpy.pp.neighbors(data) computes it"
        )
    columns = [str(column) for column in data.obs.columns]
    if labels is not None and labels not in columns:
        raise ValueError(f"labels must be a column of obs, which has {columns}, got {labels!r}")
    edges = edges_of_scipy(data.obsp[connectivities], name="anndata", drop_edge_data=drop_edge_data)
    edges.features, edges.ids = data.X, list(data.obs_names)
    edges.labels = None if labels is None else data.obs[labels].to_numpy()
    unused = [column for column in columns if column != labels]
    edges.notes = (f"read: obsp[{connectivities!r}], X, obs_names" + (f", classes from {labels}" if labels else ""),)
    edges.notes += (f"left out of obs: {', '.join(unused)}; labels= names the classes",) if unused else ()
    return edges
