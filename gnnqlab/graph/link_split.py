"""Split of a graph's edges for link prediction into training, validation and test links.

Sampled before a graph is partitioned, as a function of (seed, number of the link), so independent of the number of
workers. Both directions of an edge are one link: if it is held out, neither is used in message passing.

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
_KIND, _END = stream("links", 0), stream("links", 1)  # noise of the kind of a link, and of its fixed end


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkSplit:
    """A graph's links by kind; a link's number is its position here, sorted by its pair of nodes."""

    graph: Graph
    """Graph for message passing: the training edges and the self loops."""
    sources: Tensor
    """End of each link that is fixed in negative samples, int64 ``(L,)``: a random one of the two."""
    targets: Tensor
    """Other end of each link, int64 ``(L,)``."""
    kinds: Tensor
    """``TRAIN``, ``VAL`` or ``TEST``, uint8 ``(L,)``."""
    scored: Tensor
    """True for training links that are scored as well, bool ``(L,)``: about as many as validation links."""

    def count(self, kind: int) -> int:
        """Count the links of a kind."""
        return int((self.kinds == kind).sum())


def split_links(graph: Graph, *, val: float = 0.05, test: float = 0.1, seed: int = 0) -> LinkSplit:
    """Split a graph's edges into training, validation and test links.

    A link is a pair of different nodes with an edge between them, in one or both directions, once or repeated. Each has
    32 random bits: below ``2^32 test`` it is a test link, in the next ``2^32 val`` values a validation link, otherwise
    a training link. So the number of links of each kind matches its share only in expectation.

    Args:
        graph: the whole graph.
        val, test: shares of the links, each in [0, 1), together below 1.
        seed: seed of the random bits.

    Raises:
        ValueError: if the shares are out of range, or there is no training link.

    Example:
        >>> ring = Graph.from_edges(range(100), [*range(1, 100), 0], num_nodes=100, self_loops="remove")
        >>> split = split_links(ring, val=0.1, test=0.2)
        >>> split.kinds.numel(), split.graph.num_edges == 2 * split.count(TRAIN), split.count(TEST) > split.count(VAL)
        (100, True, True)
    """
    if not (0.0 <= val < 1.0 and 0.0 <= test < 1.0 and val + test < 1.0):
        raise ValueError(f"shares of links must lie in [0, 1), their sum too, got val {val} and test {test}")
    nodes = graph.num_nodes
    source = graph.indices.long()  # (E,)
    target = torch.repeat_interleave(torch.arange(nodes), graph.in_degrees)  # (E,)
    no_loop = source != target
    pairs = torch.minimum(source, target) * nodes + torch.maximum(source, target)  # equal for both directions
    links, numbers = pairs[no_loop].unique(return_inverse=True)  # (L,), ascending, and the link of each edge
    ids = torch.arange(links.numel())
    bits = uniform32(ids, seed=seed, epoch=0, stream=_KIND).flatten()  # (L,) int64 in [0, 2**32)
    test_share, val_share = round(2**32 * test), round(2**32 * val)
    kinds = torch.full((links.numel(),), TRAIN, dtype=torch.uint8)
    # The lowest values are test links: they overwrite a part of the wider interval.
    kinds[bits < test_share + val_share] = VAL
    kinds[bits < test_share] = TEST
    if not bool((kinds == TRAIN).any()):
        raise ValueError(
            f"link prediction needs at least one training link, got {links.numel()} link(s) in {graph.name!r}, with "
            f"val {val} and test {test}; lower val and test, or use a graph with more edges"
        )
    # The end that is fixed in negative samples is random, so low ids are not preferred as sources.
    is_swapped = uniform32(ids, seed=seed, epoch=0, stream=_END).flatten() < 2**31
    low, high = links // nodes, links % nodes
    in_graph = ~no_loop  # (E,) bool; self loops stay
    in_graph[no_loop] = kinds[numbers] == TRAIN
    return LinkSplit(
        graph=edge_subgraph(graph, in_graph, target),
        sources=torch.where(is_swapped, high, low),
        targets=torch.where(is_swapped, low, high),
        kinds=kinds,
        # The highest values: about as many links as validation has.
        scored=(kinds == TRAIN) & (bits >= 2**32 - val_share),
    )


def edge_subgraph(graph: Graph, in_graph: Tensor, target: Tensor) -> Graph:
    """Return a graph with the stored edges where ``in_graph`` is True; ``target`` is the destination of each edge."""
    indptr = torch.zeros(graph.num_nodes + 1, dtype=torch.int64)
    indptr[1:] = target[in_graph].bincount(minlength=graph.num_nodes).cumsum(0)
    weights = None if graph.edge_weights is None else graph.edge_weights[in_graph]
    # As in Graph.from_edges: weights that are all 1 are no weights.
    if weights is not None and bool((weights == 1).all()):
        weights = None
    features = None if graph.edge_features is None else graph.edge_features[in_graph]
    return replace(graph, indptr=indptr, indices=graph.indices[in_graph], edge_weights=weights, edge_features=features)
