"""Partition that changes during a run: one shard a period, built while the period before is trained.

The partition of a period follows from the partitioner's seed and the number of the period, so workers agree on it
without messages, and a resumed run continues with the partition of its epoch. Weights, optimizer and model stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnnqlab.graph.features import SparseRows
from gnnqlab.partition.shard import Shard
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.trainer import Trainer
from gnnqlab.train.records.recorder import Recorder
from gnnqlab.train.shard_cache import check_same_partition, prepared_graph

__all__ = ["MovingPartition", "moved_bytes"]

_LONG_S = 24 * 3600.0
"""Limit reported to the guard: loading a large graph and building a shard may take hours."""


class MovingPartition(Recorder):
    """Recorder that changes the partition of a training every n epochs, and records the cost of each change.

    Args:
        config: of the run, with ``partition_every > 0``.
        run: the run folder.
        shard: this worker's shard of period 0.
        trainer: of that shard; it continues on those of later periods.
        rebuild: function that returns the trainer of another shard, with the same settings.
        heartbeat: receives the phases.
    """

    def __init__(
        self,
        config: RunConfig,
        run: Path,
        shard: Shard,
        trainer: Trainer,
        rebuild: Callable[[Shard], Trainer],
        heartbeat: Heartbeat,
    ) -> None:
        self._source, self._run, self._epochs = config.graph, run, config.train.epochs
        self._partitioner = config.system_on_hosts.partition
        self._shard, self._trainer, self._rebuild, self._heartbeat = shard, trainer, rebuild, heartbeat
        self._period, self._seconds, self._bytes = 0, 0.0, 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="partition")
        self._next: tuple[int, Future[Shard]] | None = None

    def begin(self, epoch: int) -> None:
        """Change the partition if a period begins, on all workers; start to build the next shard."""
        every = self._partitioner.partition_every
        period, self._seconds, self._bytes = epoch // every, 0.0, 0
        if period != self._period:  # not the next one after a resumption
            start = time.perf_counter()
            self._move(period)
            self._seconds = time.perf_counter() - start
            self._heartbeat.phase("compute", epoch=epoch)
        if self._next is None and (period + 1) * every < self._epochs:
            self._next = period + 1, self._thread.submit(self._build, period + 1)

    def figures(self) -> dict[str, Any]:
        """Return the seconds for which training waited, and the bytes of nodes that came to this worker."""
        return {"partition_s": round(self._seconds, 7), "partition_bytes": self._bytes}

    def close(self) -> None:
        """Stop building shards."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _move(self, period: int) -> None:
        self._heartbeat.phase("partition", limit_s=_LONG_S)
        known_period, future = self._next or (None, None)
        shard = future.result() if future is not None and known_period == period else self._build(period)
        if shard.workers > 1:
            check_same_partition(shard)  # a barrier, too: no worker uses channels of two periods
        self._bytes = moved_bytes(self._shard, shard)
        other, trainer = self._rebuild(shard), self._trainer
        # Parameters, optimizer and their all-reduce are those of the first trainer.
        trainer.graph, trainer.exchange, trainer.objective = other.graph, other.exchange, other.objective
        trainer.evaluation = other.evaluation
        self._shard, self._period, self._next = shard, period, None

    def _build(self, period: int) -> Shard:
        rank, workers = self._shard.rank, self._shard.workers
        graph = prepared_graph(self._source, self._run, rank)
        return self._partitioner.cut_in_period(graph, workers, period).shard(graph, rank)


def moved_bytes(before: Shard, after: Shard) -> int:
    """Return the bytes of features, labels and masks of the nodes that a worker owns in the second shard only.

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition.random_clusters import RandomClusters
        >>> graph, clusters = load("sbm:60,3,6"), RandomClusters()
        >>> shards = [clusters.cut_in_period(graph, 2, period).shard(graph, 0) for period in (0, 1)]
        >>> moved_bytes(shards[0], shards[0]), moved_bytes(*shards) > 0
        (0, True)
    """
    is_new = ~torch.isin(after.owned, before.owned)  # (N,)
    rows = is_new.nonzero().flatten()
    features = after.features
    if isinstance(features, SparseRows):
        part = features.index_rows(rows)
        tensors: list[Tensor] = [part.indptr, part.indices, part.values]
    else:
        tensors = [features[rows]]
    tensors += [each[rows] for each in (after.labels, after.train_mask, after.val_mask, after.test_mask)]
    return sum(each.numel() * each.element_size() for each in tensors)
