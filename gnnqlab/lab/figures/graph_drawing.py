"""Drawings of small partitioned graphs, with the same layout, shapes and colours throughout the course.

Colour is the owner. Shape and a word show the kind of a node: a circle is *central*, a diamond *marginal*, an open
square a *halo* row, the copy of another worker's node. In a bit map, colour and size of a halo row are its bit-width.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.graph_places import neighbours, places_of
from gnnqlab.lab.figures.node_names import ids_of, list_ids, short_id
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from gnnqlab.bits.policy import BitPolicy
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.parts import Parts

__all__ = ["draw_bits", "draw_partition", "draw_shards", "message_widths"]

_COLORS = (OKABE_ITO["blue"], OKABE_ITO["orange"], OKABE_ITO["green"], OKABE_ITO["purple"])
_INK = ("#ffffff", "#000000", "#ffffff", "#000000")
_SHAPES = {"central": "circle", "marginal": "diamond", "halo": "square", "left out": "square"}
_EDGE, _FAINT = "#a0a0a0", "#c8ccd0"
# Darker colours are more bits; size and label show the same.
_WIDTHS = {1: "#fee838", 2: "#c9b869", 3: "#a69d75", 4: "#848279", 8: "#2f4a6e", 16: "#1b3660", 32: "#00204d"}


def draw_partition(parts: Parts, *, dark: bool = False) -> FigureData:
    """Draw a partitioned graph as a whole: owners, marginal nodes and cut edges.

    Raises:
        ValueError: if the graph has more than `LARGEST` nodes.
    """
    import pandas as pd
    import plotly.graph_objects as go

    places, kinds, owner = places_of(parts.graph), _kinds(parts), parts.owner.tolist()
    edges = neighbours(parts.graph)
    cut_edges = [edge for edge in edges if owner[edge[0]] != owner[edge[1]]]
    figure = go.Figure()
    _add_edges(figure, places, [edge for edge in edges if edge not in set(cut_edges)], "edge inside a worker")
    _add_edges(figure, places, cut_edges, "cut edge", color=OKABE_ITO["vermillion"], dash="dash")
    for worker in range(parts.workers):
        for kind in ("central", "marginal"):
            nodes = [node for node, rank in enumerate(owner) if rank == worker and kinds[node] == kind]
            _add_nodes(figure, parts.graph, places, nodes, worker=worker, kind=kind, dark=dark)
    _bare_axes(figure, places)
    marginal_nodes = [node for node, kind in enumerate(kinds) if kind == "marginal"]
    title = f"{_count(len(places), 'node')} on {_count(parts.workers, 'worker')}"
    caption = (
        f"{title}: {len(cut_edges)} of {len(edges)} edges are "
        f"cut; marginal nodes are {list_ids(parts.graph, marginal_nodes)}."
    )
    names = pd.Index(ids_of(parts.graph, range(len(places))), name="node")
    frame = pd.DataFrame({"worker": owner, "kind": kinds}, index=names)
    _finish(figure, title=title, caption=caption, dark=dark, height=380)
    return FigureData(figure, frame)


def draw_shards(
    parts: Parts, *, left_out: Mapping[int, Collection[int]] | None = None, dark: bool = False
) -> FigureData:
    """Draw the nodes of each worker: its own ones, and copies of neighbours that other workers own.

    Args:
        parts: the partition.
        left_out: worker -> copies that are not received this time (boundary sampling), drawn in grey.
        dark: colours for a dark page.

    Raises:
        ValueError: if the graph has more than `LARGEST` nodes, or there are more than four workers.
    """
    import pandas as pd

    figure, frame = _panels(parts, dark=dark)
    places = places_of(parts.graph)
    for rank, shard in enumerate(parts.shards):
        panel = (rank // 2 + 1, rank % 2 + 1)  # row and column from 1, two panels per row
        halo = shard.halo.tolist()
        for owner in sorted({int(parts.owner[node]) for node in halo}):
            for kind in ("halo", "left out"):
                absent_nodes = (left_out or {}).get(rank, ())
                is_absent = kind == "left out"
                nodes = [node for node in halo if parts.owner[node] == owner and (node in absent_nodes) == is_absent]
                _add_nodes(figure, parts.graph, places, nodes, worker=owner, kind=kind, dark=dark, panel=panel)
                frame += [(rank, parts.graph.id_of(node), kind, owner) for node in nodes]
    _add_to_legend(figure, "halo: a copy of another worker's row", color=_FAINT, symbol="square-open")
    if left_out is not None:
        _add_to_legend(figure, "left out: a row that is not sent", color=_FAINT, symbol="square")
    sentences = [
        f"worker {rank} has copies of {list_ids(parts.graph, sorted(shard.halo.tolist()))}"
        + (
            f" but does not receive {list_ids(parts.graph, left_out_nodes)}"
            if (left_out_nodes := sorted((left_out or {}).get(rank, ())))
            else ""
        )
        for rank, shard in enumerate(parts.shards)
    ]
    caption = f"Nodes of each worker: {'; '.join(sentences)}."
    title = "Nodes of each worker"
    _finish(figure, title=title, caption=caption, dark=dark, height=_panels_height(parts))
    table = pd.DataFrame(frame, columns=["worker", "node", "kind", "owner"]).set_index(["worker", "node"]).sort_index()
    return FigureData(figure, table.reset_index("node"))


def draw_bits(parts: Parts, widths: Mapping[tuple[int, int], int], *, what: str = "", dark: bool = False) -> FigureData:
    """Draw the bit map: one panel per worker with the bit-width of every halo row.

    Args:
        parts: the partition.
        widths: bits by ``(worker that holds the copy, node)``, from `message_widths`.
        what: name of the messages for the title: ``"layer 1, forward"``.
        dark: colours for a dark page.

    Raises:
        ValueError: as `draw_shards`, or if a halo row has no bit-width.
    """
    import pandas as pd

    # Every halo row of every worker must have a bit-width before anything is drawn.
    missing_pairs = [
        (rank, node)
        for rank, shard in enumerate(parts.shards)
        for node in shard.halo.tolist()
        if (rank, node) not in widths
    ]
    if missing_pairs:
        raise ValueError(
            f"every halo row needs a bit-width, got none for (worker, node) {missing_pairs[:3]}; use message_widths"
        )
    figure, _ = _panels(parts, dark=dark)
    places = places_of(parts.graph)
    frame, shown_widths = [], set()
    for rank, shard in enumerate(parts.shards):
        panel = (rank // 2 + 1, rank % 2 + 1)
        for bits in sorted({widths[rank, node] for node in shard.halo.tolist()}):
            nodes = [node for node in shard.halo.tolist() if widths[rank, node] == bits]
            figure.add_scatter(
                x=[places[node][0] for node in nodes],
                y=[places[node][1] for node in nodes],
                mode="markers+text",
                text=[f"{bits}b" for _ in nodes],
                textfont={"color": "#000000" if bits <= 2 else "#ffffff", "size": 12},
                marker={
                    "color": _WIDTHS[bits],  # one colour per bit-width in all panels
                    "symbol": "square",
                    "size": _bits_size(bits),
                    "line": {"width": 1, "color": "#7d7d7d"},
                },
                customdata=ids_of(parts.graph, nodes),
                name=human_bits(bits),
                legendgroup=f"bits {bits}",
                legendrank=bits,
                showlegend=bits not in shown_widths,  # one entry for all panels
                hovertemplate=f"node %{{customdata}} for worker {rank}: {_count(bits, 'bit')}<extra></extra>",
                row=panel[0], col=panel[1],
            )  # fmt: skip
            words = [f"row {short_id(parts.graph, node)}" for node in nodes]
            _add_words(figure, places, nodes, words, shift=_bits_size(bits) / 2, dark=dark, panel=panel)
            shown_widths.add(bits)
            frame += [(rank, parts.graph.id_of(node), int(parts.owner[node]), bits) for node in nodes]
    table = pd.DataFrame(frame, columns=["worker", "node", "owner", "bits"]).set_index("worker")
    counts = table["bits"].value_counts().sort_index()
    title = "Bits of every message" + (f", {what}" if what else "")
    caption = f"{title}: " + ", ".join(f"{count} rows in {_count(bits, 'bit')}" for bits, count in counts.items()) + "."
    _finish(figure, title=title, caption=caption, dark=dark, height=_panels_height(parts))
    return FigureData(figure, table)


def message_widths(
    parts: Parts, bits: BitPolicy, *, layer: int, direction: str = "forward", epoch: int = 0, seed: int = 0
) -> dict[tuple[int, int], int]:
    """Return the bit-width that a policy gives every halo row, by ``(worker that holds the copy, node)``.

    Forward, the owner sends the row to that worker; backward, that worker sends the row's gradient to the owner.

    Example:
        >>> from gnnqlab.bits.policy import Fixed
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> parts = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> message_widths(parts, Fixed(bits=4), layer=0)
        {(0, 5): 4, (0, 7): 4, (1, 3): 4, (1, 4): 4}
    """
    import torch

    from gnnqlab.bits.policy import Rows

    width_by_copy: dict[tuple[int, int], int] = {}
    for rank, shard in enumerate(parts.shards):
        for route in shard.plan("forward").receive:
            # Forward, rank receives rows; backward, it sends their gradients to the owner.
            sender, receiver = (route.peer, rank) if direction == "forward" else (rank, route.peer)
            rows = Rows(layer=layer, direction=direction, sender=sender, receiver=receiver, ids=route.ids, seed=seed)
            if route.num_rows:
                # Scalar or (rows,) -> (rows,).
                widths = torch.as_tensor(bits.widths(rows, epoch)).expand(route.num_rows)
                width_by_copy.update({(rank, int(node)): int(width) for node, width in zip(route.ids, widths)})
    return width_by_copy


def _kinds(parts: Parts) -> list[str]:
    kinds = ["central"] * parts.graph.num_nodes
    for shard in parts.shards:
        for node in shard.owned[shard.num_central :].tolist():  # local order: central nodes first, then marginal ones
            kinds[node] = "marginal"
    return kinds


def _panels(parts: Parts, *, dark: bool) -> tuple[Figure, list[tuple[int, int | str, str, int]]]:
    """Return one panel per worker with its nodes, the edges it stores and all else as faint dots; and table rows."""
    from plotly.subplots import make_subplots

    if not 1 <= parts.workers <= 4:
        raise ValueError(f"at most 4 workers can be drawn side by side, got {parts.workers}; use draw_partition")
    places, kinds = places_of(parts.graph), _kinds(parts)
    columns = min(parts.workers, 2)
    figure = make_subplots(
        rows=-(-parts.workers // 2),
        cols=columns,
        subplot_titles=[f"worker {rank}" for rank in range(parts.workers)],
        horizontal_spacing=0.06,
        vertical_spacing=0.12,
    )
    frame: list[tuple[int, int | str, str, int]] = []
    for rank, shard in enumerate(parts.shards):
        panel = (rank // 2 + 1, rank % 2 + 1)  # row and column from 1, two panels per row
        owned_ids = set(shard.owned.tolist())
        stored_ids = owned_ids | set(shard.halo.tolist())
        # The worker stores edges between its own nodes, and those between its own and halo nodes.
        inner_edges = [edge for edge in neighbours(parts.graph) if set(edge) <= owned_ids]
        halo_edges = [
            edge for edge in neighbours(parts.graph) if set(edge) <= stored_ids and len(set(edge) & owned_ids) == 1
        ]
        _add_edges(figure, places, inner_edges, "edge inside a worker", panel=panel, legend=rank == 0)
        _add_edges(
            figure, places, halo_edges, "edge to a copy", color=OKABE_ITO["vermillion"], dash="dash", panel=panel,
            legend=rank == 0,
        )  # fmt: skip
        absent_nodes = [node for node in range(len(places)) if node not in stored_ids]
        figure.add_scatter(
            x=[places[node][0] for node in absent_nodes],
            y=[places[node][1] for node in absent_nodes],
            mode="markers",
            marker={"color": _FAINT, "size": 7},
            name="on other workers only",
            legendgroup="on other workers only",
            showlegend=rank == 0,
            customdata=ids_of(parts.graph, absent_nodes),
            hovertemplate=f"node %{{customdata}}: not on worker {rank}<extra></extra>",
            row=panel[0],
            col=panel[1],
        )
        for kind in ("central", "marginal"):
            nodes = [node for node in sorted(owned_ids) if kinds[node] == kind]
            _add_nodes(figure, parts.graph, places, nodes, worker=rank, kind=kind, dark=dark, panel=panel)
            frame += [(rank, parts.graph.id_of(node), kind, rank) for node in nodes]
    _bare_axes(figure, places)
    for worker in range(parts.workers):
        _add_to_legend(figure, f"worker {worker}", color=_COLORS[worker], symbol="circle")
    for kind in ("central", "marginal"):
        _add_to_legend(figure, kind, color=_FAINT, symbol=_SHAPES[kind])
    return figure, frame


def _panels_height(parts: Parts) -> int:
    return 370 if parts.workers <= 2 else 600


def _finish(figure: Figure, *, title: str, caption: str, dark: bool, height: int) -> None:
    """Finish a figure with its legend below, clear of the panels' titles."""
    finish(figure, title=title, caption=caption, dark=dark, height=height)
    figure.update_layout(legend={"y": 0.0, "yanchor": "top"}, margin={"t": 64, "b": 70, "l": 16})


