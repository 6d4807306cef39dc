"""Layout of a real graph on the cells of a grid: one node per cell, neighbours near each other.

First every node gets a place on a plane, where neighbours attract and all nodes repel each other with a heavy-tailed
kernel (the gradient of t-SNE, van der Maaten & Hinton, 2008, with the graph's edges as affinities), started from the
slow modes of a random walk. Then the nodes are split recursively between the halves of the grid, along its longer side.
The layout does not depend on the partition.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gnnqlab.graph.graph import Graph

__all__ = ["LARGEST_WHOLE", "MAX_AROUND", "Grid", "neighbourhood", "places_on_grid"]

LARGEST_WHOLE = 2000
"""Most nodes of a graph that is drawn whole; with more, a cell is smaller than ten pixels on a small page."""
MAX_AROUND = 400
"""Nodes of a neighbourhood that is drawn of a larger graph."""
_ASPECT = 0.63
"""Height of a grid over its width."""
# Steps of the gradient descent, and of its first part with exaggerated attraction.
_STEPS, _EXAGGERATED_STEPS = 90, 30
_MAX_LAYOUTS = 8
_layouts: OrderedDict[tuple[str, bytes], Grid] = OrderedDict()
"""Cache of the latest layouts, by graph and nodes."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Nodes on the cells of a grid."""

    nodes: NDArray[np.int64]
    """Global ids, ascending, int64 ``(n,)``."""
    cells: NDArray[np.int64]
    """Column and line of each node, from the top left corner, int64 ``(n, 2)``."""
    columns: int
    lines: int


