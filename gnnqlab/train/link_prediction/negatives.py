"""Negative sampling for link prediction: a pool of nodes shared by all workers, and negatives of each link from it.

Both are functions of (seed, epoch, number), so they do not depend on the number of workers. The pool limits the rows
that are sent to its size, for any number of links.

Letters: n links, k negatives per link, M nodes of a pool, V nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels.noise import map_to_range, stream, uniform32

__all__ = ["FIXED", "against", "draw_pool", "find_positions"]

FIXED = 1
"""Value of ``use`` for evaluation, whose samples are the same in every epoch; 0 for training."""


def draw_pool(num_nodes: int, size: int, *, seed: int, epoch: int, use: int = 0) -> Tensor:
    """Sample distinct nodes uniformly, without replacement.

    Draw i is one of the V nodes, uniformly; the first M distinct ones are the pool, in the order of their draws.

    Args:
        num_nodes: V.
        size: M, at most V.
        seed, epoch: of the random numbers.
        use: 0 for training, ``FIXED`` for evaluation.

    Returns:
        int64 ``(M,)``.

    Raises:
        ValueError: if there are fewer nodes.

    Example:
        >>> pool = draw_pool(10, 10, seed=0, epoch=0)
        >>> sorted(pool.tolist()) == list(range(10)), torch.equal(pool[:4], draw_pool(10, 4, seed=0, epoch=0))
        (True, True)
    """
    if not 0 <= size <= num_nodes:
        raise ValueError(f"a pool has distinct nodes, at most all {num_nodes}, got size {size}")
    # Streams 2 and 3 draw pools, 4 and 5 negatives, for training and evaluation; draws repeat, so take more than M.
    key, count = stream("links", 2 + use), max(2 * size, 16)
    while True:
        # (count,) int64 in [0, V)
        draws = map_to_range(uniform32(torch.arange(count), seed=seed, epoch=epoch, stream=key).flatten(), num_nodes)
        nodes, place = draws.unique(return_inverse=True)  # ascending; places (count,) in nodes
        if nodes.numel() >= size:
            # First draw of every distinct node: unique() sorts by node and would favour small ids.
            first_draws = torch.full_like(nodes, count).scatter_reduce_(0, place, torch.arange(count), "amin")
            return draws[first_draws.sort().values[:size]]
        count *= 2  # draw i depends on i only, so more draws do not change the pool


def against(
    pool: Tensor, sources: Tensor, targets: Tensor, numbers: Tensor, *, count: int, seed: int, epoch: int, use: int = 0
) -> Tensor:
    """Sample the negatives of links: positions in a pool, uniformly among the nodes that are neither end.

    Known edges are not excluded: a negative is an edge with probability (neighbours of the source) / V.

    Args:
        pool: distinct nodes, int64 ``(M,)``, at least 3.
        sources, targets: ends of the links, int64 ``(n,)``.
        numbers: ids of the links in the whole graph, int64 ``(n,)``.
        count: k.
        seed, epoch, use: as for :func:`draw_pool`.

    Returns:
        int64 ``(n, k)`` in ``[0, M)``.

    Example:
        >>> pool = torch.tensor([4, 0, 1])
        >>> against(pool, torch.tensor([0]), torch.tensor([1]), torch.tensor([0]), count=3, seed=0, epoch=0).tolist()
        [[0, 0, 0]]
    """
    # (2, n); M for an end outside the pool
    ends = torch.stack([find_positions(pool, sources), find_positions(pool, targets)])
    low, high = ends.amin(0)[:, None], ends.amax(0)[:, None]  # (n, 1) each
    num_free = pool.numel() - (ends < pool.numel()).sum(0)[:, None]  # (n, 1): pool nodes that are neither end
    # By the link's global number, so that its negatives are the same on any number of workers.
    draws = uniform32(numbers, count, seed=seed, epoch=epoch, stream=stream("links", 4 + use))
    places = map_to_range(draws, num_free)  # (n, k) in [0, num_free)
    # Skip both ends instead of rejecting draws: shift past the lower position first, then past the higher one.
    places = places + (places >= low)
    return places + (places >= high)


def find_positions(pool: Tensor, nodes: Tensor) -> Tensor:
    """Return the positions of nodes in a pool, int64; M for nodes that are not in it.

    Example:
        >>> find_positions(torch.tensor([4, 0, 1]), torch.tensor([1, 2, 4])).tolist()
        [2, 3, 0]
    """
    sorted_pool, order = pool.sort()  # (M,) each
    # A node above all of the pool gets position M; clamped, it fails the comparison like any other absent node.
    index = torch.searchsorted(sorted_pool, nodes).clamp_(max=pool.numel() - 1)
    return torch.where(sorted_pool[index] == nodes, order[index], pool.numel())
