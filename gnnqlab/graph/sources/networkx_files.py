"""Files that networkx reads: GraphML, GML and GEXF; ids of nodes are those in the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnnqlab.graph.convert.networkx_graphs import edges_of_networkx
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.sources.text_files import lines_of

__all__ = ["NETWORKX_SUFFIXES", "read_networkx_file"]

NETWORKX_SUFFIXES = {".graphml": "GraphML", ".gml": "GML", ".gexf": "GEXF"}
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
    name = Path(path.name.removesuffix(".gz"))
    kind = NETWORKX_SUFFIXES[name.suffix.lower()]
    # networkx unpacks files that end in .gz.
    readers = {"GraphML": nx.read_graphml, "GML": _read_gml, "GEXF": nx.read_gexf}
    try:
        graph = readers[kind](path)
    except Exception as error:  # the parsers raise errors of many types
        raise ValueError(
            f"{path} must be a file in the format {kind}, got {type(error).__name__}: {str(error)[:200]}; write it "
            "again, or pass its edges to gnnqlab.Graph.from_edges"
        ) from error
    for _, _, attributes in graph.edges(data=True):
        attributes.pop("id", None)  # the number of an edge in the file
    edges = edges_of_networkx(graph, edge_features=edge_features, drop_edge_data=drop_edge_data)
    edges.name = name.stem
    edges.notes = (f"{path.name}: {kind}", *edges.notes)
    return edges


def _read_gml(path: Path) -> Any:
    """Read GML, also with repeated edges, with nodes without label, and with letters that are not ASCII."""
    import networkx as nx

    # GML is ASCII; other letters become its escapes, which networkx understands.
    text = "\n".join(lines_of(path)).encode("ascii", "xmlcharrefreplace").decode()
    # networkx refuses repeated edges unless the file declares them.
    if not re.search(r"\bmultigraph\s+1", text):
        text = re.sub(r"\bgraph(\s*)\[", r"graph\1[\nmultigraph 1\n", text, count=1)
    try:
        return nx.parse_gml(text, label="label")
    except nx.NetworkXError as error:
        # Labels that are missing on a node, or used twice, are no names.
        if "label" not in str(error):
            raise
        return nx.parse_gml(text, label="id")
