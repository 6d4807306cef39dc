"""What the course's notebooks share: one graph of ten nodes that is always drawn alike.

The drawing is the same in every notebook, so that a reader who knows it sees only what is new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnnqlab.lab.bundle import Bundle
from gnnqlab.lab.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from torch import Tensor

    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.parts import Parts

__all__ = ["Halves", "draw", "ten_nodes"]

# Two groups of five; three of the seventeen edges join them.
_EDGES = (
    (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4),
    (5, 6), (5, 7), (6, 7), (6, 8), (7, 8), (7, 9), (8, 9),
    (3, 5), (4, 5), (4, 7),
)  # fmt: skip
_PLACES = (
    (0.0, 1.0), (1.0, 2.0), (1.0, 0.4), (2.2, 1.8), (2.2, 0.2),
    (4.0, 1.4), (5.0, 2.0), (4.2, 0.0), (6.0, 1.0), (5.4, 0.0),
)  # fmt: skip
_COLORS = (OKABE_ITO["blue"], OKABE_ITO["orange"], OKABE_ITO["green"], OKABE_ITO["purple"])


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

    def assign(self, graph: Graph, workers: int) -> Tensor:
        """Return the owner of every node, int64 ``(N,)``."""
        import torch

        return torch.arange(graph.num_nodes) * workers // graph.num_nodes


def draw(parts: Parts) -> Bundle:
    """Draw the ten nodes as they are cut: colour is the owner, a diamond is a marginal node, a dashed edge is cut.

    Raises:
        ValueError: if it is a partition of another graph.
    """
    import pandas as pd
    import plotly.graph_objects as go

    if parts.graph.num_nodes != len(_PLACES):
        raise ValueError(
            f"only the graph of ten nodes has places to draw, got {parts.graph.num_nodes} nodes; "
            "take course.ten_nodes()"
        )
    owner = parts.owner.tolist()
    cut = [edge for edge in _EDGES if owner[edge[0]] != owner[edge[1]]]
    marginal = {node for edge in cut for node in edge}
    figure = go.Figure()
    for edges, dash, color, name in (
        ([edge for edge in _EDGES if edge not in cut], "solid", "#a0a0a0", "edge inside a worker"),
        (cut, "dash", OKABE_ITO["vermillion"], "cut edge"),
    ):
        x = [value for a, b in edges for value in (_PLACES[a][0], _PLACES[b][0], None)]
        y = [value for a, b in edges for value in (_PLACES[a][1], _PLACES[b][1], None)]
        line = {"color": color, "dash": dash, "width": 2}
        figure.add_scatter(x=x, y=y, mode="lines", line=line, name=name, hoverinfo="skip")
    for worker in range(parts.workers):
        for kind, symbol in (("central", "circle"), ("marginal", "diamond")):
            nodes = [node for node in range(10) if owner[node] == worker and (node in marginal) == (kind == "marginal")]
            if nodes:
                figure.add_scatter(
                    x=[_PLACES[node][0] for node in nodes],
                    y=[_PLACES[node][1] for node in nodes],
                    mode="markers+text",
                    text=[str(node) for node in nodes],
                    textfont={"color": "#ffffff" if worker % 2 == 0 else "#000000", "size": 13},
                    marker={"color": _COLORS[worker % 4], "symbol": symbol, "size": 30, "line": {"width": 0}},
                    name=f"worker {worker}, {kind}",
                    hovertemplate=f"node %{{text}}: worker {worker}, {kind}<extra></extra>",
                )
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, scaleanchor="x")
    caption = (
        f"Ten nodes on {parts.workers} workers: {len(cut)} of {len(_EDGES)} edges are cut; "
        f"marginal nodes are {', '.join(map(str, sorted(marginal))) or 'none'}."
    )
    frame = pd.DataFrame(
        {"worker": owner, "kind": ["marginal" if node in marginal else "central" for node in range(10)]},
        index=pd.Index(range(10), name="node"),
    )
    return Bundle(finish(figure, title="Ten nodes, cut in two", caption=caption, height=380, legend_rows=2), frame)