def places_on_grid(graph: Graph, nodes: NDArray[np.int64] | None = None) -> Grid:
    """Return a cell for each node of a graph, or of some of its nodes; the last few results are cached.

    Deterministic on one machine: only the start is random, with a fixed seed.

    Args:
        graph: the whole graph.
        nodes: ascending global ids, all nodes by default; only edges among them count.

    Raises:
        ValueError: if there are no nodes, or more than `LARGEST_WHOLE`.

    Example:
        >>> from gnnqlab.graph.sources import load
        >>> grid = places_on_grid(load("sbm:40,2,4"))
        >>> grid.columns, grid.lines, len({tuple(cell) for cell in grid.cells.tolist()})
        (8, 5, 40)
    """
    selection = np.arange(graph.num_nodes) if nodes is None else nodes
    if not 1 <= len(selection) <= LARGEST_WHOLE:
        raise ValueError(
            f"a graph drawn whole must have 1 to {LARGEST_WHOLE:,} nodes, got {len(selection):,}; draw the "
            "neighbourhood of a node: parts.draw(around=0)"
        )
    key = (graph.content_hash, b"" if nodes is None else nodes.tobytes())
    if key in _layouts:
        _layouts.move_to_end(key)  # least recently used layouts are dropped first
        return _layouts[key]
    lines = max(1, int(math.sqrt(_ASPECT * len(selection))))  # lines * columns >= nodes, with the wanted aspect
    columns = -(-len(selection) // lines)
    grid = Grid(selection, _assign_cells(_embed_in_plane(_adjacency(graph, selection)), columns, lines), columns, lines)
    _layouts[key] = grid
    while len(_layouts) > _MAX_LAYOUTS:
        _layouts.popitem(last=False)
    return grid


def neighbourhood(graph: Graph, node: int, *, most: int = MAX_AROUND) -> NDArray[np.int64]:
    """Return a node and its nearest in-neighbours, hop by hop against the direction of edges, as ascending ids.

    If the last hop has more nodes than are left to take, those with the lowest ids are taken.

    Raises:
        ValueError: if the graph has no such node.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> neighbourhood(Graph.from_edges([0, 1, 2], [1, 2, 3], num_nodes=4, symmetrize=False), 2, most=2).tolist()
        [1, 2]
    """
    if not 0 <= node < graph.num_nodes:
        raise ValueError(f"around must be a node, 0 to {graph.num_nodes - 1:,}, got {node:,}")
    indptr, indices = graph.indptr.numpy(), graph.indices.numpy()
    nodes, hop = np.array([node]), np.array([node])
    while len(hop) and len(nodes) < most:
        sources = np.concatenate([indices[indptr[source] : indptr[source + 1]] for source in hop])
        hop = np.setdiff1d(sources, nodes)[: most - len(nodes)]  # sorted, so the lowest ids remain
        nodes = np.concatenate([nodes, hop])
    return np.sort(nodes).astype(np.int64)


def _adjacency(graph: Graph, nodes: NDArray[np.int64]) -> Any:
    """Return the symmetric adjacency matrix of some nodes without self-loops: ones in scipy's CSR, float32 (n, n)."""
    import scipy.sparse as sparse

    targets = np.repeat(np.arange(graph.num_nodes), graph.in_degrees.numpy())
    sources = graph.indices.numpy()
    number = np.full(graph.num_nodes, -1)  # global id -> index among the drawn nodes, -1: not drawn
    number[nodes] = np.arange(len(nodes))
    a, b = number[targets], number[sources]
    mask = (a >= 0) & (b >= 0) & (a != b)
    size = (len(nodes), len(nodes))
    directed_edges = sparse.csr_matrix((np.ones(int(mask.sum()), np.float32), (a[mask], b[mask])), shape=size)
    return ((directed_edges + directed_edges.T) > 0).astype(np.float32)


def _embed_in_plane(adjacency: Any) -> NDArray[np.float32]:
    """Return places on a plane by gradient descent, float32 (n, 2); see the head of the file."""
    import scipy.sparse as sparse

    count = adjacency.shape[0]
    place = _slow_modes(adjacency)  # (n, 2)
    if count < 3 or not adjacency.nnz:
        return place
    pairs = adjacency.tocoo()
    rows, columns, weight = pairs.row, pairs.col, (pairs.data / pairs.data.sum()).astype(np.float32)
    speed, gain = np.zeros_like(place), np.ones_like(place)
    for step in range(_STEPS):
        is_exaggerated = step < _EXAGGERATED_STEPS
        # Kernel 1 / (1 + d²) of all pairs, in place because n² values are the largest array here.
        square = (place * place).sum(axis=1)  # (n,)
        kernel = place @ (-2 * place.T)  # (n, n)
        kernel += square[:, None]
        kernel += square[None, :] + 1
        np.maximum(kernel, 1, out=kernel)  # rounding may make d² negative
        np.reciprocal(kernel, out=kernel)
        total = max(float(kernel.sum()) - count, 1e-6)  # without the ones of the diagonal
        kernel *= kernel  # gradient of the repulsion has the squared kernel
        repulsion = (kernel.sum(axis=1)[:, None] * place - kernel @ place) / total
        length = ((place[rows] - place[columns]) ** 2).sum(axis=1)  # squared distances of neighbours, (edges,)
        # Attraction along edges, exaggerated at first so that clusters form.
        pull = sparse.csr_matrix(
            (weight * (4.0 if is_exaggerated else 1.0) / (1 + length), (rows, columns)), shape=adjacency.shape
        )
        slope = 4 * (np.asarray(pull.sum(axis=1)) * place - pull @ place - repulsion)  # gradient, (n, 2)
        # Steps grow while a coordinate keeps its direction (gradient against velocity), and shrink when it turns.
        gain = np.where(np.sign(slope) != np.sign(speed), gain + 0.2, np.maximum(gain * 0.8, 0.01))
        speed = (0.5 if is_exaggerated else 0.8) * speed - count / 8 * gain * slope
        place = (place + speed).astype(np.float32)
        place -= place.mean(axis=0)  # the gradient does not determine the origin
    return place


def _slow_modes(adjacency: Any, steps: int = 120) -> NDArray[np.float32]:
    """Return the two slowest modes of a lazy random walk but the constant one, scaled to small start places (n, 2)."""
    count = adjacency.shape[0]
    degree = np.maximum(np.asarray(adjacency.sum(axis=1)), 1.0).reshape(-1, 1)  # (n, 1); 1 for isolated nodes
    place = np.random.default_rng(0).standard_normal((count, 2))
    for _ in range(steps if count > 2 else 0):
        place = 0.5 * place + 0.5 * (adjacency @ place) / degree  # one step of the lazy walk
        place -= (place * degree).sum(axis=0) / degree.sum()  # without the constant mode
        # Orthogonal with respect to the degrees, as modes of a walk are; else both columns would become the slowest.
        place = np.linalg.qr(place * np.sqrt(degree))[0] / np.sqrt(degree)
    return (0.01 * place / np.maximum(np.abs(place).std(axis=0), 1e-12)).astype(np.float32)


def _assign_cells(place: NDArray[np.float32], columns: int, lines: int) -> NDArray[np.int64]:
    """Return a cell for each place by recursive bisection, int64 (n, 2): places on the left get the left half, etc."""
    cells = np.zeros((len(place), 2), np.int64)
    boxes = [(np.arange(len(place)), 0, 0, columns, lines)]  # nodes, left column, top line, columns, lines
    while boxes:
        nodes, x, y, width, height = boxes.pop()
        if len(nodes) <= 1 or width * height == 1:
            cells[nodes] = (x, y)
            continue
        is_wide = width >= height  # split the longer side
        half = (width if is_wide else height) // 2
        room = half * (height if is_wide else width)
        # As many nodes as the first half has of all cells, but so many at least that the rest fits into the second.
        share = min(max(round(len(nodes) * room / (width * height)), len(nodes) - (width * height - room)), room)
        order = nodes[np.argsort(place[nodes, 0 if is_wide else 1], kind="stable")]
        if is_wide:
            boxes += [(order[:share], x, y, half, height), (order[share:], x + half, y, width - half, height)]
        else:
            boxes += [(order[:share], x, y, width, half), (order[share:], x, y + half, width, height - half)]
    return cells
