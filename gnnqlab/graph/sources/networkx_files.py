"""Files that networkx reads: GraphML, GML and Pajek; ids of nodes are those in the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnnqlab.graph.convert.networkx_graphs import edges_of_networkx
from gnnqlab.graph.edge_list import EdgeList

__all__ = ["NETWORKX_SUFFIXES", "read_networkx_file"]

NETWORKX_SUFFIXES = {".graphml": "GraphML", ".gml": "GML", ".net": "Pajek", ".paj": "Pajek", ".gexf": "GEXF"}
"""Ending -> name of the format."""


def read_networkx_file(
    path: Path, *, edge_features: str | Sequence[str] | None = None, drop_edge_data: bool = False
) -> EdgeList:
    """Read a file by networkx, with attributes as in :func:`gnnqlab.from_networkx`.

    Raises:
        RuntimeError: without networkx.
        ValueError: if the file is malformed, or an attribute cannot be used.
    """
    try:
        import networkx as nx
    except ImportError as error:
        raise RuntimeError(f"reading {path} needs the package networkx, got {error}; pip install networkx") from error
    kind = NETWORKX_SUFFIXES[path.suffix]
    readers = {"GraphML": nx.read_graphml, "GML": nx.read_gml, "Pajek": nx.read_pajek, "GEXF": nx.read_gexf}
    try:
        graph = readers[kind](path)
    except Exception as error:  # the parsers raise errors of many types
        raise ValueError(f"{path} must be a file in the format {kind}: {type(error).__name__}: {error}") from error
    if kind == "Pajek":
        _remove_drawing(graph)
    for _, _, attributes in graph.edges(data=True):
        attributes.pop("id", None)  # the number of an edge in the file
    edges = edges_of_networkx(graph, edge_features=edge_features, drop_edge_data=drop_edge_data)
    edges.name = path.stem
    edges.notes = (f"{path.name}: {kind}", *edges.notes)
    return edges


def _remove_drawing(graph: object) -> None:
    """Remove the attributes that only place and draw the nodes of a Pajek file: id, x, y, shape."""
    for _, attributes in graph.nodes(data=True):  # type: ignore[attr-defined]
        attributes.clear()
