"""Training without messages of embeddings, after Grappa (arXiv 2602.01872): workers send weight gradients only."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.message.samplers import BoundarySampling
from gnnqlab.partition.random_clusters import RandomClusters
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["gradients_only"]


@register_system
def gradients_only(*, clusters_per_worker: int = 8, correction: str = "coverage", partition_every: int = 10) -> System:
    """Vanilla without boundary rows in training, on partitions that change; weights stand for hidden edges.

    A worker aggregates the neighbours that it owns, and the weight gradients are summed as in every system; evaluation
    receives all rows. Every ``partition_every`` epochs clusters move to other workers, so every edge is visible at some
    time. An edge counts 1 over the probability that one worker owns both ends (importance weights), so ``E[z] = A x``
    over partitions, in every sum of a layer. ``correction="none", partition_every=0`` is BNS-GCN with p = 0.

    From Grappa: isolated workers, gradients only, periodic partitions, a correction by coverage. Differs: we know its
    abstract only, which corrects the sum of gradients; here the sums over neighbours are corrected, forward and
    backward, with the exact probabilities of :class:`gnnqlab.partition.random_clusters.RandomClusters`. A model is not
    linear in its sums, so loss and gradients stay biased, and corrected sums vary more than others.

    Example:
        >>> system = gradients_only(clusters_per_worker=4)
        >>> system.sampler.p, system.partition.correction, system.partition.partition_every
        (0.0, 'coverage', 10)
    """
    return replace(
        vanilla(),
        name="gradients-only",
        partition=RandomClusters(
            clusters_per_worker=clusters_per_worker, correction=correction, partition_every=partition_every
        ),
        sampler=BoundarySampling(p=0.0),
    )
