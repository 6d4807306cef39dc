"""Link prediction: held-out edges, negative edges, and the area under the ROC curve."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["area_under_curve", "held_back", "negative_edges"]


def area_under_curve(positive: Tensor, negative: Tensor) -> float:
    """Compute the ROC AUC: the probability that a positive score exceeds a negative one; ties count half.

    ``(sum of ranks of positives - n+ (n+ + 1) / 2) / (n+ n-)`` with ranks averaged over ties.

    Args:
        positive, negative: scores ``(n+,)`` and ``(n-,)``.

    Raises:
        ValueError: if there are no scores of one kind, or some are NaN.

    Example:
        >>> area_under_curve(torch.tensor([2.0, 1.0]), torch.tensor([1.0, 0.0]))
        0.875
    """
    if positive.numel() == 0 or negative.numel() == 0:
        raise ValueError(
            f"positive and negative scores must not be empty, got {positive.numel()} and {negative.numel()}"
        )
    scores = torch.cat([positive.detach().flatten(), negative.detach().flatten()]).double()  # positives first
    if scores.isnan().any():
        raise ValueError("scores must be numbers, got NaN; lower the learning rate")
    _, place, counts = scores.unique(return_inverse=True, return_counts=True)
    last_ranks = counts.cumsum(0).double()  # last rank of each group of ties
    # Mean rank of a group of ties: its last rank less half of the number of its other members.
    ranks = (last_ranks - (counts.double() - 1) / 2)[place]
    n, m = positive.numel(), negative.numel()
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))


def held_back(count: int, share: float, *, seed: int) -> Tensor:
    """Choose test edges at random, as a mask, bool ``(count,)``; they must be excluded from message passing.

    Example:
        >>> int(held_back(100, 0.1, seed=0).sum())
        10
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"share must lie in (0, 1), got {share}")
    test_edges = torch.zeros(count, dtype=torch.bool)
    test_edges[torch.randperm(count, generator=torch.Generator().manual_seed(seed))[: round(share * count)]] = True
    return test_edges


def negative_edges(sources: Tensor, targets: Tensor, num_nodes: int, *, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sample pairs of different nodes without an edge, uniformly; a function of the seed.

    Args:
        sources, targets: all edges ``(E,)``, including held-out ones.
        num_nodes: N.
        count: number of pairs; a pair may occur more than once.
        seed: seed of the samples.

    Raises:
        ValueError: if there is no such pair.

    Example:
        >>> path = torch.tensor([0, 1]), torch.tensor([1, 2])
        >>> u, v = negative_edges(*path, 3, count=4, seed=0)
        >>> set(zip(u.tolist(), v.tolist())) <= {(0, 2), (1, 0), (2, 0), (2, 1)}
        True
    """
    # A pair (u, v) is the integer u N + v: exclude all edges and the diagonal, since both ends must differ.
    excluded_pairs = torch.cat([sources * num_nodes + targets, torch.arange(num_nodes) * (num_nodes + 1)]).unique()
    if excluded_pairs.numel() >= num_nodes**2:
        raise ValueError(f"a pair without an edge must exist, got a complete graph of {num_nodes} nodes")
    generator, pairs = torch.Generator().manual_seed(seed), torch.empty(0, dtype=torch.int64)
    # Rejection sampling: sample pairs until enough have no edge.
    while pairs.numel() < count:
        sample = torch.randint(num_nodes**2, (2 * count,), generator=generator)
        pairs = torch.cat([pairs, sample[~torch.isin(sample, excluded_pairs)]])  # (pairs,)
    return pairs[:count] // num_nodes, pairs[:count] % num_nodes
