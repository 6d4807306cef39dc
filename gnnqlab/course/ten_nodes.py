"""Example graph of the course: ten nodes, drawn identically in every notebook.

A reader who knows the drawing sees only what is new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.graph_drawing import draw_partition

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.cut import NodeCut
    from gnnqlab.partition.parts import Parts

__all__ = ["VARIANTS", "Halves", "draw", "edges_of", "ten_nodes"]

# Two groups of five; three of the seventeen edges join them.
_INNER = (
    (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4),
    (5, 6), (5, 7), (6, 7), (6, 8), (7, 8), (7, 9), (8, 9),
)  # fmt: skip
_JOINING = (
    ((3, 5), (4, 5), (4, 7)), ((2, 5), (3, 6), (4, 6)), ((3, 5), (3, 7), (4, 6)), ((1, 5), (4, 5), (4, 8)),
)  # fmt: skip
VARIANTS = len(_JOINING)
"""Graphs of ten nodes: that of the notebooks, and others for exercises of one's own."""


def edges_of(variant: int) -> tuple[tuple[int, int], ...]:
    """Return the edges of a variant of the graph, in one direction each.

    Example:
        >>> len(edges_of(0)), edges_of(1)[-1]
        (17, (4, 6))
    """
    return _INNER + _JOINING[variant]


def ten_nodes(variant: int = 0) -> Graph:
    """Return the example graph of ten nodes: two groups of five, which are the classes.

    Features are one-hot; nodes 0, 1, 8 and 9 are for training.

    Args:
        variant: 0 for the graph of the notebooks; 1 to 3 join the groups by other edges.

    Raises:
        ValueError: if there is no such variant.

    Example:
        >>> graph = ten_nodes()
        >>> graph.num_nodes, graph.num_edges  # 17 edges both ways, and a self loop a node
        (10, 44)
    """
    import torch

    from gnnqlab.graph.graph import Graph

    if variant not in range(VARIANTS):
        raise ValueError(f"variant must be one of 0 to {VARIANTS - 1}, got {variant!r}")
    sources, targets = zip(*edges_of(variant))  # both directions and self loops are added
    return Graph.from_edges(
        sources,
        targets,
        num_nodes=10,  # one-hot, so that a row shows its node
        features=torch.eye(10),
        labels=[0] * 5 + [1] * 5,
        train_idx=[0, 1, 8, 9],
        val_idx=[2, 6],
        test_idx=[3, 4, 5, 7],
        name="ten nodes",
    )


@dataclass(frozen=True)
class Halves:
    """Contiguous edge-cut: of two workers, worker 0 owns the first half of the nodes and worker 1 the second."""

    def cut(self, graph: Graph, workers: int) -> NodeCut:
        """Assign contiguous, equally large blocks of nodes to the workers."""
        import torch

        from gnnqlab.partition.cut import NodeCut

        # node v belongs to worker floor(v P / N)
        return NodeCut(owner=torch.arange(graph.num_nodes) * workers // graph.num_nodes, workers=workers)


def draw(parts: Parts) -> FigureData:
    """Draw a partition of the ten nodes: colours are owners, diamonds marginal nodes, dashed lines cut edges.

    Raises:
        ValueError: if the partition is of another graph.
    """
    if parts.graph.name != "ten nodes":
        raise ValueError(
            f"only the graph of ten nodes has fixed coordinates, got {parts.graph.num_nodes} nodes; "
            "use course.ten_nodes(), or graph_drawing.draw_partition"
        )
    return draw_partition(parts)
