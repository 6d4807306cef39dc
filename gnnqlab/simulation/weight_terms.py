"""Theorem 3's symbols for every weight matrix of a model: the messages in its gradient, and factors of their noise.

The theorem is about ``dW = Σ_v b_v a_v^T`` of one layer. For each weight this module determines the rows a_v, the
gradients b_v, and the factors between the noise of messages and theirs. The noise itself is an argument, so that other
bit-widths need no further pass.

Letters: V nodes of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gnnqlab.kernels.sparse.aggregate import Adjacency, spmm
from gnnqlab.simulation.gradient_trace import LayerMeans
from gnnqlab.theory.variance import GradientBound, gradient_variance_bound

__all__ = ["Place", "WeightTerms", "weight_terms"]

Place = tuple[str, int]
"""(direction, layer) of messages."""


@dataclass(frozen=True, eq=False)
class WeightTerms:
    """Terms of one weight matrix: ``A_v`` is the noise of forward rows, ``B_v`` of backward ones times a factor."""

    layer: int
    name: str
    span: Tensor
    """Indices of its elements in the flat parameters."""
    rows: int | None
    """Layer whose forward messages give ``A_v``; ``None`` if only local rows are multiplied by W."""
    gradients: tuple[tuple[int, Tensor], ...]
    """Layers whose backward messages give ``B_v``, with the factor of each node's noise: ``()`` or ``(V,)``."""
    largest_row: float
    """M of Assumption 2."""
    largest_gradient: float
    """N."""

    @property
    def messages(self) -> frozenset[Place]:
        """Messages whose noise enters the gradient."""
        forward_places = [] if self.rows is None else [("forward", self.rows)]
        return frozenset([*forward_places, *(("backward", layer) for layer, _ in self.gradients)])

    def noises(self, noise: Mapping[Place, Tensor]) -> tuple[Tensor, Tensor]:
        """Return ``A_v`` and ``B_v``, in the unit of ``noise``, float64 ``(V,)``."""
        zeros = torch.zeros_like(next(iter(noise.values())))  # (V,) float64
        gradients = sum((noise["backward", layer] * factor for layer, factor in self.gradients), zeros)
        return zeros if self.rows is None else noise["forward", self.rows], gradients

    def bound(self, noise: Mapping[Place, Tensor], constant: float, *, as_printed: bool = False) -> GradientBound:
        """Return Theorem 3's bound.

        Args:
            noise: (direction, layer) -> ``Σ_k α^2 D S^2`` of the messages that each node receives, ``(V,)``.
            constant: ``AVERAGE`` or ``WORST``.
            as_printed: see :func:`gnnqlab.theory.variance.gradient_variance_bound`.
        """
        rows, gradients = self.noises(noise)
        return gradient_variance_bound(
            constant * rows,
            constant * gradients,
            largest_row=self.largest_row,
            largest_gradient=self.largest_gradient,
            as_printed=as_printed,
        )


def weight_terms(model: nn.Module, layers: Sequence[LayerMeans], adjacency: Any) -> list[WeightTerms]:
    """Return the terms of every weight matrix of a stack of convolutions, in the order of its flat parameters.

    Args:
        model: a stack of convolutions, of any one worker.
        layers: factors of each layer, by node of the whole graph.
        adjacency: ``kind of α -> Adjacency`` of the whole graph.
    """
    terms, offset = [], 0
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        if parts[0] == "convolutions" and parts[-1].startswith("weight"):
            span = torch.arange(offset, offset + parameter.numel())  # indices of W in the flat parameters
            terms.append(_terms(model, layers, adjacency, int(parts[1]), parts[-1], span))
        offset += parameter.numel()  # biases and norms as well
    return terms


def _terms(
    model: Any, layers: Sequence[LayerMeans], adjacency: Any, index: int, name: str, span: Tensor
) -> WeightTerms:
    layer = layers[index]
    noise = _output_gradient_noise(model, layers, index)
    if name == "weight_self":
        return WeightTerms(index, name, span, None, noise, layer.largest("input"), layer.largest("output_gradient"))
    if not model.convolutions[index].projects_first:
        return WeightTerms(index, name, span, index, noise, layer.largest("sums"), layer.largest("output_gradient"))
    # Y = A (X W), so dW = X^T (A^T dY) = (A X)^T dY: noise of this layer's backward messages is multiplied by X, noise
    # in dY by A X. The bound has one row norm M, that of X, so noise in dY gets the ratio of both norms as a factor.
    x = layer.mean("input").float()  # (V, D)
    largest_x = layer.largest("input")
    matrix: Adjacency = adjacency(layer.alpha)
    largest_sum = spmm(matrix, x).norm(dim=1).max()  # max_v ||(A X)_v||
    stretch = float(largest_sum) / largest_x if largest_x else 0.0
    # This layer's own messages enter A^T dY with factor 1.
    own_messages = (index, torch.ones((), dtype=torch.float64))
    # Squared, because noises are variances.
    next_layers = tuple((next_layer, factor * stretch**2) for next_layer, factor in noise)
    return WeightTerms(index, name, span, None, (own_messages, *next_layers), largest_x, layer.largest("rows_gradient"))


def _output_gradient_noise(model: Any, layers: Sequence[LayerMeans], index: int) -> tuple[tuple[int, Tensor], ...]:
    """Return the noise in the gradient of a layer's output: the next layer's backward messages, with their factors.

    ReLU does not increase the norm of a gradient. LayerNorm does by at most ``max |γ| / standard deviation of a row``,
    a next layer that projects first by at most the largest singular value of its matrix.
    """
    if index + 1 == len(layers):
        return ()
    factor = torch.ones((), dtype=torch.float64)
    layer = model.convolutions[index + 1]
    if layer.projects_first:
        matrix = layer.weight_neighbour if hasattr(layer, "weight_neighbour") else layer.weight
        factor = factor * float(torch.linalg.matrix_norm(matrix.detach(), 2)) ** 2  # σ_max squared
    norms = getattr(model, "norms", None)
    if norms is not None:
        norm = norms[index]
        # (V,): variance of each row plus ε, as LayerNorm computes it.
        spread = layers[index].mean("output").var(1, correction=0) + norm.eps
        factor = factor * float(norm.weight.detach().abs().max()) ** 2 / spread  # (V,)
    return ((index + 1, factor),)
