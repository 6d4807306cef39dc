"""What a training learns and how well it does: a loss and scores of the rows that a model's last layer makes.

The trainer knows no task. It hands an objective the rows of its nodes and the look that would come next, sums what all
workers return, and leaves the gradient with respect to those rows to autograd, through whatever the objective fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from torch import Tensor

from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.message.channels.channel import Channel

__all__ = ["Objective", "Scores"]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """An objective's score in [0, 1] of each split; NaN where a split is empty."""

    train: float
    val: float
    test: float
    also: Mapping[str, float] = field(default_factory=dict)
    """Further scores by their columns in ``run.records``."""


class Objective(Protocol):
    """Loss and scores of a training, on one worker; see ``node_labels.py`` for the usual ones."""

    score: ClassVar[str]
    """Name of the score, one of ``scores.py``, that decides which epoch was best."""
    also: ClassVar[tuple[str, ...]]
    """Names of further scores, each of validation and test: ``val_`` and ``test_`` columns."""

    @property
    def channels(self) -> Sequence[Channel]:
        """What rows of other workers come through in training passes; none if it needs no others."""

    def loss(self, rows: Tensor, look: AggregationContext | None = None) -> Tensor:
        """Return this worker's share of the loss, differentiable in ``rows``; shares add up to the loss.

        Args:
            rows: of this worker's nodes, as the last layer makes them, float32 ``(N, C)``.
            look: the one after the model's last, epoch and place of what is fetched of other workers; who fetches
                nothing needs none.
        """

    def scores(self, rows: Tensor, look: AggregationContext | None = None, *, distributed: bool) -> Scores:
        """Return global scores, the same on every worker: sums over workers are made before divisions."""

    def train_counts(self, rows: Tensor) -> tuple[float, float]:
        """Return two numbers of this worker's part of a training pass whose sums divide to the training score.

        It is asked after :meth:`loss`, about the same rows.
        """
