"""Where the nodes of a real graph are drawn: on the cells of a grid, neighbours near each other, no two on one place.

First every node is put on a plane, where neighbours attract and all nodes repel each other by a kernel with a long tail
(the gradient of t-SNE, van der Maaten & Hinton, 2008, with the graph's edges as affinities), from the slow modes of a
random walk. Then halves go to halves of the grid, again and again, along its longer side. The cut plays no part: a
graph has the same places however it is cut.
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

__all__ = ["LARGEST_WHOLE", "MOST_AROUND", "Grid", "neighbourhood", "places_on_grid"]

LARGEST_WHOLE = 2000
"""Nodes of the largest graph that is drawn whole: a cell of more is smaller than ten pixels on a small page."""
MOST_AROUND = 400
"""Nodes of a neighbourhood that is drawn of a larger graph."""
_HIGH = 0.63
"""Height of a grid over its width."""
_STEPS, _EXAGGERATED = 90, 30
_KEPT = 8
_kept: OrderedDict[tuple[str, bytes], Grid] = OrderedDict()


@dataclass(frozen=True, eq=False)
class Grid:
    """Nodes on the cells of a grid."""

    nodes: NDArray[np.int64]
    """Global ids, ascending, int64 ``(n,)``."""
    cells: NDArray[np.int64]
    """Column and line of each, from the top left corner, int64 ``(n, 2)``."""
    columns: int
    lines: int


def places_on_grid(graph: Graph, nodes: NDArray[np.int64] | None = None) -> Grid:
    """Return a cell for each node of a graph, or of some of its nodes; the last few answers are kept.

    The same at every call on one machine: nothing is drawn at random but the start, from a fixed seed.

    Args:
        graph: the whole graph.
        nodes: ascending global ids, whose edges among each other count; all nodes by default.

    Raises:
        ValueError: if these are none, or more than `LARGEST_WHOLE`.

    Example:
        >>> from gnnqlab.graph.sources import load
        >>> grid = places_on_grid(load("sbm:40,2,4"))
        >>> grid.columns, grid.lines, len({tuple(cell) for cell in grid.cells.tolist()})
        (8, 5, 40)
    """
    some = np.arange(graph.num_nodes) if nodes is None else nodes
    if not 1 <= len(some) <= LARGEST_WHOLE:
        raise ValueError(
            f"a graph that is drawn whole has 1 to {LARGEST_WHOLE:,} nodes, got {len(some):,}; draw what lies around "
            "a node: gq.draw(parts, around=0)"
        )
    key = (graph.content_hash, b"" if nodes is None else nodes.tobytes())
    if key in _kept:
        _kept.move_to_end(key)
        return _kept[key]
    lines = max(1, int(math.sqrt(_HIGH * len(some))))
    columns = -(-len(some) // lines)
    grid = Grid(some, _on_cells(_on_plane(_adjacency(graph, some)), columns, lines), columns, lines)
    _kept[key] = grid
    while len(_kept) > _KEPT:
        _kept.popitem(last=False)
    return grid


def neighbourhood(graph: Graph, node: int, *, most: int = MOST_AROUND) -> NDArray[np.int64]:
    """Return a node and those nearest to it against the direction of edges, whose rows its sums are of, ascending.

    Of the last hop that has room for some only, those with the lowest ids.

    Raises:
        ValueError: if there is no such node.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> neighbourhood(Graph.from_edges([0, 1, 2], [1, 2, 3], num_nodes=4, symmetrize=False), 2, most=2).tolist()
        [1, 2]
    """
    if not 0 <= node < graph.num_nodes:
        raise ValueError(f"around must be a node, 0 to {graph.num_nodes - 1:,}, got {node:,}")
    indptr, indices = graph.indptr.numpy(), graph.indices.numpy()
    found, hop = np.array([node]), np.array([node])
    while len(hop) and len(found) < most:
        sources = np.concatenate([indices[indptr[each] : indptr[each + 1]] for each in hop])
        hop = np.setdiff1d(sources, found)[: most - len(found)]
        found = np.concatenate([found, hop])
    return np.sort(found).astype(np.int64)


def _adjacency(graph: Graph, some: NDArray[np.int64]) -> Any:
    """Ones where two of the nodes are neighbours, either way, without self loops; scipy's CSR, float32."""
    import scipy.sparse as sparse

    targets = np.repeat(np.arange(graph.num_nodes), graph.in_degrees.numpy())
    sources = graph.indices.numpy()
    number = np.full(graph.num_nodes, -1)
    number[some] = np.arange(len(some))
    a, b = number[targets], number[sources]
    inside = (a >= 0) & (b >= 0) & (a != b)
    size = (len(some), len(some))
    one_way = sparse.csr_matrix((np.ones(int(inside.sum()), np.float32), (a[inside], b[inside])), shape=size)
    return ((one_way + one_way.T) > 0).astype(np.float32)


