"""Drawing of a partitioned real graph: one cell per node with its image, coloured by owner, copies, bits or error.

Cells and images are one picture with a palette; an invisible heat map over it has the hover text of each node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gnnqlab.graph.pictures import LEVELS, data_address, grey_levels, write_png
from gnnqlab.lab.figures import node_fills
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.graph_drawing import message_widths
from gnnqlab.lab.figures.grid_places import Grid, neighbourhood, places_on_grid
from gnnqlab.lab.figures.node_fills import Fill, FillAssignment
from gnnqlab.lab.figures.node_names import class_name
from gnnqlab.lab.figures.theme import finish
from gnnqlab.lab.figures.waiting import Dependencies, dependencies_of, transferred_nodes
from gnnqlab.partition.cut import cut_name
from gnnqlab.simulation.coding_errors import coding_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from plotly.graph_objects import Figure

    from gnnqlab.bits.policy import BitPolicy
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.parts import Parts

__all__ = ["COLORINGS", "draw"]

COLORINGS = ("owner", "halo", "bits", "error")
"""Properties by which nodes are coloured."""
_PAGE = 720
"""Width in pixels of the page for which the height is chosen; a live view derives the height from its own width."""
_SIDE, _LEGEND_PX = 8, 95
_MAX_EDGES = 600
_NUMBERED = 120
"""Most cells without images that are labelled with the ids of their nodes."""
_TITLES = {
    "owner": "owner of each node",
    "halo": "copies of each node",
    "bits": "bits of each row",
    "error": "squared error of each row",
}
ByCopy = Mapping[tuple[int, int], float]


def draw(
    parts: Parts,
    show: str = "owner",
    *,
    worker: int | None = None,
    pair: tuple[int, int] | None = None,
    bits: BitPolicy | Mapping[tuple[int, int], int] | None = None,
    errors: ByCopy | None = None,
    around: int | None = None,
    dark: bool = False,
) -> FigureData:
    """Draw a partitioned real graph, one cell per node, neighbours near each other.

    Nodes of ``digits`` are drawn as their images. The layout does not depend on the partition. The hover text of a node
    has its owner and class, its kind (central or marginal), the rows it waits for and their workers, the workers with a
    copy, and its bits and error where they are given.

    Args:
        parts: the partition, an edge-cut or a vertex-cut.
        show: ``owner``: one colour per worker, strong on marginal nodes; ``halo``: number of other workers with a copy,
            or with ``worker`` the nodes that this one holds; ``bits``: bit-width in which a row is sent; ``error``: its
            squared error after decoding. If a row is sent to several workers, the largest value counts.
        worker: worker whose nodes and copies ``halo`` shows.
        pair: sender and receiver, to highlight the rows that the one sends the other, and the nodes that wait for them.
        bits: bit policy, for its bit-widths of the first exchange in epoch 0; or bits by ``(worker that holds the copy,
            node)``.
        errors: squared errors by ``(worker that holds the copy, node)``; by default those of coding the graph's
            features in ``bits``, see :func:`gnnqlab.simulation.coding_errors.coding_errors`.
        around: node of a large graph, of which the 400 nodes nearest to this one are drawn.
        dark: colours for a dark page.

    Returns:
        The figure, and a table of the number of nodes of each colour.

    Raises:
        ValueError: if the view, worker, pair or node does not exist; ``bits`` or ``errors`` are missing; the graph is
            cut into blocks; or it has more than 2,000 nodes and ``around`` is not given.

    Example:
        >>> import gnnqlab as gq
        >>> drawn = draw(gq.partition(gq.load("sbm:60,3,6"), gq.partitioners.Random(), workers=2), pair=(0, 1))
        >>> drawn.frame.loc["rows that worker 0 sends", "nodes"] > 0
        np.True_
    """
    _check(parts, show, worker, pair, bits, errors)
    nodes = None if around is None else neighbourhood(parts.graph, around)
    grid = places_on_grid(parts.graph, nodes)
    dependencies = dependencies_of(parts, grid.nodes)
    node_facts = _NodeFacts(dependencies, *_by_copy(parts, show, bits, errors), pair=pair)
    fills = node_facts.assign_fills(parts, show, worker)
    return _draw_figure(parts, grid, node_facts, fills, show=show, worker=worker, center=around, dark=dark)


@dataclass(frozen=True)
class _NodeFacts:
    """Dependencies, bit-widths and errors of the nodes that are drawn."""

    found: Dependencies
    widths: Mapping[tuple[int, int], int]
    errors: ByCopy
    pair: tuple[int, int] | None

    def assign_fills(self, parts: Parts, show: str, worker: int | None) -> FillAssignment:
        dependencies, workers = self.found, parts.workers
        if self.pair is not None and show in ("owner", "halo"):
            sender, receiver = self.pair
            sent_nodes = set(transferred_nodes(parts, sender, receiver))
            return node_fills.by_pair(dependencies, sent_nodes, self.waiting_nodes, sender, receiver)
        if show == "owner":
            return node_fills.by_owner(dependencies, workers)
        if show == "halo":
            return node_fills.by_copies(dependencies) if worker is None else node_fills.by_shard(dependencies, worker)
        rest = "not sent" if self.pair is None else "not of this pair"
        if show == "bits":
            widths = {node: int(width) for node, width in self._most(self.widths, parts).items()}
            return node_fills.by_width(dependencies, widths, rest=rest)
        return node_fills.by_error(dependencies, self._most(self.errors, parts), rest=rest)

    @property
    def waiting_nodes(self) -> set[int]:
        """Nodes of the receiver that wait for rows of the sender."""
        if self.pair is None:
            return set()
        sender, receiver = self.pair
        dependencies = self.found
        return {
            node
            for node, waits in dependencies.rows.items()
            if dependencies.owner[node] == receiver and sender in waits
        }

    def _most(self, by_copy: ByCopy, parts: Parts) -> dict[int, float]:
        """Return the largest value of each row among the workers with a copy; for a pair, the receiver's value."""
        values: dict[int, float] = {}
        for (holder, node), value in by_copy.items():
            if self.pair is None or (holder == self.pair[1] and int(parts.owner[node]) == self.pair[0]):
                values[node] = max(value, values.get(node, value))  # a row sent to several workers counts once
        return values

    def hover_text(self, node: int) -> str:
        """Return the hover text of a node after its id, class and owner."""
        dependencies = self.found
        kind = "central" if dependencies.central[node] else "copied" if dependencies.is_vertex_cut else "marginal"
        lines = [kind + (f": {dependencies.describe(node)}" if node in dependencies.rows else "")]
        holders = dependencies.copies.get(node, ())
        if holders:
            copy_texts = []
            for holder in holders:
                words = str(holder)
                if (holder, node) in self.widths:
                    words += f" in {self.widths[holder, node]}b"
                if (holder, node) in self.errors:
                    words += f", error {self.errors[holder, node]:.2g}"
                copy_texts.append(words)
            lines.append("copied to worker " + ("; " if self.widths or self.errors else ", ").join(copy_texts))
        return "<br>".join(lines)


