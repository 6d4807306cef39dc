"""Edges for prediction: which are learnt from, which validate, which test, and the graph that rows may look at.

Drawn before a graph is cut, as a function of (seed, number of the edge), so that it does not depend on the number of
workers. Both directions of an edge are one: held back, neither is looked at.

Letters: N nodes, E stored edges, L links.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.noise import stream, uniform32

__all__ = ["TEST", "TRAIN", "VAL", "LinkSplit", "split_links"]

TRAIN, VAL, TEST = 0, 1, 2
"""Kinds of links."""
_KIND, _END = stream("links", 0), stream("links", 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkSplit:
    """A graph's links by kind; a link's number is its place here, from the smallest pair of nodes to the largest."""

    graph: Graph
    """What models look at: the training edges, and the self loops."""
    sources: Tensor
    """The end of each link that others are drawn against, int64 ``(L,)``: either one, by a draw."""
    targets: Tensor
    """The other end, int64 ``(L,)``."""
    kinds: Tensor
    """``TRAIN``, ``VAL`` or ``TEST``, uint8 ``(L,)``."""
    scored: Tensor
    """Training links that are scored as well, bool ``(L,)``: about as many as validate."""

    def count(self, kind: int) -> int:
        """Return how many links are of a kind."""
        return int((self.kinds == kind).sum())


def split_links(graph: Graph, *, val: float = 0.05, test: float = 0.1, seed: int = 0) -> LinkSplit:
    """Split a graph's edges into those learnt from, those that validate and those that test.

    A link is a pair of different nodes with an edge between them, one way or both, once or more often. Each draws 32
    bits by itself: it tests below ``2^32 test``, validates in the ``2^32 val`` above them, and else is learnt from. So
    the numbers of the kinds are as expected only on average.

    Args:
        graph: the whole graph.
        val, test: shares of the links, each in [0, 1), together below 1.
        seed: of the draws.

    Raises:
        ValueError: if the shares leave nothing, or the graph has no link to learn from.

    Example:
        >>> ring = Graph.from_edges(range(100), [*range(1, 100), 0], num_nodes=100, self_loops="remove")
        >>> split = split_links(ring, val=0.1, test=0.2)
        >>> split.kinds.numel(), split.graph.num_edges == 2 * split.count(TRAIN), split.count(TEST) > split.count(VAL)
        (100, True, True)
    """
    if not (0.0 <= val < 1.0 and 0.0 <= test < 1.0 and val + test < 1.0):
        raise ValueError(f"shares of links must lie in [0, 1), their sum too, got val {val} and test {test}")
    nodes = graph.num_nodes
    source = graph.indices.long()
    target = torch.repeat_interleave(torch.arange(nodes), graph.in_degrees)
    between = source != target
    pairs = torch.minimum(source, target) * nodes + torch.maximum(source, target)
    links, numbers = pairs[between].unique(return_inverse=True)
    ids = torch.arange(links.numel())
    drawn = uniform32(ids, seed=seed, epoch=0, stream=_KIND).flatten()
    testing, validating = round(2**32 * test), round(2**32 * val)
    kinds = torch.full((links.numel(),), TRAIN, dtype=torch.uint8)
    kinds[drawn < testing + validating] = VAL
    kinds[drawn < testing] = TEST
    if not bool((kinds == TRAIN).any()):
        raise ValueError(
            f"learning of links needs an edge between two nodes that is not held back, got {links.numel()} link(s) of "
            f"{graph.name!r}, with val {val} and test {test}; hold fewer back, or give the graph edges"
        )
    swapped = uniform32(ids, seed=seed, epoch=0, stream=_END).flatten() < 2**31
    low, high = links // nodes, links % nodes
    kept = ~between
    kept[between] = kinds[numbers] == TRAIN
    return LinkSplit(
        graph=_with_edges(graph, kept, target),
        sources=torch.where(swapped, high, low),
        targets=torch.where(swapped, low, high),
        kinds=kinds,
        scored=(kinds == TRAIN) & (drawn >= 2**32 - validating),
    )


def _with_edges(graph: Graph, kept: Tensor, target: Tensor) -> Graph:
    """Return a graph with some of its stored edges."""
    indptr = torch.zeros(graph.num_nodes + 1, dtype=torch.int64)
    indptr[1:] = target[kept].bincount(minlength=graph.num_nodes).cumsum(0)
    weights = None if graph.edge_weights is None else graph.edge_weights[kept]
    if weights is not None and bool((weights == 1).all()):
        weights = None
    features = None if graph.edge_features is None else graph.edge_features[kept]
    return replace(graph, indptr=indptr, indices=graph.indices[kept], edge_weights=weights, edge_features=features)
