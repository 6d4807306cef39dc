"""Gradient error of a cache over a descent, compared with the bound of CDFGNN's Theorem 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gnnqlab.graph.graph import Graph
from gnnqlab.message.caches.adaptive_cache import AdaptiveCache
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.edge_cut import Random
from gnnqlab.simulation.cached_training import CachedWorkers
from gnnqlab.simulation.convergence_check import curvature
from gnnqlab.simulation.threaded_workers import exact_trainer
from gnnqlab.systems.system import System
from gnnqlab.theory.cache import cache_bound
from gnnqlab.train.config.run_config import TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["CacheError", "cache_error"]


@dataclass(frozen=True, eq=False)
class CacheError:
    """A descent with a row cache, and the symbols of Theorem 1 measured along it."""

    frame: DataFrame
    """One row per epoch t: ``loss``; ``epsilon``; ``sent``, the share of rows that were sent; ``gradient_square``,
    ``||∇L(W_t)||²`` of the exact gradient; ``error_square``, ``||Δ_t||²``; ``mean_square``, the mean of
    ``gradient_square`` over 1 … t, which the theorem bounds; ``bound`` with every term, and ``printed`` without the one
    that Eq. 18 drops."""
    step: float
    """η."""
    curvature: float
    """Largest ρ measured on the way, a lower bound on the theorem's."""


def cache_error(
    graph: Graph,
    cache: AdaptiveCache | None = None,
    model: str | ModelSettings = "gcn",
    *,
    workers: int = 2,
    epochs: int = 60,
    step: float | None = None,
    looks: int = 3,
    seed: int = 0,
) -> CacheError:
    """Descend with a cache and a fixed step, and compare the exact gradients with CDFGNN Theorem 1.

    Differs: training uses Adam; the theorem, and so this descent, is plain ``W <- W - η ∇L̃``.

    Args:
        graph: the whole graph.
        cache: by default ``AdaptiveCache()``.
        model: dropout is switched off.
        workers: number of random partitions, as threads of this process.
        epochs: N.
        step: η; by default ``1 / (4 ρ)`` with ρ at the first weights.
        looks: number of measurements of ρ on the way.
        seed: of weights.

    Raises:
        ValueError: if ``epochs`` or ``looks`` is out of range, or the step is longer than ``1 / ρ``.

    Example:
        >>> from gnnqlab.graph import load
        >>> shape = ModelSettings(layers=2, hidden=8)
        >>> found = cache_error(load("sbm:60,3,6"), AdaptiveCache(epsilon=0.1), shape, epochs=5)
        >>> bool((found.frame["mean_square"] <= found.frame["bound"]).all())
        True
    """
    import pandas as pd

    if epochs < 1 or looks < 1:
        raise ValueError(f"epochs and looks must be at least 1, got {epochs} and {looks}")
    shape = replace(ModelSettings(name=model) if isinstance(model, str) else model, dropout=0.0, input_dropout=0.0)
    system = System(cache=cache or AdaptiveCache(), partition=Random(seed=seed))
    trainer = exact_trainer(graph, shape, seed=seed)
    # The same graph, distributed over workers whose messages pass through the cache.
    cached_workers = CachedWorkers(graph, system, shape, TrainSettings(seed=seed), workers=workers)
    weights, largest_curvature, rows = trainer.parameters.values, 0.0, []
    for epoch in range(epochs):
        if epoch % max(1, epochs // looks) == 0:
            largest_curvature = max(largest_curvature, curvature(trainer, seed=seed).curvature)
            step = step or 0.25 / largest_curvature  # a quarter of 1 / ρ, because ρ grows during the descent
        loss = trainer.gradients(epoch)
        gradient = trainer.parameters.gradients.double()  # ∇L(W_t), (n,) float64
        # Both gradients at the same weights: their difference is Δ_t, the error by cached rows alone.
        cached_workers.threads.set_weights(weights)
        epsilon = cached_workers.epsilon  # before the pass, which adapts it
        approximate_gradient = cached_workers.gradients(epoch)  # ∇L̃(W_t), (n,)
        num_sent, num_offered = cached_workers.count_rows()
        rows.append(
            {
                "epoch": epoch,
                "loss": loss,
                "epsilon": epsilon,
                "sent": num_sent / max(num_offered, 1),
                "gradient_square": float(gradient.square().sum()),
                "error_square": float((approximate_gradient - gradient).square().sum()),
            }
        )
        assert step is not None
        weights -= step * approximate_gradient  # in place: the buffer of the exact trainer
    frame = pd.DataFrame(rows)
    frame["mean_square"] = frame["gradient_square"].expanding().mean()  # over epochs 1 … t
    assert step is not None
    for column, reading in (("bound", "kept"), ("printed", "printed")):
        frame[column] = [
            cache_bound(
                loss_gap=max(float(frame["loss"][0]), 0.0),  # a cross-entropy is at least 0
                step=step,
                curvature=largest_curvature,
                errors=frame["error_square"][: epoch + 1].tolist(),
                reading=reading,
            ).total
            for epoch in range(epochs)
        ]
    return CacheError(frame, step, largest_curvature)