def _add_edges(
    figure: Figure,
    places: Sequence[tuple[float, float]],
    edges: Iterable[tuple[int, int]],
    name: str,
    *,
    color: str = _EDGE,
    dash: str = "solid",
    panel: tuple[int, int] | None = None,
    legend: bool = True,
) -> None:
    edges = list(edges)
    figure.add_scatter(
        x=[value for a, b in edges for value in (places[a][0], places[b][0], None)],
        y=[value for a, b in edges for value in (places[a][1], places[b][1], None)],
        mode="lines",
        line={"color": color, "dash": dash, "width": 2},
        name=name,
        legendgroup=name,
        showlegend=legend,
        hoverinfo="skip",
        **_cell(panel),
    )


def _add_nodes(
    figure: Figure,
    graph: Graph,
    places: Sequence[tuple[float, float]],
    nodes: Sequence[int],
    *,
    worker: int,
    kind: str,
    dark: bool,
    panel: tuple[int, int] | None = None,
) -> None:
    """Draw nodes of one owner and kind: the id in the shape, the kind as a word below it if there is room."""
    if not nodes:
        return
    room = len(places) <= 16  # larger markers and a word per node only if they do not overlap
    color, ink = _COLORS[worker % 4], _INK[worker % 4]
    marker: dict[str, Any] = {"color": color, "symbol": _SHAPES[kind], "size": 30 if room else 17, "line": {"width": 0}}
    if kind == "halo":
        marker |= {"color": "#14171a" if dark else "#ffffff", "size": 26 if room else 15}
        marker["line"] = {"width": 3, "color": color}
        ink = "#e6e8ea" if dark else "#1f2328"
    if kind == "left out":
        marker |= {"color": _FAINT, "size": 22 if room else 13}
        ink = "#6c757d"
    figure.add_scatter(
        x=[places[node][0] for node in nodes],
        y=[places[node][1] for node in nodes],
        mode="markers+text",
        text=[short_id(graph, node) for node in nodes],
        customdata=[graph.id_of(node) for node in nodes],
        textfont={"color": ink, "size": 13 if room else 9},
        marker=marker,
        name=f"worker {worker}, {kind}",
        showlegend=panel is None,
        hovertemplate=f"node %{{customdata}}: worker {worker}, {kind}<extra></extra>",
        **_cell(panel),
    )
    if room:
        _add_words(figure, places, nodes, [kind] * len(nodes), shift=19, dark=dark, panel=panel)


