"""What the course's notebooks share: one graph of ten nodes that is always drawn alike.

The drawing is the same in every notebook, so that a reader who knows it sees only what is new.
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

__all__ = ["Halves", "draw", "ten_nodes"]

# Two groups of five; three of the seventeen edges join them.
_EDGES = (
    (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4),
    (5, 6), (5, 7), (6, 7), (6, 8), (7, 8), (7, 9), (8, 9),
    (3, 5), (4, 5), (4, 7),
)  # fmt: skip


def ten_nodes() -> Graph:
    """The graph of ten nodes that every notebook draws: two groups of five, the group being a node's class.

    Features are one-hot; nodes 0, 1, 8 and 9 are for training.

    Example:
        >>> graph = ten_nodes()
        >>> graph.num_nodes, graph.num_edges  # 17 edges both ways, and a self loop a node
        (10, 44)
    """
    import torch

    from gnnqlab.graph.graph import Graph

    sources, targets = zip(*_EDGES)
    return Graph.from_edges(
        sources,
        targets,
        num_nodes=10,
        features=torch.eye(10),
        labels=[0] * 5 + [1] * 5,
        train_idx=[0, 1, 8, 9],
        val_idx=[2, 6],
        test_idx=[3, 4, 5, 7],
        name="ten nodes",
    )


@dataclass(frozen=True)
class Halves:
    """The cut by hand: the first half of the nodes to worker 0, the second to worker 1, and so on."""

    def cut(self, graph: Graph, workers: int) -> NodeCut:
        """Share the nodes out in their order."""
        import torch

        from gnnqlab.partition.cut import NodeCut

        return NodeCut(owner=torch.arange(graph.num_nodes) * workers // graph.num_nodes, workers=workers)


def draw(parts: Parts) -> FigureData:
    """Draw the ten nodes as they are cut: colour is the owner, a diamond is a marginal node, a dashed edge is cut.

    Raises:
        ValueError: if it is a partition of another graph.
    """
    if parts.graph.name != "ten nodes":
        raise ValueError(
            f"only the graph of ten nodes has places to draw, got {parts.graph.num_nodes} nodes; "
            "take course.ten_nodes(), or graph_drawing.draw_partition"
        )
    return draw_partition(parts)
