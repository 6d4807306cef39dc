"""Drawing of a vertex-cut of a small graph: an edge has its worker's colour, a node its master's.

A circle is a node on one worker, a diamond a node with mirrors. If hosts have several workers each, a square is a node
with replicas on several hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.graph_places import places_of
from gnnqlab.lab.figures.node_names import list_ids, short_id
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts

__all__ = ["draw_vertex_cut"]

_COLORS = (OKABE_ITO["blue"], OKABE_ITO["orange"], OKABE_ITO["green"], OKABE_ITO["purple"])
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = {"whole": "circle", "copied": "diamond", "copied to several hosts": "square"}


def draw_vertex_cut(parts: Parts, *, dark: bool = False) -> FigureData:
    """Draw the whole graph under a vertex-cut: the worker of each edge, replicated nodes and their masters.

    Args:
        parts: a vertex-cut among at most four workers.
        dark: colours for a dark page.

    Returns:
        The figure, and a table with one row per node: ``master``, ``copies`` (workers with a replica) and ``hosts``
        (of these workers).

    Raises:
        ValueError: if it is not a vertex-cut, there are more than four workers, or too many nodes to draw.

    Example:
        >>> import gnnqlab as gq
        >>> from gnnqlab import course
        >>> drawn = draw_vertex_cut(gq.partition(course.ten_nodes(), gq.partitioners.EBV(), workers=2))
        >>> drawn.frame.columns.tolist(), len(drawn.frame)
        (['master', 'copies', 'hosts'], 10)
    """
    import pandas as pd
    import plotly.graph_objects as go

    from gnnqlab.partition.connections import copies_of
    from gnnqlab.partition.vertex_cut import VertexCut

    if not isinstance(parts.cut, VertexCut):
        raise ValueError("draw_vertex_cut needs a vertex-cut, got an edge-cut; use draw_partition")
    if parts.workers > len(_COLORS):
        raise ValueError(
            f"a vertex-cut can be drawn for at most {len(_COLORS)} workers, got {parts.workers}; use fewer workers"
        )
    places, graph = places_of(parts.graph), parts.graph
    holders: list[list[int]] = [[] for _ in places]  # workers with a replica, by node
    for node, worker in zip(*(ids.tolist() for ids in copies_of(parts.cut, graph))):  # type: ignore[arg-type]
        holders[node].append(worker)
    hosts = [sorted({worker // parts.per_host for worker in ranks}) for ranks in holders]  # hosts of these workers
    # With one worker per host, hosts and workers are the same.
    tiers = parts.hosts > 1 and parts.per_host > 1
    kinds = [_kind(len(ranks), len(host_ids) if tiers else 1) for ranks, host_ids in zip(holders, hosts, strict=True)]
    figure = go.Figure()
    source, target = (ids.tolist() for ids in graph.edge_list())
    for worker in range(parts.workers):
        # Both directions are drawn as one line.
        edges = [(u, v) for u, v, part in zip(source, target, parts.cut.part.tolist()) if part == worker and u < v]
        figure.add_scatter(
            x=[x for u, v in edges for x in (places[u][0], places[v][0], None)],  # None separates lines
            y=[y for u, v in edges for y in (places[u][1], places[v][1], None)],
            mode="lines",
            line={"color": _COLORS[worker], "dash": _DASHES[worker], "width": 3},
            name=f"edges of worker {worker}{f', host {worker // parts.per_host}' if tiers else ''}",
            hoverinfo="skip",
        )
    for worker in range(parts.workers):
        for kind, symbol in _SYMBOLS.items():
            nodes = [node for node, owner in enumerate(parts.owner.tolist()) if owner == worker and kinds[node] == kind]
            if not nodes:
                continue
            figure.add_scatter(
                x=[places[node][0] for node in nodes],
                y=[places[node][1] for node in nodes],
                mode="markers+text",
                text=[short_id(graph, node) for node in nodes],
                textfont={"color": "#000000" if worker in (1, 3) else "#ffffff", "size": 12},
                marker={
                    "color": _COLORS[worker], "symbol": symbol, "size": 30 if symbol == "diamond" else 26,
                },
                customdata=[(graph.id_of(node), ", ".join(map(str, holders[node]))) for node in nodes],
                name=f"{kind}, master worker {worker}",
                hovertemplate=(
                    f"node %{{customdata[0]}}: master worker {worker}, on workers %{{customdata[1]}}<extra></extra>"
                ),
            )  # fmt: skip
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, scaleanchor="x")
    copied_nodes = [node for node, ranks in enumerate(holders) if len(ranks) > 1]
    caption = (
        f"{len(places)} nodes, their edges on {parts.workers} workers. Nodes with mirrors: "
        f"{list_ids(graph, copied_nodes)}; replication factor {parts.quality.replication:.2f}."
    )
    title = f"Vertex-cut: the edges of {len(places)} nodes on {parts.workers} workers"
    if tiers:
        across_hosts = [node for node, host_ids in enumerate(hosts) if len(host_ids) > 1]
        caption += f" On more than one of {parts.hosts} hosts: {list_ids(graph, across_hosts)}."
        title += f" of {parts.hosts} hosts"
    finish(figure, title=title, caption=caption, dark=dark, height=420, legend_rows=3)
    frame = pd.DataFrame(
        {
            "master": parts.owner.tolist(),
            "copies": [tuple(ranks) for ranks in holders],
            "hosts": [tuple(host_ids) for host_ids in hosts],
        },
        index=pd.Index(range(len(places)), name="node"),
    )
    return FigureData(figure, frame)


def _kind(workers: int, hosts: int) -> str:
    return "copied to several hosts" if hosts > 1 else "copied" if workers > 1 else "whole"
