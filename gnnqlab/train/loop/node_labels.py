"""Node classification: loss and scores over nodes that are distributed over workers."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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
from gnnqlab.train.loop.node_numbers import NodeNumbers
from gnnqlab.train.loop.objective import Scores

__all__ = [
    "ManyLabels",
    "NodeLabels",
    "NodeTargets",
    "OneLabel",
    "label_objective",
    "node_targets",
    "read_class_weights",
]


_UNEQUAL = 4
"""Ratio of the largest to the smallest class from which accuracy alone hides the small classes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeTargets:
    """Labels and splits of the nodes that a worker owns, and counts of the whole graph."""

    labels: Tensor
    """Classes, int64 ``(N,)``; with several labels per node, uint8 ``(N, C)`` of zeros and ones; numbers to predict,
    float32 ``(N, K)``."""
    masks: tuple[Tensor, Tensor, Tensor]
    """Training, validation and test nodes, bool ``(N,)``."""
    train_rows: Tensor
    """Training nodes of this worker, as rows of ``labels``, int64 ``(T,)``."""
    global_train: int
    """Training nodes of the whole graph; a loss divides by it."""
    num_classes: int
    """C, the columns of the model's output."""
    class_counts: tuple[int, ...]
    """Training nodes of each class in the whole graph; empty with several labels per node."""
    multi_label: bool
    """True if nodes have several labels."""


def node_targets(part: Graph | Shard, device: torch.device | str = "cpu") -> NodeTargets:
    """Return the targets of a whole graph or of one worker's shard.

    Raises:
        ValueError: if no training node is labelled.
    """
    train, val, test = (mask.to(device) for mask in (part.train_mask, part.val_mask, part.test_mask))
    global_train = part.global_train if isinstance(part, Shard) else int(part.train_mask.sum())
    if global_train == 0:
        raise ValueError(
            "training needs at least one labelled training node, this graph has none and can only be partitioned; "
            "pass labels= and train_idx= to Graph.from_edges"
        )
    return NodeTargets(
        labels=part.labels.to(device),
        masks=(train, val, test),
        train_rows=train.nonzero().flatten(),
        global_train=global_train,
        num_classes=part.num_classes,
        class_counts=part.class_counts,
        multi_label=part.multi_label,
    )


def label_objective(
    part: Graph | Shard, device: torch.device | str = "cpu", *, class_weights: str = ""
) -> NodeLabels | NodeNumbers:
    """Return the objective of a whole graph or one worker's shard: one class per node, several, or numbers to predict.

    Args:
        part: the graph, or a worker's shard.
        device: of labels and masks.
        class_weights: see :func:`read_class_weights`.

    Raises:
        ValueError: if no training node is labelled, or weights do not fit the classes.
    """
    targets = node_targets(part, device)
    if targets.labels.is_floating_point():
        if class_weights:
            raise ValueError(f"class_weights need classes, got {class_weights!r} for numbers to predict; leave it out")
        return NodeNumbers(
            targets=targets.labels,
            masks=targets.masks,
            train_rows=targets.train_rows,
            global_train=targets.global_train,
            means=torch.tensor(part.target_means, dtype=torch.float64, device=device),
        )
    weights = read_class_weights(class_weights, targets.class_counts)
    return ManyLabels(targets) if targets.multi_label else OneLabel(targets, class_weights=weights)


def read_class_weights(text: str, counts: Sequence[int]) -> list[float] | None:
    """Return the weight of each class in the loss, or ``None`` if all are 1.

    Args:
        text: empty; ``balanced`` for ``T / (C n_c)``, with T training nodes, C classes and n_c training nodes of the
            class, as scikit-learn; or C numbers separated by commas.
        counts: training nodes of each class in the whole graph; empty for nodes with several labels.

    Raises:
        ValueError: if the weights do not fit the classes, are negative or not finite, or all training nodes have 0.

    Example:
        >>> read_class_weights("balanced", [30, 10]), read_class_weights("1,4", [30, 10])
        ([0.6666666666666666, 2.0], [1.0, 4.0])
    """
    if not text:
        return None
    if not counts:
        raise ValueError(
            f"class_weights need one class per node, got {text!r} for a graph with several labels per node; leave it "
            "out"
        )
    if text == "balanced":
        total = sum(counts)
        return [total / (len(counts) * count) if count else 0.0 for count in counts]
    try:
        weights = [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"class_weights must be 'balanced' or numbers separated by commas, got {text!r}") from None
    if len(weights) != len(counts):
        raise ValueError(f"class_weights must be one for each of {len(counts)} classes, got {len(weights)} in {text!r}")
    if not all(0 <= weight < math.inf for weight in weights) or not any(map(operator.mul, weights, counts)):
        raise ValueError(f"class_weights must be finite, at least 0, and not 0 for all training nodes, got {text!r}")
    return weights


