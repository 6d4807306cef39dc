"""Where a part of a system works: what one worker knows of itself, in plain numbers and tensors."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["WorkerContext"]


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerContext:
    """One worker's place in a training; what runs of a part there is built from it.

    Letters: n nodes that the worker owns or has in its halo.
    """

    rank: int
    workers: int
    """P."""
    seed: int
    """Of the run."""
    ids: Tensor
    """Global ids of the nodes that this worker owns or has in its halo, int64 ``(n,)``."""
    importance: Tensor
    """How much an error in each of them matters, in [0, 1], float32 ``(n,)``."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Where it trains."""
    direction: str | None = None
    """``forward`` or ``backward``, where a part decides about rows of that direction alone."""

    def named(self, name: str) -> str:
        """Return a name that the part of the other direction does not have.

        Example:
            >>> from dataclasses import replace
            >>> worker = WorkerContext(rank=0, workers=1, seed=0, ids=torch.arange(2), importance=torch.zeros(2))
            >>> worker.named("bits"), replace(worker, direction="forward").named("bits")
            ('bits', 'bits-forward')
        """
        return name if self.direction is None else f"{name}-{self.direction}"
