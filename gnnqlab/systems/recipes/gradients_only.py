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
def gradients_only(*, clusters_per_worker: int = 8, correction: str = "coverage") -> System:
    """Vanilla without boundary rows in training; weights of the visible edges stand for the hidden ones.

    A worker aggregates the neighbours that it owns, and the weight gradients are summed as in every system; evaluation
    receives all rows. An edge counts 1 over the probability that a worker owns both ends (importance weights), so
    ``E[z] = A x`` over partitions, in every sum of a layer. ``correction="none"`` is BNS-GCN with p = 0.

    From Grappa: isolated workers, gradients only, a correction by coverage. Differs: we know its abstract only, which
    corrects the sum of gradients; here the sums over neighbours are corrected, forward and backward, with exact
    probabilities of :class:`gnnqlab.partition.random_clusters.RandomClusters`. A model is not linear in its sums, so loss
    and gradients stay biased, and a correction has more variance than none.

    Example:
        >>> system = gradients_only(clusters_per_worker=4)
        >>> system.sampler.p, system.partition
        (0.0, RandomClusters(clusters_per_worker=4, correction='coverage', seed=0))
    """
    return replace(
        vanilla(),
        name="gradients-only",
        partition=RandomClusters(clusters_per_worker=clusters_per_worker, correction=correction),
        sampler=BoundarySampling(p=0.0),
    )
