"""Importance factor of boundary nodes (SYLVIE section IV-A, Graph Extractor)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["importance"]


def importance(in_degrees: Tensor) -> Tensor:
    """Return each boundary node's importance p in [0, 1] by the rank of its in-degree among all boundary nodes.

    ``p_v`` is the number of nodes with a smaller in-degree than v, divided by the number with a smaller in-degree than
    the maximum: equal degrees have equal p, the largest degree has p = 1.

    Differs: the paper interpolates "evenly distributed percentiles" and does not define ties; here they share the
    lowest rank of their group.

    Args:
        in_degrees: *global* in-degrees of all boundary nodes of the graph, int64 ``(B,)``.

    Returns:
        float32 ``(B,)``.

    Example:
        >>> importance(torch.tensor([5, 1, 9, 5, 2])).tolist()
        [0.5, 0.0, 1.0, 0.5, 0.25]
    """
    if in_degrees.numel() == 0:
        return torch.empty(0)
    sorted_degrees = in_degrees.sort().values  # (B,)
    num_smaller = torch.searchsorted(sorted_degrees, in_degrees)  # number of smaller degrees
    below_largest = int(torch.searchsorted(sorted_degrees, sorted_degrees[-1]))
    # All degrees are equal, hence all are the largest.
    if below_largest == 0:
        return torch.ones(in_degrees.numel())
    return num_smaller.float() / below_largest
