"""Sums over the nodes of a graph in a model, with the same result on every worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.partition.shard import Shard

__all__ = ["NodeSums"]


class NodeSums:
    """Sum of rows over all nodes of a graph, to which each worker adds the rows of its own nodes.

    Args:
        masters: rows that count, int64; ``None`` for all. Under a vertex-cut a node has rows on several workers, and
            that of its master counts.
        all_reduce: returns the sum of a tensor over all workers; ``None`` for one worker.
    """

    def __init__(self, masters: Tensor | None = None, all_reduce: Callable[[Tensor], Tensor] | None = None) -> None:
        self._masters, self.all_reduce = masters, all_reduce
        self.sent_bytes = 0
        """Bytes that this worker has contributed to sums so far."""

    @classmethod
    def of_shard(cls, shard: Shard, device: torch.device | str = "cpu") -> NodeSums:
        """Return the sums of one worker, over ``torch.distributed`` if there are several."""
        is_master = torch.isin(shard.row_ids, shard.owned)  # (N,)
        masters = None if bool(is_master.all()) else is_master.nonzero().flatten().to(device)
        return cls(masters, _all_reduce if shard.workers > 1 else None)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the sum of rows, ``(N, D) -> (D,)``, differentiable in ``x``; every worker must call it."""
        own_sum = (x if self._masters is None else x[self._masters]).sum(0)
        return own_sum if self.all_reduce is None else _Sum.apply(own_sum, self)  # type: ignore[no-any-return]

    def reduce(self, values: Tensor) -> Tensor:
        """Return the sum of a tensor over all workers, and count its bytes."""
        assert self.all_reduce is not None
        self.sent_bytes += values.element_size() * values.numel()
        return self.all_reduce(values)


class _Sum(torch.autograd.Function):
    """Sum over workers; the loss is one too, so the gradient of a term is the sum of the gradients of all workers."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, sums: NodeSums) -> Tensor:
        ctx.sums = sums
        return sums.reduce(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.sums.reduce(gradients[0]), None


def _all_reduce(values: Tensor) -> Tensor:
    summed = values.clone()  # contiguous, and not a tensor of autograd
    dist.all_reduce(summed)
    return summed
