"""Node classification: loss and scores over nodes that are distributed over workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.graph.graph import Graph
from gnnqlab.message.channels.channel import Channel
from gnnqlab.partition.shard import Shard
from gnnqlab.train.loop.objective import Scores

__all__ = ["ManyLabels", "NodeLabels", "OneLabel", "label_objective"]


def label_objective(part: Graph | Shard, device: torch.device | str = "cpu") -> NodeLabels:
    """Return the objective of a whole graph or one worker's shard, for single-label or multi-label nodes.

    Raises:
        ValueError: if no training node is labelled.
    """
    masks = tuple(mask.to(device) for mask in (part.train_mask, part.val_mask, part.test_mask))
    global_train = part.global_train if isinstance(part, Shard) else int(part.train_mask.sum())
    if global_train == 0:
        raise ValueError(
            "training needs at least one labelled training node, this graph has none and can only be partitioned; "
            "pass labels= and train_idx= to Graph.from_edges"
        )
    kind = ManyLabels if part.multi_label else OneLabel
    return kind(
        labels=part.labels.to(device),
        masks=(masks[0], masks[1], masks[2]),
        train_rows=masks[0].nonzero().flatten(),  # (T,) int64: training nodes of this worker
        global_train=global_train,
    )


@dataclass(frozen=True, eq=False)
class NodeLabels(ABC):
    """Targets of the nodes a worker owns, and global counts: the loss is a mean over *all* training nodes."""

    score: ClassVar[str]
    further_scores: ClassVar[tuple[str, ...]] = ()
    channels: ClassVar[Sequence[Channel]] = ()
    """Empty: the loss of a node needs only its own logits."""

    labels: Tensor
    masks: tuple[Tensor, Tensor, Tensor]
    """Training, validation and test nodes, bool ``(N,)``."""
    train_rows: Tensor
    global_train: int

    def loss(self, logits: Tensor, context: AggregationContext | None = None) -> Tensor:
        """Return this worker's share of the loss; shares add up to the loss."""
        # (N, C) -> (T, C) -> (); by the global count, or workers with few training nodes would weigh too much.
        return self._total(logits[self.train_rows], self.labels[self.train_rows]) / self.global_train

    def scores(self, logits: Tensor, context: AggregationContext | None = None, *, distributed: bool) -> Scores:
        """Return global scores; counts are summed over workers before they are divided."""
        hits, misses = self._hits(logits, self.labels)  # (N, C) -> (N,), (N,)
        # (3, 2) int64: hits and misses of training, validation and test nodes.
        counts = torch.stack([torch.stack([(hits * mask).sum(), (misses * mask).sum()]) for mask in self.masks])
        if distributed:
            counts = counts.cpu() if dist.get_backend() == "gloo" else counts
            dist.all_reduce(counts)
        # Counts, not scores, are summed: workers have different numbers of nodes in a split.
        train, val, test = (self._ratio(int(hit), int(miss)) for hit, miss in counts.tolist())
        return Scores(train=train, val=val, test=test)

    def train_counts(self, logits: Tensor) -> tuple[float, float]:
        """Return numerator and denominator of this worker's training score; their sums over workers give the score."""
        hits, misses = self._hits(logits[self.train_rows], self.labels[self.train_rows])
        return self._parts(float(hits.sum()), float(misses.sum()))

    def _ratio(self, hits: int, misses: int) -> float:
        numerator, denominator = self._parts(hits, misses)
        return numerator / denominator if hits + misses else float("nan")

    @abstractmethod
    def _total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the summed loss of some rows."""

    @abstractmethod
    def _hits(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the numbers of correct and of wrong predictions of every row."""

    @staticmethod
    @abstractmethod
    def _parts(hits: float, misses: float) -> tuple[float, float]:
        """Return numerator and denominator of the score."""


class OneLabel(NodeLabels):
    """Single-label classification: cross-entropy; the score is accuracy, in [0, 1]."""

    score = "accuracy"

    def _total(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(logits, labels, reduction="sum")

    def _hits(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        hits = (logits.argmax(1) == labels).long() if logits.numel() else labels.new_zeros(0)
        return hits, 1 - hits

    @staticmethod
    def _parts(hits: float, misses: float) -> tuple[float, float]:
        return hits, hits + misses


class ManyLabels(NodeLabels):
    """Multi-label classification: binary cross-entropy summed over classes; the score is micro-F1, in [0, 1].

    ``2 TP / (2 TP + FP + FN)`` with counts summed over all nodes and classes; a label is predicted if its logit is
    positive.
    """

    score = "f1_micro"

    def _total(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="sum")

    def _hits(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        predictions, truth = logits > 0, labels > 0
        return (predictions & truth).sum(1), (predictions ^ truth).sum(1)  # TP and FP + FN of each node

    @staticmethod
    def _parts(hits: float, misses: float) -> tuple[float, float]:
        return 2 * hits, 2 * hits + misses
