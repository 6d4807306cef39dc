"""Theorem 3 of AdaQP held against measured gradients: repeated passes at fixed weights, only the noise changes.

Letters: R repeats, V nodes, L graph layers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gnnqlab.bits.policy import BitPolicy
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.aggregate import spmm
from gnnqlab.measure.gradient_trace import LayerMeans, TracedGraph, watch
from gnnqlab.measure.in_process import FrozenBits, ThreadedWorkers, exact_trainer
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.systems.system import System, make_system
from gnnqlab.theory.variance import AVERAGE, WORST, GradientBound, gradient_variance_bound
from gnnqlab.train.config import RunConfig, TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.launch.run import Run

__all__ = ["check", "gradient_variance"]

_LOOKS = 16
"""Passes whose rows and gradients are looked at; their means change little after that."""


def check(
    run: Run | RunConfig, *, repeats: int = 64, weights: Tensor | None = None, bits: BitPolicy | None = None
) -> DataFrame:
    """Measure the gradient variance of a run's system on its graph and set it beside Theorem 3's bound.

    The run's graph, partitioner, system, model and seed are used; the workers are threads of this process and dropout
    is off, since its masks would change with the noise.

    Args:
        run: a run, or its configuration.
        repeats: backward passes, at least 2.
        weights: flat weights to measure at; by default the run's first ones, drawn from its seed.
        bits: instead of the system's own policy, for instance widths that an assigner found.

    Returns:
        What `gradient_variance` returns.

    Raises:
        ValueError: if the run keeps layer-0 rows, or its model is none that the theorem speaks of.
    """
    from gnnqlab.graph.sources import load

    config = run if isinstance(run, RunConfig) else run.config
    if config.train.layer0 == "once":
        raise ValueError(
            "the check sends the rows of layer 0 in every pass, this run sent them once; use a configuration with "
            "layer0 'resend'"
        )
    return gradient_variance(
        load(config.graph),
        config.system,
        config.model,
        workers=config.workers,
        repeats=repeats,
        weights=weights,
        bits=bits,
        seed=config.train.seed,
    )


def gradient_variance(
    graph: Graph,
    system: str | System = "fixed-bits",
    model: str | ModelSettings = "gcn",
    *,
    workers: int = 2,
    repeats: int = 64,
    weights: Tensor | None = None,
    bits: BitPolicy | None = None,
    seed: int = 0,
    only: Collection[tuple[str, int]] | None = None,
    smooth: bool = False,
    **settings: Any,
) -> DataFrame:
    """Return, for every weight matrix, measured gradient variance beside the bound of AdaQP Theorem 3.

    Args:
        graph: the whole graph.
        system: codec, bits and partitioner are taken from it.
        model: ``gcn`` or ``graphsage``, or settings of one; dropout is switched off.
        workers: number of partitions.
        repeats: R, passes with independent noise, at least 2.
        weights: flat weights; by default those drawn from ``seed``.
        bits: instead of the system's own policy; asked for the widths of epoch 0, which then stay.
        seed: of weights and noise.
        only: quantize just these ``(direction, layer)``, for instance ``{("backward", 1)}``.
        smooth: put GELU in the place of ReLU.
        **settings: what the system's recipe takes, for instance ``bits=4``.

    Returns:
        One row per weight matrix, and a last one, ``all``, for all of them together (Theorem 2's Q² is the sum of
        Theorem 3's Q^l). Variances are in squared units of the gradient:

        * ``measured``: variance over the repeats, every message quantized; ``ratio``: measured / bound;
        * ``own``: the same when only the messages are quantized that the theorem counts for this matrix;
        * ``bound``: Theorem 3, the product term as derived; ``printed``: that term as the paper prints it;
          ``worst``: with ``D S^2 / 4`` in the place of ``D S^2 / 6``; ``shared``: ``worst``, and rows that share a
          message no longer counted as independent (`gnnqlab.theory.variance.shared_variance`);
        * ``bias``: distance of the mean gradient from the exact one, ``standard_error`` of that mean, and ``norm`` of
          the exact gradient. Without bias the distance is about one standard error.

        The theorem leaves activations out. With ``smooth`` the sums behave as it says: they lie under the bound, fall
        with ``(2^b - 1)^2``, and show no bias from 2 bits on. ReLU has a kink: noise flips the derivative of a share
        of elements that grows with S, each by a fixed amount. That part of the variance falls with S only, so at 4 to
        8 bits ``measured`` passes the bound, and ``own`` may where messages enter ahead of a ReLU.

    Raises:
        ValueError: if ``repeats`` is below 2, or the model is none that the theorem speaks of.
    """
    import pandas as pd

    if repeats < 2:
        raise ValueError(f"repeats must be at least 2 to have a variance, got {repeats}")
    shape = ModelSettings(name=model) if isinstance(model, str) else model
    passes = _Passes(graph, make_system(system, **settings), shape, workers, seed, smooth, bits)
    if weights is not None:
        passes.set_weights(weights)
    exact = passes.exact_gradient()
    everything = passes.repeat(repeats, only)
    samples: dict[frozenset[tuple[str, int]], _Sample] = {}
    rows: list[dict[str, Any]] = []
    for weight in passes.weights:
        factors = passes.terms(weight)
        chosen = frozenset(factors.messages if only is None else factors.messages & set(only))
        if chosen not in samples:
            samples[chosen] = passes.repeat(repeats, chosen)
        bound = factors.bound(AVERAGE).total
        printed, worst = factors.bound(AVERAGE, as_printed=True).total, factors.bound(WORST).total
        rows.append(
            {
                "layer": weight.layer,
                "weight": weight.name,
                **everything.figures(weight.span, exact),
                "own": samples[chosen].variance(weight.span),
                "bound": bound,
                "printed": printed,
                "worst": worst,
                "shared": factors.shared_bound(),
            }
        )
    matrices = torch.cat([weight.span for weight in passes.weights])
    sums = {name: sum(float(row[name]) for row in rows) for name in ("own", "bound", "printed", "worst", "shared")}
    rows.append({"layer": -1, "weight": "all", **everything.figures(matrices, exact), **sums})
    frame = pd.DataFrame(rows)
    frame.insert(4, "ratio", frame["measured"] / frame["bound"].where(frame["bound"] > 0))
    return frame


@dataclass(frozen=True, eq=False)
class _Weight:
    """A weight matrix and where its elements stand among the flat parameters."""

    layer: int
    name: str
    span: Tensor


@dataclass(frozen=True, eq=False)
class _Sample:
    """Gradients of repeated passes ``(R, parameters)``."""

    gradients: Tensor

    def variance(self, span: Tensor) -> float:
        return float(self.gradients[:, span].double().var(0).sum())

    def figures(self, span: Tensor, exact: Tensor) -> dict[str, float]:
        variance = self.variance(span)
        return {
            "measured": variance,
            "bias": float((self.gradients[:, span].mean(0) - exact[span]).norm()),
            "standard_error": (variance / len(self.gradients)) ** 0.5,
            "norm": float(exact[span].norm()),
        }


@dataclass
class _Terms:
    """Theorem 3's symbols for one weight; noises are in units of the constant c of ``c D S^2``."""

    rows: Tensor
    """``A_v / c``, float64 ``(V,)``."""
    gradients: Tensor
    """``B_v / c``."""
    shared: float
    """``Σ_k (Σ_v α sd)^2 / c``, to which ``Σ_v A_v`` grows where rows share their messages."""
    largest_row: float
    largest_gradient: float
    messages: set[tuple[str, int]] = field(default_factory=set)
    """The (direction, layer) of the messages that enter."""

    def bound(self, constant: float, *, as_printed: bool = False) -> GradientBound:
        return gradient_variance_bound(
            constant * self.rows,
            constant * self.gradients,
            largest_row=self.largest_row,
            largest_gradient=self.largest_gradient,
            as_printed=as_printed,
        )

    def shared_bound(self) -> float:
        bound = self.bound(WORST)
        return bound.product + bound.from_gradients + self.largest_gradient**2 * WORST * self.shared


class _Passes:
    """Repeated passes of one system at fixed weights, and what they showed of each layer."""

    def __init__(
        self,
        graph: Graph,
        system: System,
        model: ModelSettings,
        workers: int,
        seed: int,
        smooth: bool,
        bits: BitPolicy | None,
    ) -> None:
        self._bits = system.bits if bits is None else bits
        self._graph, self._system, self._workers, self._smooth = graph, system, workers, smooth
        self._model = replace(model, dropout=0.0, input_dropout=0.0)
        self._settings = TrainSettings(seed=seed)
        self._owner = system.partition.assign(graph, workers)
        self._exact = exact_trainer(graph, self._model, seed=seed, smooth=smooth)
        self._layers: list[LayerMeans] = []
        self._convolutions: Any = self._exact.model.convolutions
        self.weights = _weights(self._exact.model)

    def set_weights(self, weights: Tensor) -> None:
        values = self._exact.parameters.values
        if weights.shape != values.shape:
            raise ValueError(
                f"weights must be flat, one for each of {values.numel()} parameters, got shape {tuple(weights.shape)}; "
                "take them from trainer.parameters.values"
            )
        values.copy_(weights)

    def exact_gradient(self) -> Tensor:
        self._exact.gradients(0)
        return self._exact.parameters.gradients.clone()

    def repeat(self, repeats: int, only: Collection[tuple[str, int]] | None) -> _Sample:
        """Return the gradients of passes that differ in their noise; the first call also looks at the layers."""
        bits = FrozenBits(self._bits, only=only)
        workers = ThreadedWorkers(
            self._graph,
            self._owner,
            self._system,
            self._model,
            self._settings,
            workers=self._workers,
            bits=bits,
            make_graph=TracedGraph,
            smooth=self._smooth,
        )
        workers.set_weights(self._exact.parameters.values)
        graphs = [trainer.graph for trainer in workers.trainers if isinstance(trainer.graph, TracedGraph)]
        for trainer, graph in zip(workers.trainers, graphs, strict=True):
            watch(trainer.model, graph)
        look = not self._layers
        if look:
            self._layers = [LayerMeans(index) for index in range(len(self._convolutions))]
        gradients = []
        for epoch in range(repeats):
            gradients.append(workers.gradients(epoch)[1].clone())
            if look and epoch < _LOOKS:
                for layer in self._layers:
                    layer.add(graphs, bits)
        return _Sample(torch.stack(gradients))

    def terms(self, weight: _Weight) -> _Terms:
        """Return Theorem 3's symbols for a weight, from the passes that were looked at."""
        layer = self._layers[weight.layer]
        noise, messages = self._output_gradient_noise(weight.layer)
        nothing = torch.zeros_like(noise)
        if weight.name == "weight_self":
            return _Terms(nothing, noise, 0.0, layer.largest("input"), layer.largest("output_gradient"), messages)
        if not self._convolutions[weight.layer].projects_first:
            return _Terms(
                layer.mean("rows_noise"),
                noise,
                float(layer.mean("shared")),
                layer.largest("sums"),
                layer.largest("output_gradient"),
                messages | {("forward", weight.layer)},
            )
        # Y = A (X W), so dW = X^T (A^T dY): this layer's backward messages meet X, and what noise dY has meets A X.
        given = layer.mean("input").float()
        largest = layer.largest("input")
        summed = spmm(self._exact.graph.adjacency(layer.alpha), given).norm(dim=1).max()
        stretch = float(summed) / largest if largest else 0.0
        noise = layer.mean("gradients_noise") + noise * stretch**2
        return _Terms(
            nothing, noise, 0.0, largest, layer.largest("rows_gradient"), messages | {("backward", weight.layer)}
        )

    def _output_gradient_noise(self, index: int) -> tuple[Tensor, set[tuple[str, int]]]:
        """Noise in the gradient of a layer's output: the next layer's backward messages, through norm and activation.

        ReLU does not lengthen a gradient; LayerNorm does by at most ``max |γ| / standard deviation of the row``; a next
        layer that projects first by the largest singular value of its matrix.
        """
        if index + 1 == len(self._layers):
            return torch.zeros(self._graph.num_nodes, dtype=torch.float64), set()
        noise = self._layers[index + 1].mean("gradients_noise")
        following = self._convolutions[index + 1]
        if following.projects_first:
            matrix = following.weight_neighbour if hasattr(following, "weight_neighbour") else following.weight
            noise = noise * float(torch.linalg.matrix_norm(matrix.detach(), 2)) ** 2
        norms = getattr(self._exact.model, "norms", None)
        if norms is not None:
            norm = norms[index]
            spread = self._layers[index].mean("output").var(1, correction=0) + norm.eps
            noise = noise * float(norm.weight.detach().abs().max()) ** 2 / spread
        return noise, {("backward", index + 1)}


def _weights(model: nn.Module) -> list[_Weight]:
    """The weight matrices of a stack of convolutions, in the order of its flat parameters."""
    found, offset = [], 0
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        if parts[0] == "convolutions" and parts[-1].startswith("weight"):
            span = torch.arange(offset, offset + parameter.numel())
            found.append(_Weight(int(parts[1]), parts[-1], span))
        offset += parameter.numel()
    return found
