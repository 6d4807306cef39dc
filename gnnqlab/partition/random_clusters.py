"""Clusters of nodes that are assigned to workers at random, with the probability that two of them meet.

Letters: N nodes, C clusters, P workers, m clusters of a worker, E edges of a shard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from gnnqlab.partition.cut import NodeCut, Partitioner, check_workers
from gnnqlab.partition.edge_cut import METIS
from gnnqlab.partition.parts import cut_graph
from gnnqlab.partition.shard import Shard
from gnnqlab.settings import OneOf, Range, check

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["ClusterCut", "RandomClusters"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterCut(NodeCut):
    """Edge-cut whose workers own whole clusters, in equal numbers."""

    clusters: Tensor
    """Cluster of each node, int64 ``(N,)``."""
    num_clusters: int
    """C, a multiple of P."""
    correction: str = "none"

    def complete_shard(self, shard: Shard) -> Shard:
        """Return a shard of this cut with the weights of its edges, if the correction has some."""
        if self.correction == "none":
            return shard
        clusters = self.clusters[torch.cat([shard.owned, shard.halo])]  # (N + H,) of local nodes
        target = torch.repeat_interleave(clusters[: shard.num_owned], shard.indptr.diff())  # (E,)
        is_within = clusters[shard.indices.long()] == target
        return replace(shard, edge_coverage=torch.where(is_within, 1.0, self.weight_between))

    @property
    def weight_between(self) -> float:
        """Weight of an edge between two clusters of one worker: 1 over the probability that they have one worker.

        Of the ``C - 1`` other clusters, ``m - 1`` have the worker of a given one, all equally likely.
        """
        per_worker = self.num_clusters // self.workers
        return (self.num_clusters - 1) / (per_worker - 1) if per_worker > 1 else 1.0  # 1: no worker has two clusters


@dataclass(frozen=True, kw_only=True)
class RandomClusters(Partitioner):
    """METIS clusters, assigned to workers at random in equal numbers (as the batches of Cluster-GCN, KDD 2019).

    METIS cuts the graph into m clusters a worker, once. An edge within a cluster is never cut, one between two clusters
    is inside a worker with probability ``(m - 1) / (m P - 1)``. So fewer edges are cut than by ``Random()``, more than
    by ``METIS()``, and it is known how often an edge is visible to a worker that receives no rows.

    Example:
        >>> import gnnqlab as gq
        >>> cut = RandomClusters(clusters_per_worker=4).cut(gq.load("sbm:60,3,6"), 3)
        >>> cut.num_clusters, cut.weight_between, cut.owner.unique().tolist()
        (12, 3.6666666666666665, [0, 1, 2])
    """

    serves_all: ClassVar[bool] = False

    clusters_per_worker: Annotated[int, Range(1)] = 8
    """Clusters of each worker, m; fewer if the graph has fewer nodes a worker. More clusters: other neighbours in every
    partition, and more cut edges."""
    correction: Annotated[str, OneOf(("coverage", "none"))] = "none"
    """Weights of edges inside a worker in the training sums of a system that receives no rows, with sampler
    ``BoundarySampling(p=0)``; other systems hide no edge, or have weights of their own. ``coverage``: 1 over the
    probability that an edge is inside a worker, so that sums are unbiased over partitions; attention, a softmax over
    visible neighbours, has no weights. ``none``: the weights of the whole graph."""
    partition_every: Annotated[int, Range(0)] = 0
    """Epochs between two partitions, in systems that receive no rows; 0: one partition for the whole run. With more of
    them, more edges are inside a worker at some time."""
    seed: int = 0
    """Seed of the assignment of clusters to workers, together with the number of the period."""

    def __post_init__(self) -> None:
        check(self)
        if self.correction == "coverage" and self.clusters_per_worker == 1:
            raise ValueError(
                "correction 'coverage' needs at least 2 clusters_per_worker, got 1, with which an edge between "
                "clusters is never inside a worker; choose more clusters or correction 'none'"
            )

    @property
    def weighs_edges(self) -> bool:
        return self.correction != "none"

    def cut(self, graph: Graph, workers: int) -> ClusterCut:
        """Assign every node to a worker.

        Raises:
            RuntimeError: if neither pymetis nor DGL can be used.
            ValueError: if there are more workers than nodes.
        """
        return self._cut(graph, workers)

    def cut_in_period(self, graph: Graph, workers: int, period: int) -> ClusterCut:
        """Assign the clusters again: another partition of the same clusters for each period."""
        return self._cut(graph, workers, period=period)

    def fixed(self) -> RandomClusters:
        """Return the partitioner of the first period only."""
        return replace(self, partition_every=0)

    def quick_cut(self, graph: Graph, workers: int) -> ClusterCut:
        """Assign every node by clusters of METIS's quick cut."""
        return self._cut(graph, workers, quick=True)

    def _cut(self, graph: Graph, workers: int, *, period: int = 0, quick: bool = False) -> ClusterCut:
        check_workers(graph, workers)
        # A small graph may have fewer nodes than clusters; all workers must have equally many.
        num_clusters = workers * max(1, min(self.clusters_per_worker, graph.num_nodes // workers))
        found = cut_graph(graph, METIS(), num_clusters, quick=quick)  # stored, so all periods have the same clusters
        order = np.random.default_rng((self.seed, period)).permutation(num_clusters)  # (C,)
        owner = torch.from_numpy(order) % workers  # (C,) each worker m times
        return ClusterCut(
            owner=owner[found.owner],
            workers=workers,
            library=found.library,
            clusters=found.owner,
            num_clusters=num_clusters,
            correction=self.correction,
        )