class NodeLabels(ABC):
    """Loss and scores of the nodes a worker owns: the loss is a mean over *all* training nodes.

    Args:
        targets: of this worker.

    Raises:
        ValueError: if the nodes have one label and the objective needs several, or the reverse.
    """

    score: ClassVar[str]
    multi_label: ClassVar[bool]
    """True if the objective is one of nodes with several labels."""
    channels: ClassVar[Sequence[Channel]] = ()
    """Empty: the loss of a node needs only its own logits."""

    def __init__(self, targets: NodeTargets) -> None:
        if targets.multi_label != self.multi_label:
            needed, found = ("several labels", "one label") if self.multi_label else ("one label", "several labels")
            raise ValueError(f"{type(self).__name__} must have a graph with {needed} per node, got one with {found}")
        self.targets = targets
        self.labels, self.masks, self.train_rows = targets.labels, targets.masks, targets.train_rows
        self.global_train = targets.global_train
        self.further_scores: tuple[str, ...] = ()

    def loss(self, logits: Tensor, context: AggregationContext | None = None) -> Tensor:
        """Return this worker's share of the loss; shares add up to the loss."""
        # (N, C) -> (T, C) -> (); by the global count, or workers with few training nodes would weigh too much.
        return self.summed_loss(logits[self.train_rows], self.labels[self.train_rows]) / self.global_train

    def scores(self, logits: Tensor, context: AggregationContext | None = None, *, distributed: bool) -> Scores:
        """Return global scores; counts are summed over workers before they are divided."""
        hits, misses = self._hits(logits, self.labels)  # (N, C) -> (N,), (N,)
        # (3, 2) int64: hits and misses of training, validation and test nodes.
        counts = torch.stack([torch.stack([(hits * mask).sum(), (misses * mask).sum()]) for mask in self.masks])
        further = self._further_counts(logits)
        if distributed:
            # One all-reduce of both; sums of integers do not depend on their order.
            both = torch.cat([counts.flatten(), further.flatten()])
            both = both.cpu() if dist.get_backend() == "gloo" else both
            dist.all_reduce(both)
            counts, further = both[: counts.numel()].view(counts.shape), both[counts.numel() :].view(further.shape)
        # Counts, not scores, are summed: workers have different numbers of nodes in a split.
        train, val, test = (self._ratio(int(hit), int(miss)) for hit, miss in counts.tolist())
        return Scores(train=train, val=val, test=test, further_scores=self._further_scores(further))

    def _further_counts(self, logits: Tensor) -> Tensor:
        """Return this worker's counts for further scores, int64 of any shape; empty without such scores."""
        return torch.zeros(0, dtype=torch.int64, device=self.labels.device)

    def _further_scores(self, counts: Tensor) -> Mapping[str, float]:
        """Return further scores by column from global counts."""
        return {}

    def train_counts(self, logits: Tensor) -> tuple[float, float]:
        """Return numerator and denominator of this worker's training score; their sums over workers give the score."""
        hits, misses = self._hits(logits[self.train_rows], self.labels[self.train_rows])
        return self._parts(float(hits.sum()), float(misses.sum()))

    def _ratio(self, hits: int, misses: int) -> float:
        numerator, denominator = self._parts(hits, misses)
        return numerator / denominator if hits + misses else float("nan")

    @abstractmethod
    def summed_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of the losses of some training nodes, which may be none; an own objective overrides it.

        A sum, not a mean, because each worker sums over its own training nodes; :meth:`loss` divides by all of them.

        Args:
            logits: output of the model for these nodes, float32 ``(T, C)``.
            labels: their labels, ``(T,)``; with several labels per node ``(T, C)``.
        """

    @abstractmethod
    def _hits(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the numbers of correct and of wrong predictions of every row."""

    @staticmethod
    @abstractmethod
    def _parts(hits: float, misses: float) -> tuple[float, float]:
        """Return numerator and denominator of the score."""