def _on_plane(adjacent: Any) -> NDArray[np.float32]:
    """Places where neighbours are near; see the head of the file."""
    import scipy.sparse as sparse

    count = adjacent.shape[0]
    place = _slow_modes(adjacent)
    if count < 3 or not adjacent.nnz:
        return place
    pairs = adjacent.tocoo()
    one, other, weight = pairs.row, pairs.col, (pairs.data / pairs.data.sum()).astype(np.float32)
    speed, gain = np.zeros_like(place), np.ones_like(place)
    for step in range(_STEPS):
        early = step < _EXAGGERATED
        square = (place * place).sum(axis=1)
        kernel = place @ (-2 * place.T)
        kernel += square[:, None]
        kernel += square[None, :] + 1
        np.maximum(kernel, 1, out=kernel)
        np.reciprocal(kernel, out=kernel)
        total = max(float(kernel.sum()) - count, 1e-6)
        kernel *= kernel
        apart = (kernel.sum(axis=1)[:, None] * place - kernel @ place) / total
        length = ((place[one] - place[other]) ** 2).sum(axis=1)
        pull = sparse.csr_matrix((weight * (4.0 if early else 1.0) / (1 + length), (one, other)), shape=adjacent.shape)
        slope = 4 * (np.asarray(pull.sum(axis=1)) * place - pull @ place - apart)
        gain = np.where(np.sign(slope) != np.sign(speed), gain + 0.2, np.maximum(gain * 0.8, 0.01))
        speed = (0.5 if early else 0.8) * speed - count / 8 * gain * slope
        place = (place + speed).astype(np.float32)
        place -= place.mean(axis=0)
    return place


def _slow_modes(adjacent: Any, steps: int = 120) -> NDArray[np.float32]:
    """Two vectors that a lazy random walk forgets last, as small places to start from."""
    count = adjacent.shape[0]
    degree = np.maximum(np.asarray(adjacent.sum(axis=1)), 1.0).reshape(-1, 1)
    place = np.random.default_rng(0).standard_normal((count, 2))
    for _ in range(steps if count > 2 else 0):
        place = 0.5 * place + 0.5 * (adjacent @ place) / degree
        place -= (place * degree).sum(axis=0) / degree.sum()
        place = np.linalg.qr(place * np.sqrt(degree))[0] / np.sqrt(degree)
    return (0.01 * place / np.maximum(np.abs(place).std(axis=0), 1e-12)).astype(np.float32)


def _on_cells(place: NDArray[np.float32], columns: int, lines: int) -> NDArray[np.int64]:
    """A cell for each place: those on the left go to the left half, and so on until a cell has one."""
    cells = np.zeros((len(place), 2), np.int64)
    waiting = [(np.arange(len(place)), 0, 0, columns, lines)]
    while waiting:
        some, x, y, wide, high = waiting.pop()
        if len(some) <= 1 or wide * high == 1:
            cells[some] = (x, y)
            continue
        across = wide >= high
        first = (wide if across else high) // 2
        room = first * (high if across else wide)
        share = min(max(round(len(some) * room / (wide * high)), len(some) - (wide * high - room)), room)
        order = some[np.argsort(place[some, 0 if across else 1], kind="stable")]
        if across:
            waiting += [(order[:share], x, y, first, high), (order[share:], x + first, y, wide - first, high)]
        else:
            waiting += [(order[:share], x, y, wide, first), (order[share:], x, y + first, wide, high - first)]
    return cells
