"""Sampled in-neighbours, a function of (seed, step, layer, node), so that all callers get identical samples."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.noise import stream, uniform16

__all__ = ["Frontier", "sample_neighbours", "shuffled"]

_ORDER = 1
"""Noise round of shuffled nodes; sampled neighbours use round 0."""


def sample_neighbours(
    graph: Graph, nodes: Tensor, fanout: int, *, seed: int, step: int, layer: int
) -> tuple[Tensor, Tensor]:
    """Sample up to ``fanout`` in-neighbours of each node without replacement (GraphSAGE, Hamilton et al., 2017).

    Floyd's algorithm: of d neighbours, draw j takes a uniform position in [0, d - k + j], or d - k + j itself if that
    position is taken; all sets of k are equally likely, up to 2**-32 per draw. Time and memory are proportional to k,
    not to d.

    Args:
        graph: the graph; a row of ``indices`` lists the in-neighbours of its node.
        nodes: node ids, int64 ``(n,)``.
        fanout: k.
        seed, step, layer: with a node's id these determine its sample, independent of the other nodes.

    Returns:
        ``indptr (n + 1,)`` int64 and the sampled ids, int64, grouped by node.

    Raises:
        ValueError: if ``fanout`` is below 1.

    Example:
        >>> ring = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], num_nodes=4)
        >>> indptr, found = sample_neighbours(ring, torch.tensor([2]), 2, seed=0, step=0, layer=0)
        >>> indptr.tolist(), set(found.tolist()) < {1, 2, 3}
        ([0, 2], True)
    """
    if fanout < 1:
        raise ValueError(f"fanout must be at least 1, got {fanout}")
    first_edges = graph.indptr[nodes]  # (n,)
    degrees = graph.indptr[nodes + 1] - first_edges
    counts = degrees.clamp(max=fanout)  # (n,)
    indptr = torch.zeros(len(nodes) + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=indptr[1:])
    # The first neighbours of every node; rows with more than ``fanout`` are replaced below.
    edges = torch.arange(int(indptr[-1])) + torch.repeat_interleave(first_edges - indptr[:-1], counts)
    is_sampled = degrees > fanout  # (n,) bool
    if bool(is_sampled.any()):
        # Only these rows are sampled; all others keep all of their neighbours.
        places = _places(nodes[is_sampled], degrees[is_sampled], fanout, seed=seed, step=step, layer=layer)
        edges[torch.repeat_interleave(is_sampled, counts)] = (places + first_edges[is_sampled].unsqueeze(1)).flatten()
    return indptr, graph.indices[edges].long()


def _places(nodes: Tensor, degrees: Tensor, fanout: int, *, seed: int, step: int, layer: int) -> Tensor:
    """Sample ``fanout`` different positions in [0, degree) for each node, int64 ``(n, fanout)``."""
    halves = uniform16(nodes, 2 * fanout, seed=seed, epoch=step, stream=stream("sample", layer)).long()
    draws = halves[:, ::2] << 16 | halves[:, 1::2]  # (n, k), 32 random bits each
    places = torch.empty_like(draws)
    for number in range(fanout):
        last_position = degrees - fanout + number  # (n,) last position this draw may take
        place = draws[:, number] * (last_position + 1) >> 32  # (n,) uniform in [0, last_position]
        repeats = (places[:, :number] == place.unsqueeze(1)).any(1)
        places[:, number] = torch.where(repeats, last_position, place)
    return places


def shuffled(nodes: Tensor, *, seed: int, epoch: int) -> Tensor:
    """Shuffle nodes in an order that is a function of (seed, epoch, their ids).

    Example:
        >>> shuffled(torch.arange(5), seed=0, epoch=3).sort().values.tolist()
        [0, 1, 2, 3, 4]
    """
    halves = uniform16(nodes, 2, seed=seed, epoch=epoch, stream=stream("sample", 0, round=_ORDER)).long()
    return nodes[torch.argsort(halves[:, 0] << 16 | halves[:, 1], stable=True)]  # stable: the order of a tie is fixed


class Frontier:
    """Numbering of the rows of one layer of a batch; not thread-safe.

    Example:
        >>> sources, places = Frontier(9).number(torch.tensor([7, 2]), torch.tensor([5, 7, 3, 5]))
        >>> sources.tolist(), places.tolist()
        ([7, 2, 3, 5], [3, 0, 2, 3])
    """

    def __init__(self, num_nodes: int) -> None:
        self._place = torch.full((num_nodes,), -1)

    def number(self, targets: Tensor, neighbours: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distinct nodes, targets first, and the position of every neighbour among them."""
        self._place[targets] = torch.arange(len(targets))
        new_nodes = neighbours[self._place[neighbours] < 0].unique()  # nodes without a number in this batch, ascending
        self._place[new_nodes] = torch.arange(len(targets), len(targets) + len(new_nodes))
        places, sources = self._place[neighbours], torch.cat([targets, new_nodes])
        self._place[sources] = -1  # resets touched entries only, not all N
        return sources, places