def _names_text(graph: Graph, node: int) -> str:
    """Return a line with id and class name of a node, for graphs that have them; empty for others."""
    names = [] if graph.ids is None else [f"id {graph.id_of(node)}"]
    if graph.class_names is not None and not graph.multi_label:
        names.append(f"class {class_name(graph, int(graph.labels[node]))}")
    return "<br>" + ", ".join(names) if names else ""


def _check(
    parts: Parts, show: str, worker: int | None, pair: tuple[int, int] | None, bits: object, errors: object
) -> None:
    if show not in COLORINGS:
        raise ValueError(f"show must be one of {COLORINGS}, got {show!r}")
    if worker is not None and (show != "halo" or pair is not None):
        raise ValueError("worker= selects a worker's copies for show='halo' without pair=; leave it out")
    if worker is not None and not 0 <= worker < parts.workers:
        raise ValueError(f"worker must be one of 0 to {parts.workers - 1}, got {worker}")
    if pair is not None:
        transferred_nodes(parts, *pair)
    if show == "bits" and bits is None:
        raise ValueError("show='bits' needs bit-widths, got none; pass bits=gq.bits.UniformRandom() or those of a run")
    if show == "error" and bits is None and errors is None:
        raise ValueError("show='error' needs bits= or errors=, got neither; pass bits=gq.bits.Fixed(bits=2)")
    if (bits is not None or errors is not None) and parts.shards[0].cuts != "nodes":
        raise ValueError(
            "bits and errors can be drawn for an edge-cut only, where a halo row is a copy of one node's row, got "
            f"{cut_name(parts.shards[0].cuts)}; show 'owner' or 'halo'"
        )