def _add_to_legend(figure: Figure, name: str, *, color: str, symbol: str) -> None:
    """Add an entry to the legend only."""
    marker = {"color": color, "symbol": symbol, "size": 14}
    figure.add_scatter(x=[None], y=[None], mode="markers", marker=marker, name=name, hoverinfo="skip")


def _bits_size(bits: int) -> float:
    """Return the size in pixels of a row's marker in the bit map."""
    return 24 + 3 * math.log2(bits)


def _add_words(
    figure: Figure,
    places: Sequence[tuple[float, float]],
    nodes: Sequence[int],
    words: Sequence[str],
    *,
    shift: float,
    dark: bool,
    panel: tuple[int, int] | None,
) -> None:
    """Write a word under each node, ``shift`` pixels from its middle."""
    for node, word in zip(nodes, words):
        figure.add_annotation(
            x=places[node][0],
            y=places[node][1],
            yshift=-shift,
            text=word,
            showarrow=False,
            yanchor="top",
            borderpad=0,
            bgcolor="rgba(20,23,26,0.75)" if dark else "rgba(255,255,255,0.75)",
            font={"size": 10},
            **_cell(panel),
        )


def _bare_axes(figure: Figure, places: Sequence[tuple[float, float]]) -> None:
    """Hide the axes and give the nodes the same margins in every panel."""
    xs, ys = [x for x, _ in places] or [0.0], [y for _, y in places] or [0.0]  # an empty graph has a range too
    margin = 0.5
    figure.update_xaxes(visible=False, range=[min(xs) - margin, max(xs) + margin])
    figure.update_yaxes(visible=False, range=[min(ys) - 1.4 * margin, max(ys) + margin])


def _cell(panel: tuple[int, int] | None) -> dict[str, int]:
    return {} if panel is None else {"row": panel[0], "col": panel[1]}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
