"""Objective of a training: loss and scores of the model's output.

The trainer is independent of the task. It passes the output of its nodes and the context of a further aggregation to
the objective and sums the losses of all workers; autograd differentiates through any rows the objective fetched.
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
    """Score of an objective for each split, in [0, 1], R² at most 1; NaN for an empty split."""

    train: float
    val: float
    test: float
    further_scores: Mapping[str, float] = field(default_factory=dict)
    """Further scores by column of ``run.records``."""


class Objective(Protocol):
    """Loss and scores of a training, on one worker; ``node_labels.py`` has those of node classification."""

    score: ClassVar[str]
    """Name of the score, one of ``scores.py``, that selects the best epoch."""

    @property
    def further_scores(self) -> tuple[str, ...]:
        """Names of further scores, with columns ``val_`` and ``test_``."""

    @property
    def channels(self) -> Sequence[Channel]:
        """Channels that fetch rows of other workers in training passes; empty if none are needed."""

    def loss(self, rows: Tensor, context: AggregationContext | None = None) -> Tensor:
        """Return this worker's share of the loss, differentiable in ``rows``; shares add up to the loss.

        Args:
            rows: output of the last layer for this worker's nodes, float32 ``(N, C)``.
            context: aggregation context after the model's last one, for rows fetched from others; not needed by
                objectives without.
        """

    def scores(self, rows: Tensor, context: AggregationContext | None = None, *, distributed: bool) -> Scores:
        """Return global scores, identical on all workers: counts are summed over workers before any division."""

    def train_counts(self, rows: Tensor) -> tuple[float, float]:
        """Return numerator and denominator of this worker's training score; their sums over workers give the score.

        Called after :meth:`loss`, with the same rows.
        """