def _by_copy(
    parts: Parts, show: str, bits: BitPolicy | Mapping[tuple[int, int], int] | None, errors: ByCopy | None
) -> tuple[Mapping[tuple[int, int], int], ByCopy]:
    widths: Mapping[tuple[int, int], int] = {}
    if bits is not None:
        widths = bits if isinstance(bits, Mapping) else message_widths(parts, bits, layer=0)
    if errors is None and show == "error":
        errors = coding_errors(parts, widths)
    return widths, errors or {}


def _draw_figure(
    parts: Parts, grid: Grid, node_facts: _NodeFacts, fills: FillAssignment, *, show: str, worker: int | None,
    center: int | None, dark: bool,
) -> FigureData:  # fmt: skip
    import pandas as pd
    import plotly.graph_objects as go

    graph, ink = parts.graph, "#f2f4f6" if dark else "#1f2328"
    images = grey_levels(graph)
    picture, pitch = _picture(grid, fills, images, ink)
    figure = go.Figure()
    figure.add_image(
        source=data_address(picture), x0=-0.5 + 1 / pitch, y0=-0.5 + 1 / pitch, dx=1 / pitch, dy=1 / pitch,
        colormodel="rgba256", hoverinfo="skip",
    )  # fmt: skip
    has_classes = bool(graph.num_classes) and not graph.multi_label
    ground = np.full((grid.lines, grid.columns), np.nan, np.float32)  # (lines, columns); NaN: an empty cell
    facts = np.zeros((grid.lines, grid.columns, 2), np.uint16)  # class and owner: as numbers they take few bytes
    words = np.full((grid.lines, grid.columns), "", object)
    for node, (x, y) in zip(grid.nodes.tolist(), grid.cells.tolist()):
        ground[y, x], words[y, x] = node, node_facts.hover_text(node) + _names_text(graph, node)
        facts[y, x] = int(graph.labels[node]) if has_classes else 0, node_facts.found.owner[node]
    hover = "node %{z:d}" + (", class %{customdata[0]}" if has_classes else "") + "<br>worker %{customdata[1]}, %{text}"
    figure.add_heatmap(
        z=ground, text=words.tolist(), customdata=facts, hovertemplate=hover + "<extra></extra>", hoverongaps=False,
        opacity=0, showscale=False, name="nodes",
    )  # fmt: skip
    if images is None and len(grid.nodes) <= _NUMBERED:
        figure.add_scatter(
            x=grid.cells[:, 0], y=grid.cells[:, 1], mode="text", text=grid.nodes.astype(str).tolist(),
            textfont={"size": 12, "color": ink}, hoverinfo="skip", showlegend=False,
        )  # fmt: skip
    edges = _add_edges(figure, parts, grid, node_facts, ink)
    if center is not None:
        x, y = grid.cells[grid.nodes.tolist().index(center)].tolist()
        marker = {"symbol": "square-open", "size": 26, "color": ink, "line": {"width": 3}}
        figure.add_scatter(x=[x], y=[y], mode="markers", marker=marker, hoverinfo="skip", name=f"node {center}")
    legend_fills = [fill for fill in fills.fills if fill.key]
    if show == "owner" and node_facts.pair is None:
        legend_fills.append(Fill("pale: central, waits for no worker", "#7d7d7d", node_fills.PALE))
    for fill in legend_fills:
        color = _rgba(fill.color, fill.cover)
        marker = {"symbol": "square", "size": 13, "color": color, "line": {"width": 1, "color": "#8c959f"}}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=marker, name=fill.label, hoverinfo="skip")
    caption = _caption(parts, grid, node_facts, fills, show, worker, center, images is not None, edges)
    # Lines of the legend, at about 7 pixels per letter and 45 per symbol; rounded up.
    lines = -(-sum(len(fill.label) * 7 + 45 for fill in legend_fills) // (_PAGE - 40))
    # Pixels for title and legend, and height of the map over its width.
    fixed_px, share = 46 + 14 + 22 * lines, grid.lines / grid.columns
    height = round(fixed_px + share * (_PAGE - 2 * _SIDE))
    finish(figure, title=_title(parts, node_facts.pair, show, worker), caption=caption, dark=dark, height=height)
    figure.update_xaxes(visible=False, range=[-0.5, grid.columns - 0.5], constrain="domain")
    figure.update_yaxes(
        visible=False, range=[grid.lines - 0.5, -0.5], scaleanchor="x", scaleratio=1, constrain="domain"
    )
    figure.update_layout(
        legend={"yref": "container", "y": 0.0, "yanchor": "bottom", "traceorder": "normal", "itemclick": False,
                "itemdoubleclick": False, "itemwidth": 30},
        margin={"t": 46, "b": fixed_px - 46, "l": _SIDE, "r": _SIDE},
        meta={"caption": caption, "tall": {"fixed": fixed_px, "share": share, "beside": 2 * _SIDE}},
    )  # fmt: skip
    counts = fills.counts
    table = pd.DataFrame({"nodes": list(counts.values())}, index=pd.Index(list(counts), name="drawn as"))
    return FigureData(figure, table)


def _picture(grid: Grid, fills: FillAssignment, images: NDArray[np.uint8] | None, ink: str) -> tuple[bytes, int]:
    """Return a picture of all cells, each node's image in shades of ink on its fill, and the pixels of a cell."""
    size = 4 if images is None else int(images.shape[1])
    shades = 1 if images is None else LEVELS
    pitch = size + 1  # a transparent line between cells
    palette = [(0, 0, 0, 0)]  # entry 0: transparent
    for fill in fills.fills:
        palette += [_shade(fill, ink, shade / max(shades - 1, 1)) for shade in range(shades)]
    sheet = np.zeros((grid.lines * pitch, grid.columns * pitch), np.uint8)
    for node, (x, y) in zip(grid.nodes.tolist(), grid.cells.tolist()):
        offset = np.uint8(1 + shades * fills.index_by_node[node])  # palette: transparent, then the shades of each fill
        cell = offset if images is None else offset + images[node]  # an image has values from 0 to LEVELS - 1
        sheet[y * pitch : y * pitch + size, x * pitch : x * pitch + size] = cell
    return write_png(sheet, palette), pitch


def _shade(fill: Fill, ink: str, shade: float) -> tuple[int, int, int, int]:
    """Return the RGBA colour of ink over a fill over a transparent ground (alpha compositing)."""
    shade *= 0.45 if fill.faint else 1.0
    fill_opacity = (1 - shade) * (fill.cover if fill.color else 0.12 if fill.faint else 0.0)
    cover = shade + fill_opacity
    fill_channels = _channels(fill.color or "#8c959f")
    channels = [
        round((shade * ink_channel + fill_opacity * fill_channel) / cover) if cover else 0
        for ink_channel, fill_channel in zip(_channels(ink), fill_channels)
    ]
    return channels[0], channels[1], channels[2], round(255 * cover)


def _add_edges(figure: Figure, parts: Parts, grid: Grid, node_facts: _NodeFacts, ink: str) -> int | None:
    """Draw edges from the rows of a pair to the nodes that wait for them; return their number, None if too many."""
    if node_facts.pair is None or node_facts.found.is_vertex_cut:
        return 0
    place = dict(zip(grid.nodes.tolist(), grid.cells.tolist()))
    ends = [
        (place[source], place[node])
        for node in sorted(node_facts.waiting_nodes)
        for source in node_facts.found.rows[node][node_facts.pair[0]]
        if source in place
    ]
    if not 0 < len(ends) <= _MAX_EDGES:
        return None if ends else 0
    gap = np.full(len(ends), np.nan)  # NaN ends a line
    x, y = (
        # (edges, 3) -> (3 * edges,).
        np.stack([[start[axis] for start, _ in ends], [end[axis] for _, end in ends], gap], axis=1).ravel()
        for axis in (0, 1)
    )
    figure.add_scatter(
        x=x, y=y, mode="lines", line={"color": ink, "width": 1}, opacity=0.45, hoverinfo="skip", name="cut edges"
    )
    return len(ends)


def _title(parts: Parts, pair: tuple[int, int] | None, show: str, worker: int | None) -> str:
    subject = _TITLES[show]
    if worker is not None:
        subject = f"nodes and copies on worker {worker}"
    if pair is not None:
        rows = "rows" if show in ("owner", "halo") else subject.replace("each row", "rows")
        subject = f"{rows} from worker {pair[0]} to worker {pair[1]}"
    return f"{parts.graph.name} on {parts.workers} workers: {subject}"


def _caption(
    parts: Parts, grid: Grid, node_facts: _NodeFacts, fills: FillAssignment, show: str, worker: int | None,
    center: int | None, images: bool, edges: int | None,
) -> str:  # fmt: skip
    graph, dependencies = parts.graph, node_facts.found
    extent = f"{len(grid.nodes):,} nodes" if center is None else f"the {len(grid.nodes):,} nodes around node {center}"
    sentence = (
        f"{graph.name}, {extent} on {parts.workers} workers, {'each as its image, ' if images else ''}neighbours near."
    )
    if node_facts.pair is not None:
        sender, receiver = node_facts.pair
        rows = transferred_nodes(parts, sender, receiver)
        num_drawn = sum(node in dependencies.owner for node in rows)
        part = f" {num_drawn:,} of them are drawn;" if num_drawn < len(rows) else ""
        note = " their edges are too many to be drawn;" if edges is None else ""
        sentence += (
            f" Worker {sender} sends worker {receiver} {len(rows):,} rows per exchange;{part}{note} "
            f"{len(node_facts.waiting_nodes):,} nodes there wait for them."
        )
    counts = {label: count for label, count in fills.counts.items() if count and label != "others"}
    if show == "owner" and node_facts.pair is None:
        waits = sum(not is_central for is_central in dependencies.central.values())
        kind = "copied" if dependencies.is_vertex_cut else "marginal"
        rest = len(dependencies.central) - waits
        return f"{sentence} {waits:,} are {kind} (strong) and wait for other workers; {rest:,} are central (pale)."
    if node_facts.pair is not None and show in ("owner", "halo"):
        return sentence
    subject = {"halo": "Nodes", "bits": "Rows by their largest bit-width", "error": "Squared error, rows"}[show]
    if worker is not None:
        subject = f"Worker {worker}"
    return f"{sentence} {subject}: " + ", ".join(f"{label} {count:,}" for label, count in counts.items()) + "."


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _rgba(color: str | None, cover: float) -> str:
    return "rgba(0,0,0,0)" if color is None else "rgba({},{},{},{})".format(*_channels(color), cover)
