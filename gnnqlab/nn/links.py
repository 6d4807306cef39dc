"""Score of link prediction: the area under the ROC curve."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["area_under_curve"]


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
