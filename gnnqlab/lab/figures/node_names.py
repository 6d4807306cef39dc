"""Ids of nodes in drawings: the user's ids where the graph has them, else positions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["class_name", "ids_of", "list_ids", "short_id"]

_LENGTH = 4
"""Longest id, in characters, that fits into a marker."""


def ids_of(graph: Graph, nodes: Iterable[int]) -> list[int | str]:
    """Return the ids of some nodes."""
    return [graph.id_of(node) for node in nodes]


def list_ids(graph: Graph, nodes: Iterable[int]) -> str:
    """Return the ids of some nodes as a list in a sentence, ``none`` if there are none."""
    return ", ".join(map(str, ids_of(graph, nodes))) or "none"


def short_id(graph: Graph, node: int) -> str:
    """Return the id of a node if it fits into a marker, else its position."""
    text = str(graph.id_of(node))
    return text if len(text) <= _LENGTH else str(node)


def class_name(graph: Graph, label: int) -> str:
    """Return the name of a class, or its number."""
    return str(label if graph.class_names is None or label < 0 else graph.class_names[label])
