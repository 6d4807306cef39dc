"""Models as a user might write them: one that satisfies the law, and eight that violate it, each in its own way."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import get_rank
from torch.nn import functional

from gnnqlab.kernels.sparse.aggregate import aggregate
from gnnqlab.nn import GraphPass, ModelSettings

__all__ = [
    "drops_by_chance", "forgets_halos", "infinite", "keeps_the_law", "scaled_by_environment", "scaled_by_rank",
    "scaled_by_workers", "standardised", "starts_by_chance",
]  # fmt: skip


class _Two(nn.Module):
    """Two layers; subclasses differ in the step between them."""

    def __init__(self, settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.first = nn.Parameter(torch.randn(in_features, settings.hidden, generator=generator) / 4)
        self.last = nn.Parameter(torch.randn(settings.hidden, num_classes, generator=generator) / 4)

    def forward(self, g: GraphPass, x: torch.Tensor) -> torch.Tensor:
        h = self.between(g, g.aggregate(g.linear(x, self.first)))
        return g.linear(h, self.last, exact=True)

    def between(self, g: GraphPass, h: torch.Tensor) -> torch.Tensor:
        return g.aggregate(g.dropout(h, 0.3), alpha="sum")


class keeps_the_law(_Two):
    """Aggregates, applies dropout, aggregates again."""


class standardised(_Two):
    """Sums over the rows of one worker."""

    def between(self, g: GraphPass, h: torch.Tensor) -> torch.Tensor:
        return (h - h.mean(0)) / (h.std(0) + 1e-3)


class drops_by_chance(_Two):
    """Draws a mask from the global generator."""

    def between(self, g: GraphPass, h: torch.Tensor) -> torch.Tensor:
        return functional.dropout(h, 0.3, training=self.training)


class forgets_halos(_Two):
    """Uses halo rows without a gradient for them: losses are right."""

    def between(self, g: GraphPass, h: torch.Tensor) -> torch.Tensor:
        rows = g.extend(h)
        rows = torch.cat([rows[: len(h)], rows[len(h) :].detach()])
        return aggregate(g.graph.adjacency("sum"), rows)


class infinite(_Two):
    """Returns NaN everywhere."""

    def between(self, g: GraphPass, h: torch.Tensor) -> torch.Tensor:
        return h * torch.nan


class starts_by_chance(_Two):
    """Draws weights from the global generator."""

    def __init__(self, settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> None:
        super().__init__(settings, in_features, num_classes, seed)
        self.last = nn.Parameter(torch.randn(settings.hidden, num_classes))


class scaled_by_workers(_Two):
    """Multiplies by the number of workers."""

    def between(self, g: GraphPass, h: torch.Tensor) -> torch.Tensor:
        return h * (dist.get_world_size() if dist.is_initialized() else 1)


class scaled_by_rank(_Two):
    """Multiplies by the rank, with a function imported by name."""

    def between(self, g: GraphPass, h: torch.Tensor) -> torch.Tensor:
        return h * (1 + get_rank() if dist.is_initialized() else 1)


class scaled_by_environment(_Two):
    """Starts with weights that depend on the number of workers."""

    def __init__(self, settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> None:
        super().__init__(settings, in_features, num_classes, seed)
        self.last.data *= int(os.environ.get("WORLD_SIZE", "1"))
