"""Worker context: properties of one worker for the components of a system, in plain numbers and tensors."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["WorkerContext"]


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerContext:
    """Context of one worker in a training, from which the components of a system are built.

    Letters: n owned and halo nodes of the worker.
    """

    rank: int
    workers: int
    """Number of workers, P."""
    seed: int
    """Seed of the run."""
    ids: Tensor
    """Global ids of the owned and halo nodes, int64 ``(n,)``."""
    importance: Tensor
    """Weight of an error in each of these nodes, in [0, 1], float32 ``(n,)``."""
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Device of the training."""
    direction: str | None = None
    """``forward`` or ``backward`` for a component that handles rows of one direction only."""

    def named(self, name: str) -> str:
        """Return a name that is unique among both directions.

        Example:
            >>> from dataclasses import replace
            >>> worker = WorkerContext(rank=0, workers=1, seed=0, ids=torch.arange(2), importance=torch.zeros(2))
            >>> worker.named("bits"), replace(worker, direction="forward").named("bits")
            ('bits', 'bits-forward')
        """
        return name if self.direction is None else f"{name}-{self.direction}"
