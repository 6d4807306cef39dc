"""Measured variance of a gradient from the rounding of messages, without any bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gnnqlab.bits.policy import BitPolicy
from gnnqlab.graph.graph import Graph
from gnnqlab.message.codecs.codec import Codec, Stochastic
from gnnqlab.message.direction import ByDirection
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import FrozenBits, ThreadedWorkers, exact_trainer
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import TrainSettings

__all__ = ["GradientNoise", "gradient_noise", "trained_weights"]


@dataclass(frozen=True)
class GradientNoise:
    """Gradient noise over all parameters, in squared units of the gradient."""

    variance: float
    """``E||g - E g||^2`` over the repeats."""
    squared_gradient: float
    """``||E g||^2``, corrected for the noise of the mean."""
    repeats: int

    @property
    def relative(self) -> float:
        """Variance over the squared gradient."""
        return self.variance / self.squared_gradient if self.squared_gradient > 0 else float("inf")

    @property
    def standard_error(self) -> float:
        """Standard error of the variance itself, for normal errors in a single direction: the worst case."""
        return self.variance * (2 / (self.repeats - 1)) ** 0.5


def gradient_noise(
    graph: Graph,
    bits: BitPolicy,
    model: ModelSettings,
    *,
    workers: int = 2,
    repeats: int = 32,
    weights: Tensor | None = None,
    system: System | None = None,
    noise: str = "receiver",
    codec: Codec | ByDirection | None = None,
    seed: int = 0,
    hosts: int = 1,
) -> GradientNoise:
    """Measure the variance of a gradient over the noise of messages, at fixed weights and without dropout.

    Args:
        graph: the whole graph.
        bits: bit policy; its bit-widths of epoch 0 are used in all passes.
        model: its dropout is switched off.
        workers: number of partitions, threads of this process.
        repeats: number of passes with independent noise, at least 2.
        weights: flat; by default initialized from ``seed``.
        system: its partitioner and exchange are used; METIS and halo rows by default.
        noise: ``receiver`` or ``node``, as in :class:`gnnqlab.message.codecs.codec.Stochastic`.
        codec: one for both directions, or one per direction; by default ``Stochastic`` with this noise.
        seed: of weights and noise.
        hosts: number of hosts with equally many workers, for the partitioner and the exchange.

    Raises:
        ValueError: if ``repeats`` is below 2.

    Example:
        >>> from gnnqlab.bits import Fixed
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> recipe = replace(make_system("vanilla"), partition=Random())
        >>> shape, graph = ModelSettings(layers=2, hidden=8), load("sbm:60,3,6")
        >>> coarse, fine = (gradient_noise(graph, Fixed(bits=b), shape, system=recipe, repeats=6) for b in (2, 8))
        >>> coarse.variance > 100 * fine.variance
        True
    """
    if repeats < 2:
        raise ValueError(f"repeats must be at least 2 to have a variance, got {repeats}")
    recipe = (system or make_system("vanilla")).on_hosts(hosts)
    message_codec: Any = Stochastic(noise=noise) if codec is None else codec
    threads = ThreadedWorkers(
        graph,
        cut_graph(graph, recipe.partition, workers),
        replace(recipe, codec=message_codec),
        replace(model, dropout=0.0, input_dropout=0.0),
        TrainSettings(seed=seed),
        bits=FrozenBits(bits),
    )
    if weights is not None:
        threads.set_weights(weights)
    # (n,) float64: the mean is subtracted from gradients that hardly differ from it.
    mean = torch.zeros_like(threads.trainers[0].parameters.values, dtype=torch.float64)
    squares = 0.0
    for epoch in range(repeats):
        # Welford's algorithm: one pass, without storing the gradients.
        gradient = threads.gradients(epoch)[1].double()
        distance = gradient - mean  # (parameters,), float64
        mean += distance / (epoch + 1)
        squares += float((distance * (gradient - mean)).sum())
    variance = squares / (repeats - 1)
    # E||mean||^2 = ||E g||^2 + variance / R; the difference can be negative by chance.
    return GradientNoise(variance, max(0.0, float(mean.square().sum()) - variance / repeats), repeats)


def trained_weights(graph: Graph, model: ModelSettings, epochs: int, *, seed: int = 0) -> Tensor:
    """Return flat weights after some epochs of exact training in this process."""
    trainer = exact_trainer(graph, model, seed=seed)
    for epoch in range(epochs):
        trainer.epoch(epoch)
    return trainer.parameters.values.clone()
