"""Comparison of AdaQP's Theorem 2 with a real descent: plain gradient descent with quantized messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gnnqlab.graph.graph import Graph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import FrozenBits, ThreadedWorkers, exact_trainer
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.theory.convergence import Smoothness, convergence_bound, largest_step, smoothness
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import Trainer

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["ConvergenceCheck", "convergence", "curvature"]


@dataclass(frozen=True, eq=False)
class ConvergenceCheck:
    """A descent and the symbols of Theorem 2 measured along it."""

    frame: DataFrame
    """One row per epoch t: ``loss``; ``gradient_square``, ``||∇L(w_t)||^2`` of the exact gradient; ``mean_square``, its
    mean over 1 … t, which the theorem bounds; ``descent``, ``noise`` and ``bound``, the theorem's terms for T = t;
    ``noise_square``, ``||g̃ - g||^2`` of that epoch's draw."""
    step: float
    """α."""
    curvature: float
    """Largest L_2 measured on the way; a lower bound on the L_2 of Assumption 1."""
    variance: float
    """Q²: the largest noise_square."""

    @property
    def step_allowed(self) -> bool:
        """True if ``α < 2 / L_2`` at every measurement of L_2; if not, the bound is infinite."""
        return self.step < largest_step(self.curvature)


def curvature(trainer: Trainer, *, seed: int = 0) -> Smoothness:
    """Return L_2 of a one-process trainer's loss at its weights, without dropout."""
    graph = trainer.graph

    def loss() -> Tensor:
        # (N, F) -> (N, C) -> (), always of epoch 0: the Hessian must be that of one function.
        return trainer.objective.loss(trainer.model(graph.open_pass(0, training=True), graph.features))

    return smoothness(loss, trainer.model.parameters(), seed=seed, max_products=60, tolerance=1e-2)


def convergence(
    graph: Graph,
    system: str | System = "fixed-bits",
    model: str | ModelSettings = "gcn",
    *,
    workers: int = 2,
    epochs: int = 40,
    step: float | None = None,
    looks: int = 5,
    floor: float = 0.0,
    seed: int = 0,
    smooth: bool = False,
    hosts: int = 1,
    **settings: Any,
) -> ConvergenceCheck:
    """Descend with quantized messages and a fixed step, and compare the gradients with AdaQP Theorem 2.

    Differs: training uses Adam; the theorem, and so this descent, is plain ``w <- w - α g̃``.

    Args:
        graph: the whole graph.
        system: codec, bits, partitioner and exchange are taken from it.
        model: ``gcn``, ``graphsage`` or another model without dropout of its own; dropout is switched off.
        workers: number of partitions, as threads of this process.
        epochs: T.
        step: α; by default ``1 / (4 L_2)`` with L_2 at the first weights, because curvature grows during the descent.
        looks: number of measurements of L_2 on the way.
        floor: L*, a lower bound on the loss; 0 is one for every cross-entropy.
        seed: of weights and noise.
        smooth: replace ReLU by GELU, for which Assumption 1 (A.1) holds; with ReLU the loss has kinks.
        hosts: number of hosts with equally many workers, for the partitioner and the exchange.
        **settings: of the system's recipe.

    Raises:
        ValueError: if ``epochs``, ``looks`` or ``step`` is out of range.

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> recipe = replace(make_system("fixed-bits", bits=8), partition=Random())
        >>> found = convergence(load("sbm:60,3,6"), recipe, ModelSettings(layers=2, hidden=8), epochs=5)
        >>> bool((found.frame["mean_square"] <= found.frame["bound"]).all())
        True
    """
    import pandas as pd

    if epochs < 1 or looks < 1:
        raise ValueError(f"epochs and looks must be at least 1, got {epochs} and {looks}")
    if step is not None and not step > 0:
        raise ValueError(f"step must be positive, got {step}")
    recipe = make_system(system, **settings).on_hosts(hosts)
    shape = replace(ModelSettings(name=model) if isinstance(model, str) else model, dropout=0.0, input_dropout=0.0)
    trainer = exact_trainer(graph, shape, seed=seed, smooth=smooth)
    quantized_workers = ThreadedWorkers(
        graph,
        cut_graph(graph, recipe.partition, workers),
        recipe,
        shape,
        TrainSettings(seed=seed),
        bits=FrozenBits(recipe.bits),
        smooth=smooth,
    )
    weights = trainer.parameters.values
    largest_curvature, rows = 0.0, []
    for epoch in range(epochs):
        if epoch % max(1, epochs // looks) == 0:
            largest_curvature = max(largest_curvature, curvature(trainer, seed=seed).curvature)
            step = step or 0.25 / largest_curvature  # far below 2 / L_2, because L_2 grows during the descent
        loss = trainer.gradients(epoch)
        gradient = trainer.parameters.gradients.double()  # g, (n,) float64
        # Both gradients at the same weights; the descent follows the quantized one, as in the theorem.
        quantized_workers.set_weights(weights)
        _, noisy_gradient = quantized_workers.gradients(epoch)  # g̃, (n,)
        rows.append(
            {
                "epoch": epoch,
                "loss": loss,
                "gradient_square": float(gradient.square().sum()),
                "noise_square": float((noisy_gradient - gradient).square().sum()),
            }
        )
        assert step is not None
        weights -= step * noisy_gradient  # in place: the buffer of the exact trainer
    frame = pd.DataFrame(rows)
    frame["mean_square"] = frame["gradient_square"].expanding().mean()
    result = ConvergenceCheck(frame, float(step or 0.0), largest_curvature, float(frame["noise_square"].max()))
    gap = max(rows[0]["loss"] - floor, 0.0)  # L(w_1) - L*
    for column in ("descent", "noise"):
        frame[column] = [_term(result, gap, epoch + 1, column) for epoch in range(epochs)]
    frame["bound"] = frame["descent"] + frame["noise"]
    return result


def _term(result: ConvergenceCheck, gap: float, epochs: int, column: str) -> float:
    if not result.step_allowed:
        return float("inf")
    terms = convergence_bound(
        loss_gap=gap, epochs=epochs, step=result.step, curvature=result.curvature, variance=result.variance
    )
    return float(getattr(terms, column))
