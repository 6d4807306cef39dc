"""Trainings with row caches, as threads of this process: share of skipped rows, and test score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gnnqlab.graph.graph import Graph
from gnnqlab.message.caches.adaptive_cache import CacheAtWork
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.edge_cut import Random
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import ThreadedWorkers, exact_trainer
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["CachedWorkers", "train_cached"]


class CachedWorkers:
    """Workers of this process with a cache, whose threshold adapts as in launched workers.

    Args:
        graph: the whole graph.
        system: with any cache; its schedule is synchronous here.
        hosts: number of hosts with equally many workers, for the partitioner and the exchange.
    """

    def __init__(
        self,
        graph: Graph,
        system: System,
        shape: ModelSettings,
        settings: TrainSettings,
        *,
        workers: int,
        hosts: int = 1,
    ) -> None:
        system = system.on_hosts(hosts)
        cut = cut_graph(graph, system.partition, workers)
        self.threads = ThreadedWorkers(graph, cut, system, shape, settings, joined=True)
        self._before = (0, 0)

    @property
    def epsilon(self) -> float | None:
        """Current threshold; ``None`` for a cache without one."""
        cache = self.threads.caches[0]  # ε follows from reduced values, so it is equal on all workers
        return cache.epsilon if isinstance(cache, CacheAtWork) else None

    def gradients(self, epoch: int) -> Tensor:
        """Train one epoch and update ε; return the flat gradient of the whole graph, before the step."""
        self.step(epoch)
        return self.threads.trainers[0].parameters.gradients.clone()  # a copy: the next pass overwrites the buffer

    def step(self, epoch: int) -> float:
        """Train one epoch and update ε; return its loss (before the step)."""
        return self.threads.step(epoch)

    def count_rows(self) -> tuple[int, int]:
        """Return the numbers of rows sent and offered since the last call, over all workers."""
        channels = [channel for trainer in self.threads.trainers for channel in trainer.exchange.channels]  # type: ignore[union-attr]
        counts = (sum(each.rows_sent for each in channels), sum(each.rows_offered for each in channels))
        # Channels count from their creation; the result is the difference since the last call.
        earlier_counts, self._before = self._before, counts
        return counts[0] - earlier_counts[0], counts[1] - earlier_counts[1]


def train_cached(
    graph: Graph,
    caches: Mapping[str, Any],
    *,
    seeds: Sequence[int] = (0,),
    epochs: int = 60,
    workers: int = 2,
    model: ModelSettings | None = None,
    every: int = 5,
) -> DataFrame:
    """Train once per seed with each cache, from the same weights on the same random partition.

    Args:
        graph: the whole graph.
        caches: name -> cache.
        seeds: of weights and partition.
        epochs: of each training.
        workers: number of partitions.
        model: by default a GCN of two layers with 16 hidden columns, without dropout.
        every: epochs between evaluations.

    Returns:
        One row per training: ``cache, seed, score`` (test score at the best validation score, in [0, 1]), ``kept``
        (share of rows that were skipped over the whole training), ``epsilon`` (the last one).

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.message import AdaptiveCache, NoCache
        >>> found = train_cached(load("sbm:60,3,6"), {"none": NoCache(), "cache": AdaptiveCache()}, epochs=6)
        >>> found["cache"].tolist(), bool((found["kept"] > 0)[1])
        (['none', 'cache'], True)
    """
    import pandas as pd

    # Without dropout, whose masks would change all rows in every epoch.
    shape = replace(model or ModelSettings(layers=2, hidden=16), dropout=0.0, input_dropout=0.0)
    rows = []
    for seed in seeds:
        for name, cache in caches.items():
            system = System(partition=Random(seed=seed), cache=cache)
            training = CachedWorkers(graph, system, shape, TrainSettings(seed=seed), workers=workers)
            trainer = exact_trainer(graph, shape, seed=seed)
            best_scores = (-1.0, 0.0)  # validation and test score
            for epoch in range(epochs):
                training.step(epoch)
                if epoch % every == every - 1 or epoch == epochs - 1:
                    # Evaluate on the whole graph, so that cached rows do not affect the score.
                    trainer.parameters.values.copy_(training.threads.trainers[0].parameters.values)
                    scores = trainer.evaluate(epoch)
                    best_scores = max(best_scores, (scores.val, scores.test))  # by validation score first
            num_sent, num_offered = training.count_rows()
            share = 1 - num_sent / num_offered if num_offered else 0.0
            line = {"cache": name, "seed": seed, "score": best_scores[1], "kept": share, "epsilon": training.epsilon}
            rows.append(line)
    return pd.DataFrame(rows)
