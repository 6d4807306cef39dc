"""The largest magnitude of a matrix whose rows several workers have."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["largest_of_all"]


def largest_of_all(x: Tensor, group: dist.ProcessGroup) -> float | None:
    """Return the largest magnitude of all workers' rows; all call this together.

    Args:
        x: this worker's rows ``(N, D)``, which may be none.
        group: the workers.

    Returns:
        The same number on all workers; ``None`` if one of these rows holds NaN or Inf.

    Raises:
        RuntimeError: if another worker's does.
    """
    own = x.abs().amax() if x.numel() else x.new_zeros(())
    most = torch.where(own.isfinite(), own, torch.inf)
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    if most.isfinite():
        return float(most)
    if own.isfinite():
        raise RuntimeError("rows to quantize must be finite, got NaN or Inf on another worker; see that one's error")
    return None