class OneLabel(NodeLabels):
    """Single-label classification: cross-entropy; the score is accuracy, in [0, 1].

    Where the largest class has more than four times the training nodes of the smallest, macro-F1 (mean over classes of
    ``2 TP / (2 TP + FP + FN)``) and balanced accuracy (mean over classes of the recall) are scores as well.

    Args:
        targets: of this worker.
        class_weights: weight of each class in the loss; by default 1.

    Example:
        >>> class Smoothed(OneLabel):
        ...     def summed_loss(self, logits, labels):
        ...         return functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=0.1)
        >>> from gnnqlab.graph.sources import load
        >>> graph = load("sbm:60,3,6")
        >>> float(Smoothed(node_targets(graph)).loss(torch.zeros(60, 3)))  # log 3
        1.0986...
    """

    score = "accuracy"
    multi_label = False

    def __init__(self, targets: NodeTargets, *, class_weights: Sequence[float] | None = None) -> None:
        super().__init__(targets)
        present = [count for count in targets.class_counts if count]
        self.num_classes = targets.num_classes
        if present and max(present) > _UNEQUAL * min(present):
            self.further_scores = ("macro_f1", "balanced_accuracy")
        self._class_weights: Tensor | None = None  # float32 (C,)
        self._total_weight = float(targets.global_train)
        if class_weights is not None:
            self._class_weights = torch.tensor(class_weights, dtype=torch.float32, device=targets.labels.device)
            self._total_weight = math.fsum(map(operator.mul, class_weights, targets.class_counts))

    def loss(self, logits: Tensor, context: AggregationContext | None = None) -> Tensor:
        """Return this worker's share of the loss, a weighted mean over *all* training nodes."""
        if self._class_weights is None:
            return super().loss(logits, context)
        rows, labels = logits[self.train_rows], self.labels[self.train_rows]
        return functional.cross_entropy(rows, labels, self._class_weights, reduction="sum") / self._total_weight

    def _further_counts(self, logits: Tensor) -> Tensor:
        if not self.further_scores:
            return super()._further_counts(logits)
        predicted = logits.argmax(1) if logits.numel() else self.labels.new_zeros(0)

        def count(classes: Tensor) -> Tensor:
            return torch.bincount(classes, minlength=self.num_classes)  # (C,)

        # (3, 3, C): for each split, nodes of each class that are correct, predicted, and known.
        return torch.stack(
            [
                torch.stack(
                    [
                        count(self.labels[mask & (predicted == self.labels)]),
                        count(predicted[mask]),
                        count(self.labels[mask]),
                    ]
                )
                for mask in self.masks
            ]
        )

    def _further_scores(self, counts: Tensor) -> Mapping[str, float]:
        if not self.further_scores:
            return {}
        scores: dict[str, float] = {}
        for split, (correct, predicted, known) in zip(("train", "val", "test"), counts.double(), strict=True):
            if split == "train":
                continue
            # Classes that neither occur nor are predicted have no score.
            occurs, is_known = (predicted + known) > 0, known > 0
            f1 = (2 * correct / (predicted + known))[occurs]  # (classes,)
            recall = (correct / known)[is_known]
            scores[f"{split}_macro_f1"] = float(f1.mean()) if f1.numel() else float("nan")
            scores[f"{split}_balanced_accuracy"] = float(recall.mean()) if recall.numel() else float("nan")
        return scores

    def summed_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the summed cross-entropy."""
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
    multi_label = True

    def summed_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the binary cross-entropy, summed over nodes and classes."""
        return functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="sum")

    def _hits(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        predictions, truth = logits > 0, labels > 0
        return (predictions & truth).sum(1), (predictions ^ truth).sum(1)  # TP and FP + FN of each node

    @staticmethod
    def _parts(hits: float, misses: float) -> tuple[float, float]:
        return 2 * hits, 2 * hits + misses
