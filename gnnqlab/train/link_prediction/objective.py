"""Objective of link prediction: edges against sampled negative pairs, with nodes distributed over workers.

Letters: N rows of this worker, F rows fetched, D columns, n links of this worker, k negatives per link, M pool nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.row_gather import GatherPlan, RowGather
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.graph.link_split import TEST, TRAIN, VAL
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.nn.links import area_under_curve
from gnnqlab.partition.link_share import LinkShare
from gnnqlab.train.link_prediction.negatives import FIXED, against, draw_pool, find_positions
from gnnqlab.train.link_prediction.settings import TaskSettings
from gnnqlab.train.loop.objective import Scores

__all__ = ["LinkObjective"]

_AT_ONCE = 1 << 17
"""Scores of ranked pairs computed per chunk."""


@dataclass(frozen=True, eq=False)
class _Links:
    """Links of a worker: ids and ends for sampling, on the CPU, and indices of their embeddings."""

    sources: Tensor
    targets: Tensor
    numbers: Tensor
    source_rows: Tensor
    target_rows: Tensor

    def __len__(self) -> int:
        return self.numbers.numel()


class LinkObjective:
    """Binary cross-entropy of training links and k negatives per link, averaged over *all* links of all workers.

    ``-(sum of log s(z_uv) + sum of log s(-z_uw)) / (L (1 + k))`` with z from the decoder, s the logistic function and w
    sampled from this epoch's pool. Message passing uses the training links only. Embeddings of other workers are those
    of this epoch: float32, or, for ends of training links, in the bit-width of the task.

    Scores: AUC of links and one fixed negative each (training: of a fixed sample of the links, about as many as in
    validation); MRR, the mean of ``1 / rank`` of a link's target among the fixed pool, where the rank counts pool nodes
    with a higher score, and half of those with an equal score. Negatives may be edges, but never an end of the link.

    Args:
        share: the worker's links.
        owned: global ids of its rows, int64 ``(N,)``.
        decoder: scores pairs of rows; a submodule of the model, so that its weights are trained.
        task: numbers of negatives, pool nodes and ranked candidates.
        wires: factory of the channels that send rows; ``None`` for a single worker.
        rank, workers: this worker, and P.
        seed: of all samples.
        device: of the rows.
        timeline: records the time of each part of an exchange.

    Raises:
        ValueError: if the graph has fewer than three nodes.
    """

    score: ClassVar[str] = "auc"
    further_scores: ClassVar[tuple[str, ...]] = ("mrr",)

    def __init__(
        self,
        share: LinkShare,
        owned: Tensor,
        decoder: nn.Module,
        task: TaskSettings,
        wires: ChannelFactory | None,
        *,
        rank: int,
        workers: int,
        seed: int,
        device: torch.device | str = "cpu",
        timeline: Timeline | None = None,
    ) -> None:
        self._decoder, self._task, self._seed, self._device = decoder, task, seed, torch.device(device)
        self._nodes = share.owner.numel()
        if self._nodes < 3:
            raise ValueError(
                "link prediction needs at least 3 nodes, because a negative is neither end of its link, got a graph of "
                f"{self._nodes} nodes; use a larger graph"
            )
        is_learnt, is_scored = share.kinds == TRAIN, share.scored | (share.kinds != TRAIN)  # bool, one entry per link

        def fetch(mask: Tensor, sends: Tensor, splits: Tensor) -> RowGather:
            # A worker's links have their sources among its own nodes, so only targets can be remote.
            targets = share.targets[mask]
            # Ascending and distinct, as the owner lists the rows to send: the ids themselves are never sent.
            remote_nodes = targets[share.owner[targets] != rank].unique()
            gather = GatherPlan(
                send=sends.split(splits.tolist()),
                receive=[remote_nodes[share.owner[remote_nodes] == peer] for peer in range(workers)],
            )
            return RowGather(
                owned,
                share.owner,
                gather,
                wires,
                rank=rank,
                workers=workers,
                device=device,
                timeline=timeline,
            )

        self._fetch = fetch(is_learnt, share.learnt_sends, share.learnt_send_splits)
        """Gather of the ends of training links."""
        self._eval_fetch = fetch(is_scored, share.scored_sends, share.scored_send_splits)
        """Gather of the ends of links for evaluation."""
        self._train = self._links(share, is_learnt, self._fetch)
        kinds = {"train": share.scored, "val": share.kinds == VAL, "test": share.kinds == TEST}
        self._scored = {name: self._links(share, mask, self._eval_fetch) for name, mask in kinds.items()}
        totals = dict(zip(("train", "val", "test", "scored"), share.counts.tolist(), strict=True))
        self._terms = totals["train"] * (1 + task.num_negatives)
        self._counts = {"train": totals["scored"], "val": totals["val"], "test": totals["test"]}
        # The same candidates in every evaluation, so that scores of different epochs are comparable.
        self._fixed = draw_pool(self._nodes, min(task.num_candidates, self._nodes), seed=seed, epoch=0, use=FIXED)
        self._last = torch.empty(0), torch.empty(0, 1)  # scores (n,) and (n, k) of the last pass

    def _links(self, share: LinkShare, mask: Tensor, fetch: RowGather) -> _Links:
        sources, targets = share.sources[mask], share.targets[mask]
        rows = fetch.places(sources).to(self._device), fetch.places(targets).to(self._device)
        return _Links(sources, targets, share.numbers[mask], *rows)

    @property
    def channels(self) -> Sequence[Channel]:
        return self._fetch.channels

    def loss(self, rows: Tensor, context: AggregationContext | None = None) -> Tensor:
        """Return this worker's share of the loss; shares add up to the loss."""
        assert context is not None, "rows of other workers are those of an epoch"
        links, task = self._train, self._task
        size = min(task.negative_pool, self._nodes)
        pool = draw_pool(self._nodes, size, seed=self._seed, epoch=context.epoch)  # (M,), the same on every worker
        # Rows (N + F, D): own rows, ends of training links, and the pool.
        gathered_rows = self._fetch(rows, pool, context)
        places = self._negatives(pool, links, task.num_negatives, context.epoch, 0)  # (n, k)
        positive_scores = self._decoder(gathered_rows.rows, links.source_rows, links.target_rows)  # (n,)
        sources = links.source_rows.repeat_interleave(task.num_negatives)  # (n,) -> (n k,)
        negative_scores = self._decoder(gathered_rows.rows, sources, gathered_rows.shared[places.flatten()])  # (n k,)
        self._last = positive_scores.detach(), negative_scores.detach().view(-1, task.num_negatives)
        # -log s(z) = softplus(-z) does not overflow, and -log s(-z) = softplus(z).
        total = functional.softplus(-positive_scores).sum() + functional.softplus(negative_scores).sum()
        return total / self._terms

    def scores(self, rows: Tensor, context: AggregationContext | None = None, *, distributed: bool) -> Scores:
        """Return AUC and MRR over the links of all workers."""
        assert context is not None, "rows of other workers are those of an epoch"
        gathered_rows = self._eval_fetch(rows, self._fixed, context)
        auc_scores: dict[str, float] = {}
        further_scores: dict[str, float] = {}
        for name, links in self._scored.items():
            positive_scores = self._decoder(gathered_rows.rows, links.source_rows, links.target_rows)
            places = self._negatives(self._fixed, links, 1, 0, FIXED).flatten()  # (n, 1) -> (n,)
            negative_scores = self._decoder(gathered_rows.rows, links.source_rows, gathered_rows.shared[places])
            # AUC is not a sum over workers: it needs the scores of all links at once.
            # (2, n) of this worker -> (2, n of all workers)
            positives, negatives = _gather_columns(
                torch.stack([positive_scores, negative_scores]), distributed=distributed
            )
            is_empty = self._counts[name] == 0
            auc_scores[name] = float("nan") if is_empty else area_under_curve(positives, negatives)
            if name != "train":
                own_sum = self._reciprocal_ranks(gathered_rows.rows, gathered_rows.shared, links, positive_scores)
                total = _sum_over_workers(own_sum, distributed=distributed)
                further_scores[f"{name}_mrr"] = float("nan") if is_empty else total / self._counts[name]
        return Scores(
            train=auc_scores["train"], val=auc_scores["val"], test=auc_scores["test"], further_scores=further_scores
        )

    def train_counts(self, rows: Tensor) -> tuple[float, float]:
        """Return the number of training links scored above all their negatives in the last pass, and of all."""
        positive_scores, negative_scores = self._last
        # (n,) > (n, k) -> (n,): the hardest negative decides
        return float((positive_scores > negative_scores.amax(1)).sum()), float(positive_scores.numel())

    def _negatives(self, pool: Tensor, links: _Links, count: int, epoch: int, use: int) -> Tensor:
        places = against(
            pool, links.sources, links.targets, links.numbers, count=count, seed=self._seed, epoch=epoch, use=use
        )
        return places.to(self._device)

    def _reciprocal_ranks(self, rows: Tensor, pool: Tensor, links: _Links, positive_scores: Tensor) -> float:
        """Return the sum of ``1 / rank`` of the targets of this worker's links."""
        total, size = 0.0, pool.numel()
        for start in range(0, len(links), step := max(1, _AT_ONCE // size)):
            span = slice(start, start + step)
            sources = links.source_rows[span]
            scores = self._decoder(rows, sources.repeat_interleave(size), pool.repeat(sources.numel()))
            scores = scores.view(-1, size)  # (m M,) -> (m, M)
            for ends in (links.sources[span], links.targets[span]):
                place = find_positions(self._fixed, ends).to(self._device)
                pool_ends = (place < size).nonzero().flatten()
                scores[pool_ends, place[pool_ends]] = float("-inf")  # an end of the link is not a candidate
            target_scores = positive_scores[span, None]  # (m, 1)
            # Equal scores count half: a model with constant scores must not rank every target first.
            ranks = 1 + (scores > target_scores).double().sum(1) + (scores == target_scores).double().sum(1) / 2
            total += float(ranks.reciprocal().sum())
        return total


def _gather_columns(columns: Tensor, *, distributed: bool) -> Tensor:
    """Return the columns of all workers in the order of ranks, ``(R, sum of n)``, identical on each, on the CPU.

    Args:
        columns: of this worker, float32 ``(R, n)``; n may differ between workers.
        distributed: True if there are other workers.
    """
    if not distributed:
        return columns.cpu()
    own_columns = columns.cpu() if dist.get_backend() == "gloo" else columns.contiguous()
    # Workers have different numbers of links: exchange the numbers first, then pad to the largest.
    size = torch.tensor([own_columns.shape[1]], device=own_columns.device)
    sizes = [torch.zeros_like(size) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, size)
    largest_size = max(int(each) for each in sizes)
    padded_columns = own_columns.new_zeros(own_columns.shape[0], largest_size)  # all_gather needs equal shapes
    padded_columns[:, : own_columns.shape[1]] = own_columns
    parts = [torch.empty_like(padded_columns) for _ in sizes]
    dist.all_gather(parts, padded_columns)
    return torch.cat([part[:, : int(each)] for part, each in zip(parts, sizes, strict=True)], 1).cpu()


def _sum_over_workers(value: float, *, distributed: bool) -> float:
    """Return the sum over workers, in float64."""
    if not distributed:
        return value
    device = "cpu" if dist.get_backend() == "gloo" else torch.device("cuda", torch.cuda.current_device())
    total = torch.tensor(value, dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return float(total)
