"""Where the nodes of a small graph are drawn: at the same places in every figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["KNOWN_PLACES", "LARGEST", "neighbours", "places_of"]

LARGEST = 80
"""Nodes of the largest graph that is drawn: more cannot be told apart."""
KNOWN_PLACES: dict[str, tuple[tuple[float, float], ...]] = {
    "ten nodes": (
        (0.0, 1.0), (1.0, 2.0), (1.0, 0.4), (2.2, 1.8), (2.2, 0.2),
        (4.0, 1.4), (5.0, 2.0), (4.2, 0.0), (6.0, 1.0), (5.4, 0.0),
    ),
}  # fmt: skip
"""Graphs that are drawn alike everywhere, by name."""


def places_of(graph: Graph) -> Sequence[tuple[float, float]]:
    """Where each node is drawn: its known place, or one where neighbours attract and all others repel each other.

    The places of a graph are the same at every call (Fruchterman & Reingold, 1991, from a circle).

    Raises:
        ValueError: if the graph has more than `LARGEST` nodes.
    """
    known = KNOWN_PLACES.get(graph.name)
    if known is not None and len(known) == graph.num_nodes:
        return known
    if graph.num_nodes > LARGEST:
        raise ValueError(
            f"a graph that is drawn has at most {LARGEST} nodes, got {graph.num_nodes}; draw course.ten_nodes(), "
            "or look at gq.PartitionExplorer"
        )
    return _spread_out(graph.num_nodes, neighbours(graph))


def _spread_out(num_nodes: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    import numpy as np

    if num_nodes == 0:
        return []
    angle = 2 * math.pi * np.arange(num_nodes) / num_nodes
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    adjacent = np.zeros((num_nodes, num_nodes))
    for a, b in edges:
        adjacent[a, b] = adjacent[b, a] = 1
    ideal = 2 / math.sqrt(num_nodes)
    for step in np.linspace(0.15, 0.003, 300):
        away = place[:, None] - place[None, :]
        distance = np.maximum(np.sqrt((away**2).sum(axis=2)), 1e-3)
        pull = ideal**2 / distance**2 - adjacent * distance / ideal
        move = (away * pull[:, :, None]).sum(axis=1) - place  # the middle holds lone nodes back
        length = np.maximum(np.sqrt((move**2).sum(axis=1, keepdims=True)), 1e-9)
        place = place + move / length * np.minimum(length, step)
    width, height = np.maximum(place.max(axis=0) - place.min(axis=0), 1e-9)
    scaled = (place - place.min(axis=0)) * np.array([6 / width, 2.6 / height])
    return [(float(x), float(y)) for x, y in scaled]


def neighbours(graph: Graph) -> list[tuple[int, int]]:
    """Each pair of neighbours once, without self loops."""
    targets = graph.in_degrees.new_tensor(range(graph.num_nodes)).repeat_interleave(graph.in_degrees)
    pairs = zip(graph.indices.tolist(), targets.tolist())
    return sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
