"""What scores over all workers need of each: its own scores, or a sum."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["gathered", "summed"]


def gathered(columns: Tensor, *, distributed: bool) -> Tensor:
    """Return the columns of all workers one after another, ``(R, sum of n)``, the same on each, on the CPU.

    Args:
        columns: of this worker, float32 ``(R, n)``; n may differ from worker to worker.
        distributed: whether there are others.
    """
    if not distributed:
        return columns.cpu()
    mine = columns.cpu() if dist.get_backend() == "gloo" else columns.contiguous()
    size = torch.tensor([mine.shape[1]], device=mine.device)
    sizes = [torch.zeros_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    most = max(int(each) for each in sizes)
    padded = mine.new_zeros(mine.shape[0], most)
    padded[:, : mine.shape[1]] = mine
    parts = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(parts, padded)
    return torch.cat([part[:, : int(each)] for part, each in zip(parts, sizes, strict=True)], 1).cpu()


def summed(value: float, *, distributed: bool) -> float:
    """Return the sum over workers, in float64."""
    if not distributed:
        return value
    device = "cpu" if dist.get_backend() == "gloo" else torch.device("cuda", torch.cuda.current_device())
    total = torch.tensor(value, dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return float(total)
