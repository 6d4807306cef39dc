"""Graphs saved by ``dgl.save_graphs``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnnqlab.graph.convert import edges_of_dgl
from gnnqlab.graph.edge_list import EdgeList

__all__ = ["read_dgl_file"]


def read_dgl_file(
    path: Path, *, edge_features: str | Sequence[str] | None = None, drop_edge_data: bool = False
) -> EdgeList:
    """Read the one graph of a ``.bin`` file; features, labels and masks as ``from_dgl`` finds them.

    Raises:
        RuntimeError: without DGL.
        ValueError: if the file holds no graph, or several, or edges carry values.
    """
    try:
        import dgl
    except ImportError as error:
        raise RuntimeError(
            f"reading {path} needs DGL, which is not installed here: {error}; on a machine with DGL, "
            "gnnqlab.load(path).save(folder) makes a copy that needs none"
        ) from error
    try:
        graphs, _ = dgl.load_graphs(str(path))
    except dgl.DGLError as error:
        raise ValueError(f"{path} must be a file written by dgl.save_graphs: {str(error).splitlines()[0]}") from error
    if len(graphs) != 1:
        raise ValueError(f"a DGL file must hold one graph, {path} holds {len(graphs)}; save the one you mean alone")
    return edges_of_dgl(graphs[0], name=path.stem, edge_features=edge_features, drop_edge_data=drop_edge_data)
