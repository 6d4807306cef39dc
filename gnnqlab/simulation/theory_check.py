"""Comparison of AdaQP's Theorem 3 with measured gradients: repeated passes at fixed weights, with different noise.

Letters: R repeats, V nodes, L graph layers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnqlab.bits.policy import BitPolicy
from gnnqlab.bits.variance import min_max
from gnnqlab.graph.graph import Graph
from gnnqlab.message.direction import of_direction
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.cut import cut_name
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.gradient_trace import LayerMeans, traced_workers
from gnnqlab.simulation.threaded_workers import FrozenBits, exact_trainer
from gnnqlab.simulation.weight_terms import Place, WeightTerms, weight_terms
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.systems.unbiased import require_unbiased
from gnnqlab.theory.variance import AVERAGE, WORST
from gnnqlab.train.config.run_config import TrainSettings

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["gradient_variance"]

_ANY = 64
"""Number of columns for which variance formulae are compared; any would do."""
_TRACED_PASSES = 16
"""Passes whose rows and gradients are recorded; their means change little after that."""


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
    hosts: int = 1,
    **settings: Any,
) -> DataFrame:
    """Measure the gradient variance of every weight matrix and compare it with the bound of AdaQP Theorem 3.

    Args:
        graph: the whole graph.
        system: codec, bits and partitioner are taken from it.
        model: ``gcn`` or ``graphsage``, or settings of one; dropout is switched off.
        workers: number of partitions.
        repeats: R, number of passes with independent noise, at least 2.
        weights: flat weights; by default initialized from ``seed``.
        bits: bit policy instead of the system's own; its bit-widths of epoch 0 are used in all passes.
        seed: of weights and noise.
        only: quantize only these ``(direction, layer)``, for instance ``{("backward", 1)}``.
        smooth: replace ReLU by GELU.
        hosts: number of hosts with equally many workers, for the partitioner and the exchange.
        **settings: of the system's recipe, for instance ``bits=4``.

    Returns:
        One row per weight matrix, and a last one, ``all``, for all of them together (Theorem 2's Q² is the sum of
        Theorem 3's Q^l). Variances are in squared units of the gradient:

        * ``measured``: variance over the repeats, with every message quantized; ``ratio``: measured / bound;
        * ``own``: the same with only those messages quantized that the theorem counts for this matrix;
        * ``bound``: Theorem 3, with the product term as derived; ``printed``: with that term as the paper prints it;
          ``worst``: with ``D S^2 / 4`` in place of ``D S^2 / 6``; ``shared``: ``worst``, with rows that share a
          message not counted as independent (`gnnqlab.theory.variance.shared_variance`);
        * ``bias``: distance of the mean gradient from the exact one, ``standard_error`` of that mean, and ``norm`` of
          the exact gradient. Without bias the distance is about one standard error.

        The theorem does not cover activations. With ``smooth`` the sums agree with it: they are below the bound, fall
        with ``(2^b - 1)^2``, and show no bias from 2 bits on. ReLU has a kink: noise flips the derivative of a share
        of elements that grows with S, each by a fixed amount. That part of the variance falls only with S, so at 4 to
        8 bits ``measured`` exceeds the bound, and so may ``own`` if messages enter before a ReLU.

    Raises:
        ValueError: if ``repeats`` is below 2, or the theorem does not cover the model, the cut or the messages: biased
            ones (:mod:`gnnqlab.systems.unbiased`), or codes with another variance than ``D S^2 / 6``.
    """
    import pandas as pd

    if repeats < 2:
        raise ValueError(f"repeats must be at least 2 to have a variance, got {repeats}")
    shape = ModelSettings(name=model) if isinstance(model, str) else model
    passes = _Passes(graph, make_system(system, **settings).on_hosts(hosts), shape, workers, seed, smooth, bits)
    if weights is not None:
        passes.set_weights(weights)
    exact_gradient = passes.exact_gradient()  # (n,)
    full_sample = passes.repeat(repeats, only)  # (R, n), all messages of `only` quantized
    samples: dict[frozenset[Place], _Sample] = {}
    rows: list[dict[str, Any]] = []
    terms, noise = passes.terms(), passes.noise()
    for weight in terms:
        messages = weight.messages if only is None else weight.messages & set(only)
        # Weights with the same messages share a sample: every sample takes R passes.
        if messages not in samples:
            samples[messages] = passes.repeat(repeats, messages)
        rows.append(
            {
                "layer": weight.layer,
                "weight": weight.name,
                **full_sample.figures(weight.span, exact_gradient),
                "own": samples[messages].variance(weight.span),
                "bound": weight.bound(noise, AVERAGE).total,
                "printed": weight.bound(noise, AVERAGE, as_printed=True).total,
                "worst": weight.bound(noise, WORST).total,
                "shared": passes.shared_bound(weight, noise),
            }
        )
    # Weight matrices only: the theorem does not cover biases and norms.
    matrices = torch.cat([weight.span for weight in terms])
    sums = {name: sum(float(row[name]) for row in rows) for name in ("own", "bound", "printed", "worst", "shared")}
    rows.append({"layer": -1, "weight": "all", **full_sample.figures(matrices, exact_gradient), **sums})
    frame = pd.DataFrame(rows)
    frame.insert(4, "ratio", frame["measured"] / frame["bound"].where(frame["bound"] > 0))
    return frame


@dataclass(frozen=True, eq=False)
class _Sample:
    """Gradients of repeated passes ``(R, parameters)``."""

    gradients: Tensor

    def variance(self, span: Tensor) -> float:
        return float(self.gradients[:, span].double().var(0).sum())  # (R, span) -> (span,) -> ()

    def figures(self, span: Tensor, exact_gradient: Tensor) -> dict[str, float]:
        variance = self.variance(span)
        return {
            "measured": variance,
            "bias": float((self.gradients[:, span].mean(0) - exact_gradient[span]).norm()),
            "standard_error": (variance / len(self.gradients)) ** 0.5,
            "norm": float(exact_gradient[span].norm()),
        }


def _expect_min_max_codes(system: System) -> None:
    """Refuse codecs with another variance formula than that of the bound; a codec without a formula passes."""
    for direction in ("forward", "backward"):
        codec: Any = of_direction(system.codec, direction)
        if (codec.row_variance(_ANY) or min_max(_ANY)) != min_max(_ANY):
            raise ValueError(
                "Theorem 3's bound needs codes between a row's minimum and maximum, whose variance is D S^2 / 6 (AdaQP "
                f"Theorem 1), got codec {type(codec).__name__} with another variance; choose codec Stochastic(), "
                "measure without a bound by gnnqlab.simulation.gradient_noise, or use the forecast of gq.probe"
            )


class _Passes:
    """Repeated passes of one system at fixed weights, and means of each layer's factors over them."""

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
        if (cuts := system.partition.cuts) != "nodes":
            raise ValueError(f"Theorem 3 needs an edge-cut, got {cut_name(cuts)}; choose METIS()")
        require_unbiased(system, "Theorem 3's bound", bits)
        _expect_min_max_codes(system)
        self._bits = system.bits if bits is None else bits
        self._graph, self._system, self._smooth = graph, system, smooth
        self._model = replace(model, dropout=0.0, input_dropout=0.0)
        self._settings = TrainSettings(seed=seed)
        self._cut = cut_graph(graph, system.partition, workers)
        self._exact = exact_trainer(graph, self._model, seed=seed, smooth=smooth)
        self._layers: list[LayerMeans] = []

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
        """Return the gradients of passes with different noise; the first call also records the layers."""
        bits = FrozenBits(self._bits, only=only)
        worker_arguments = self._graph, self._cut, self._system, self._model, self._settings
        # New workers for each sample, because their bit policy is fixed when they are built.
        workers, traces = traced_workers(*worker_arguments, bits=bits, smooth=self._smooth)
        workers.set_weights(self._exact.parameters.values)
        record = not self._layers
        if record:
            convolutions: Any = self._exact.model.convolutions
            noise = of_direction(self._system.codec, "forward").noise
            self._layers = [LayerMeans(index, noise=noise) for index in range(len(convolutions))]
        gradients = []
        for epoch in range(repeats):
            gradients.append(workers.gradients(epoch)[1].clone())
            # The factors of the bound are means over these passes.
            if record and epoch < _TRACED_PASSES:
                for layer in self._layers:
                    layer.add(traces, bits)
        return _Sample(torch.stack(gradients))  # (R, parameters)

    def terms(self) -> list[WeightTerms]:
        """Return Theorem 3's symbols of every weight, from the recorded passes."""
        return weight_terms(self._exact.model, self._layers, self._exact.graph.adjacency)

    def noise(self) -> dict[Place, Tensor]:
        """Return the noise that each node receives, in units of the constant c of ``c D S^2``."""
        names = {"forward": "rows_noise", "backward": "gradients_noise"}
        return {
            (direction, layer.layer): layer.mean(name) for layer in self._layers for direction, name in names.items()
        }

    def shared_bound(self, terms: WeightTerms, noise: dict[Place, Tensor]) -> float:
        """Return the worst-case bound without assuming that rows with a common message are independent."""
        bound = terms.bound(noise, WORST)
        # The term of independent rows is replaced: rows with a common message have one noise, which adds up.
        shared_noise = 0.0 if terms.rows is None else float(self._layers[terms.rows].mean("shared"))
        return bound.product + bound.from_gradients + terms.largest_gradient**2 * WORST * shared_noise
