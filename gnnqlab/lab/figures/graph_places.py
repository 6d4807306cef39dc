"""Layout of a small graph, the same in every figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["KNOWN_PLACES", "LARGEST", "neighbours", "places_of"]

LARGEST = 80
"""Most nodes of a graph that is drawn node by node; more cannot be distinguished."""
KNOWN_PLACES: dict[str, tuple[tuple[float, float], ...]] = {
    "ten nodes": (
        (0.0, 1.0), (1.0, 2.0), (1.0, 0.4), (2.2, 1.8), (2.2, 0.2),
        (4.0, 1.4), (5.0, 2.0), (4.2, 0.0), (6.0, 1.0), (5.4, 0.0),
    ),
}  # fmt: skip
"""Layouts made by hand, by name of the graph."""


def places_of(graph: Graph) -> Sequence[tuple[float, float]]:
    """Return the coordinates of each node, made by hand or by a force-directed layout.

    The layout is the same at every call (Fruchterman & Reingold, 1991, started from a circle).

    Raises:
        ValueError: if the graph has more than `LARGEST` nodes.
    """
    known_places = KNOWN_PLACES.get(graph.name)
    if known_places is not None and len(known_places) == graph.num_nodes:
        return known_places
    if graph.num_nodes > LARGEST:
        raise ValueError(
            f"a graph drawn node by node must have at most {LARGEST} nodes, got {graph.num_nodes}; draw "
            "course.ten_nodes(), or use gq.course.PartitionExplorer"
        )
    return _force_layout(graph.num_nodes, neighbours(graph))


def _force_layout(num_nodes: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    import numpy as np

    if num_nodes == 0:
        return []
    angle = 2 * math.pi * np.arange(num_nodes) / num_nodes
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)  # (N, 2)
    adjacency = np.zeros((num_nodes, num_nodes))
    for a, b in edges:
        adjacency[a, b] = adjacency[b, a] = 1
    ideal_length = 2 / math.sqrt(num_nodes)
    for step in np.linspace(0.15, 0.003, 300):  # cooling: the largest move shrinks
        offset = place[:, None] - place[None, :]  # (N, N, 2)
        distance = np.maximum(np.sqrt((offset**2).sum(axis=2)), 1e-3)
        # Repulsion k² / d minus attraction d² / k along edges, divided by d, the length of `offset`.
        push = ideal_length**2 / distance**2 - adjacency * distance / ideal_length
        move = (offset * push[:, :, None]).sum(axis=1) - place  # a pull to the origin keeps isolated nodes near
        length = np.maximum(np.sqrt((move**2).sum(axis=1, keepdims=True)), 1e-9)
        place = place + move / length * np.minimum(length, step)
    width, height = np.maximum(place.max(axis=0) - place.min(axis=0), 1e-9)
    scaled_place = (place - place.min(axis=0)) * np.array([6 / width, 2.6 / height])
    return [(float(x), float(y)) for x, y in scaled_place]


def neighbours(graph: Graph) -> list[tuple[int, int]]:
    """Return each pair of neighbours once, without self-loops."""
    targets = graph.in_degrees.new_tensor(range(graph.num_nodes)).repeat_interleave(graph.in_degrees)
    pairs = zip(graph.indices.tolist(), targets.tolist())
    return sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]})
