"""Nodes that edges are held against: a pool for all workers, and of it the ones of each link.

Both are functions of (seed, epoch, number), so that they are the same for every number of workers. With a pool, no more
rows travel than it has, however many links there are.

Letters: n links, k negatives of each, M nodes of a pool, V nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels.noise import below, stream, uniform32

__all__ = ["FIXED", "against", "draw_pool", "place_in"]

FIXED = 1
"""Number of the draws that are scored, the same in every epoch; those learnt from are 0."""


def draw_pool(num_nodes: int, size: int, *, seed: int, epoch: int, use: int = 0) -> Tensor:
    """Draw distinct nodes, each set of them as likely as any other.

    Draw i is one of the V nodes, uniformly; the first M different ones are the pool, in the order of their draws.

    Args:
        num_nodes: V.
        size: M, at most V.
        seed, epoch: what the draws are a function of.
        use: 0 for what is learnt from, ``FIXED`` for what is scored.

    Returns:
        int64 ``(M,)``.

    Raises:
        ValueError: if there are not so many nodes.

    Example:
        >>> pool = draw_pool(10, 10, seed=0, epoch=0)
        >>> sorted(pool.tolist()) == list(range(10)), torch.equal(pool[:4], draw_pool(10, 4, seed=0, epoch=0))
        (True, True)
    """
    if not 0 <= size <= num_nodes:
        raise ValueError(f"a pool has distinct nodes, at most all {num_nodes}, got size {size}")
    of, count = stream("links", 2 + use), max(2 * size, 16)
    while True:
        drawn = below(uniform32(torch.arange(count), seed=seed, epoch=epoch, stream=of).flatten(), num_nodes)
        nodes, place = drawn.unique(return_inverse=True)
        if nodes.numel() >= size:
            first = torch.full_like(nodes, count).scatter_reduce_(0, place, torch.arange(count), "amin")
            return drawn[first.sort().values[:size]]
        count *= 2


def against(
    pool: Tensor, sources: Tensor, targets: Tensor, numbers: Tensor, *, count: int, seed: int, epoch: int, use: int = 0
) -> Tensor:
    """Draw the negatives of links: places in a pool, uniformly among the nodes that are neither end.

    Known edges are not left out: of V nodes as many are negatives by mistake as the source has neighbours.

    Args:
        pool: distinct nodes, int64 ``(M,)``, at least 3.
        sources, targets: ends of the links, int64 ``(n,)``.
        numbers: of the links in the whole graph, int64 ``(n,)``.
        count: k.
        seed, epoch, use: as for :func:`draw_pool`.

    Returns:
        int64 ``(n, k)`` in ``[0, M)``.

    Example:
        >>> pool = torch.tensor([4, 0, 1])
        >>> against(pool, torch.tensor([0]), torch.tensor([1]), torch.tensor([0]), count=3, seed=0, epoch=0).tolist()
        [[0, 0, 0]]
    """
    ends = torch.stack([place_in(pool, sources), place_in(pool, targets)])
    low, high = ends.amin(0)[:, None], ends.amax(0)[:, None]
    free = pool.numel() - (ends < pool.numel()).sum(0)[:, None]
    drawn = uniform32(numbers, count, seed=seed, epoch=epoch, stream=stream("links", 4 + use))
    places = below(drawn, free)
    places = places + (places >= low)  # the places that are free, counted through
    return places + (places >= high)


def place_in(pool: Tensor, nodes: Tensor) -> Tensor:
    """Return where nodes are in a pool, int64; M for those that are not there.

    Example:
        >>> place_in(torch.tensor([4, 0, 1]), torch.tensor([1, 2, 4])).tolist()
        [2, 3, 0]
    """
    ascending, order = pool.sort()
    at = torch.searchsorted(ascending, nodes).clamp_(max=pool.numel() - 1)
    return torch.where(ascending[at] == nodes, order[at], pool.numel())
