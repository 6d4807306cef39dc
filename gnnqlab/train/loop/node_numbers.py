"""Regression: loss and scores of numbers to predict over nodes that are distributed over workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.message.channels.channel import Channel
from gnnqlab.train.loop.objective import Scores

__all__ = ["NodeNumbers"]


@dataclass(frozen=True, eq=False)
class NodeNumbers:
    """Mean squared error over all training nodes and targets; the score is R², at most 1, a mean over targets.

    ``R² = 1 - sum (y - p)² / sum (y - mean(y))²`` with the mean over the nodes of a split. The mean absolute and the
    mean squared error are further scores, in the unit of the targets.

    Shape legend: N nodes of this worker, T training nodes, K targets.
    """

    score: ClassVar[str] = "r2"
    further_scores: ClassVar[tuple[str, ...]] = ("mae", "mse")
    channels: ClassVar[Sequence[Channel]] = ()

    targets: Tensor
    """float32 ``(N, K)``, NaN for "unknown"."""
    masks: tuple[Tensor, Tensor, Tensor]
    """Training, validation and test nodes, bool ``(N,)``."""
    train_rows: Tensor
    global_train: int
    means: Tensor
    """Mean of each target over all training nodes, float64 ``(K,)``."""

    def loss(self, rows: Tensor, context: AggregationContext | None = None) -> Tensor:
        """Return this worker's share of the loss; shares add up to the loss."""
        errors = rows[self.train_rows] - self.targets[self.train_rows]  # (T, K)
        return errors.square().sum() / (self.global_train * self.targets.shape[1])

    def scores(self, rows: Tensor, context: AggregationContext | None = None, *, distributed: bool) -> Scores:
        """Return global scores; sums in float64 are added over workers before they are divided."""
        targets, predicted = self.targets.double(), rows.double()
        sums = torch.stack([self._sums(targets[mask], predicted[mask]) for mask in self.masks])  # (3, 5, K)
        if distributed:
            sums = sums.cpu() if dist.get_backend() == "gloo" else sums
            dist.all_reduce(sums)
        r2, further = [], {}
        for split, (count, total, squares, squared_errors, absolute_errors) in zip(
            ("train", "val", "test"), sums, strict=True
        ):
            # Sums of squares around the mean; the means of training keep both terms small.
            spread = squares - total.square() / count
            # Equal targets have no spread to explain, hence no score.
            r2.append(float(torch.where(spread > 0, 1 - squared_errors / spread, torch.nan).mean()))
            if split != "train":
                further[f"{split}_mae"] = float((absolute_errors / count).mean())
                further[f"{split}_mse"] = float((squared_errors / count).mean())
        return Scores(train=r2[0], val=r2[1], test=r2[2], further_scores=further)

    def train_counts(self, rows: Tensor) -> tuple[float, float]:
        """Return numerator and denominator of this worker's R² of training; their sums over workers give R²."""
        targets = self.targets[self.train_rows].double()
        spread = float((targets - self.means).square().sum())
        return spread - float((targets - rows[self.train_rows].double()).square().sum()), spread

    def _sums(self, targets: Tensor, predicted: Tensor) -> Tensor:
        """Return count, sum, sum of squares, of squared and of absolute errors of the nodes of a split, ``(5, K)``."""
        centered, errors = targets - self.means, targets - predicted
        count = torch.full((targets.shape[1],), float(targets.shape[0]), dtype=torch.float64, device=targets.device)
        return torch.stack(
            [count, centered.sum(0), centered.square().sum(0), errors.square().sum(0), errors.abs().sum(0)]
        )
