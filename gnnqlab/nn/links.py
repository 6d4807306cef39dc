"""Prediction of links: edges held back, edges that are not there, and the area under the curve."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["area_under_curve", "held_back", "negative_edges"]


def area_under_curve(positive: Tensor, negative: Tensor) -> float:
    """Return the chance that a positive score is above a negative one, ties counted as half (ROC AUC).

    ``(sum of ranks of positives - n+ (n+ + 1) / 2) / (n+ n-)`` with ranks averaged over ties.

    Args:
        positive, negative: scores ``(n+,)`` and ``(n-,)``.

    Raises:
        ValueError: if there are no scores of one kind, or some are not numbers.

    Example:
        >>> area_under_curve(torch.tensor([2.0, 1.0]), torch.tensor([1.0, 0.0]))
        0.875
    """
    if positive.numel() == 0 or negative.numel() == 0:
        raise ValueError(f"scores of both kinds must be given, got {positive.numel()} and {negative.numel()}")
    scores = torch.cat([positive.detach().flatten(), negative.detach().flatten()]).double()
    if scores.isnan().any():
        raise ValueError("scores must be numbers, got NaN among them; lower the learning rate")
    _, place, counts = scores.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    ranks = (last - (counts.double() - 1) / 2)[place]
    n, m = positive.numel(), negative.numel()
    return float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))


def held_back(count: int, share: float, *, seed: int) -> Tensor:
    """Return which edges are kept for testing, bool ``(count,)``; they must be left out of message passing.

    Example:
        >>> int(held_back(100, 0.1, seed=0).sum())
        10
    """
    if not 0.0 < share < 1.0:
        raise ValueError(f"share must lie in (0, 1), got {share}")
    held = torch.zeros(count, dtype=torch.bool)
    held[torch.randperm(count, generator=torch.Generator().manual_seed(seed))[: round(share * count)]] = True
    return held


def negative_edges(sources: Tensor, targets: Tensor, num_nodes: int, *, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw pairs of nodes, uniformly, that are neither edges nor a node with itself; the same for a seed.

    Args:
        sources, targets: all edges ``(E,)``, those held back among them.
        num_nodes: N.
        count: pairs wanted; a pair may come more than once.

    Raises:
        ValueError: if there is no such pair.

    Example:
        >>> path = torch.tensor([0, 1]), torch.tensor([1, 2])
        >>> u, v = negative_edges(*path, 3, count=4, seed=0)
        >>> set(zip(u.tolist(), v.tolist())) <= {(0, 2), (1, 0), (2, 0), (2, 1)}
        True
    """
    known = torch.cat([sources * num_nodes + targets, torch.arange(num_nodes) * (num_nodes + 1)]).unique()
    if known.numel() >= num_nodes**2:
        raise ValueError(f"a pair without an edge must exist, got a complete graph of {num_nodes} nodes")
    generator, found = torch.Generator().manual_seed(seed), torch.empty(0, dtype=torch.int64)
    while found.numel() < count:
        drawn = torch.randint(num_nodes**2, (2 * count,), generator=generator)
        found = torch.cat([found, drawn[~torch.isin(drawn, known)]])
    return found[:count] // num_nodes, found[:count] % num_nodes
