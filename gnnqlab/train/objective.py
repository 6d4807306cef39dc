"""Loss and scores over rows that are spread over workers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from gnnqlab.graph.graph import Graph
from gnnqlab.partition.shard import Shard

__all__ = ["Objective", "Scores"]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Accuracy, or micro-F1 of a multi-label graph, in [0, 1]; NaN where a split is empty."""

    train: float
    val: float
    test: float


@dataclass(frozen=True, eq=False)
class Objective:
    """What is learnt, and how well: targets of the rows a worker owns, and global counts.

    Loss: cross-entropy, or binary cross-entropy summed over classes, averaged over *all* training nodes of
    the graph. Scores: accuracy; micro-F1 ``2 TP / (2 TP + FP + FN)`` with counts summed over everything
    before dividing, a label predicted where its logit is positive.
    """

    labels: Tensor
    masks: tuple[Tensor, Tensor, Tensor]
    """Training, validation and test rows, bool ``(N,)``."""
    train_rows: Tensor
    global_train: int
    multi_label: bool

    @classmethod
    def of(cls, part: Graph | Shard, device: torch.device | str = "cpu") -> Objective:
        """Return the objective of a whole graph or of one worker's shard.

        Raises:
            ValueError: if there is nothing to learn from.
        """
        masks = tuple(mask.to(device) for mask in (part.train_mask, part.val_mask, part.test_mask))
        global_train = part.global_train if isinstance(part, Shard) else int(part.train_mask.sum())
        if global_train == 0:
            raise ValueError(
                "training needs at least one labelled training node, this graph has none and can only be partitioned; "
                "pass labels= and train_idx= to Graph.from_edges"
            )
        return cls(
            labels=part.labels.to(device),
            masks=(masks[0], masks[1], masks[2]),
            train_rows=masks[0].nonzero().flatten(),
            global_train=global_train,
            multi_label=part.multi_label,
        )

    def loss(self, logits: Tensor) -> Tensor:
        """Return this worker's share of the loss; shares add up to the loss."""
        chosen, labels = logits[self.train_rows], self.labels[self.train_rows]
        if self.multi_label:
            total = functional.binary_cross_entropy_with_logits(chosen, labels.to(chosen.dtype), reduction="sum")
        else:
            total = functional.cross_entropy(chosen, labels, reduction="sum")
        return total / self.global_train

    def scores(self, logits: Tensor, *, distributed: bool) -> Scores:
        """Return global scores; counts are summed over workers before they are divided."""
        hits, misses = self._hits(logits, self.labels)
        counts = torch.stack([torch.stack([(hits * mask).sum(), (misses * mask).sum()]) for mask in self.masks])
        if distributed:
            counts = counts.cpu() if dist.get_backend() == "gloo" else counts
            dist.all_reduce(counts)
        train, val, test = (self._score(int(hit), int(miss)) for hit, miss in counts.tolist())
        return Scores(train=train, val=val, test=test)

    def train_counts(self, logits: Tensor) -> tuple[float, float]:
        """Return two numbers of this worker's training rows whose sums over workers divide to the training score."""
        found = self._hits(logits[self.train_rows], self.labels[self.train_rows])
        hits, misses = (float(counts.sum()) for counts in found)
        return (2 * hits, 2 * hits + misses) if self.multi_label else (hits, hits + misses)

    def _hits(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is right and what is wrong of every row."""
        if self.multi_label:
            predicted, truth = logits > 0, labels > 0
            return (predicted & truth).sum(1), (predicted ^ truth).sum(1)
        hits = (logits.argmax(1) == labels).long() if logits.numel() else labels.new_zeros(0)
        return hits, 1 - hits

    def _score(self, hits: int, misses: int) -> float:
        if hits + misses == 0:
            return float("nan")
        return 2 * hits / (2 * hits + misses) if self.multi_label else hits / (hits + misses)
