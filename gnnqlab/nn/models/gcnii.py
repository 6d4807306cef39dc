"""GCNII (Chen et al., 2020): a deep GCN with initial residual and identity mapping."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from gnnqlab.compute.products import to_float32
from gnnqlab.nn.layers import Projection
from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.models.registry import ACTIVATED, ModelSettings, register_model
from gnnqlab.nn.models.stack import norm_of
from gnnqlab.nn.sparse_input import SparseInput
from gnnqlab.settings import NO_OPTION, POSITIVE, Range

__all__ = ["GCNII", "GCNIISettings", "gcnii"]


@dataclass(frozen=True, kw_only=True)
class GCNIISettings(ModelSettings):
    """Settings of GCNII."""

    name: Annotated[str, NO_OPTION] = "gcnii"
    initial_share: Annotated[float, Range(0, 1)] = 0.1
    """α in [0, 1]: share of the initial embeddings H⁰ in every layer's input."""
    identity_decay: Annotated[float, POSITIVE] = 0.5
    """λ, positive: layer l mixes in its weights with θ = ln(λ/l + 1)."""


@register_model(norms=("none", "layer"), settings=GCNIISettings, stacked=True, activations=ACTIVATED)
def gcnii(settings: GCNIISettings, in_features: int, num_classes: int, seed: int) -> nn.Module:
    """GCNII: every layer adds a share of the initial embeddings and of the identity."""
    return GCNII(settings, in_features, num_classes, seed)


class GCNII(nn.Module):
    """``H^l = ReLU(((1 - α) P H^(l-1) + α H^0) ((1 - θ_l) I + θ_l W^l))``, ``θ_l = ln(λ/l + 1)``, l = 1..L.

    ``H^0 = ReLU(X W_0 + b_0)``, and the last layer is followed by a projection to the classes. Settings may replace
    ReLU, add LayerNorm before it, and apply dropout after it, to the input of each layer. Agrees with
    ``dgl.nn.GCN2Conv`` without bias; weights are initialized as in the authors' code, uniform within 1/sqrt(width).
    """

    takes_sparse_input = True
    """The first projection reads sparse features as they are."""

    def __init__(self, settings: GCNIISettings, in_features: int, num_classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        width = settings.hidden
        self.first = Projection(in_features, width, generator=generator)
        bound = 1 / math.sqrt(width)
        # One W^l per layer, (hidden, hidden).
        self.weights = nn.ParameterList(
            torch.empty(width, width).uniform_(-bound, bound, generator=generator) for _ in range(settings.layers)
        )
        self.last = Projection(width, num_classes, generator=generator)
        self.norms = None
        if settings.norm == "layer":
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(settings.layers))
        self.initial_share = settings.initial_share
        # θ falls with the depth: deep layers are closer to the identity.
        self.thetas = [math.log(settings.identity_decay / layer + 1) for layer in range(1, settings.layers + 1)]
        self.dropout, self.input_dropout = settings.dropout, settings.input_dropout
        self.activation = settings.activation or "relu"

    def forward(self, g: GraphPass, x: Tensor | SparseInput) -> Tensor:
        """Compute the logits ``(N, C)`` of input features ``(N, F)``; g runs the operations that use other nodes."""
        options: dict[str, Any] = {"activation": self.activation, "dropout": self.dropout}
        # Two results: H^0 without dropout, to which every layer returns, and the first layer's input with it.
        h0, h = g.activate_both(self.first(g, g.dropout(x, self.input_dropout)), **options)
        h0 = to_float32(h0)  # every layer adds to its gradient, which is accumulated in float32
        for index, (weight, theta) in enumerate(zip(self.weights, self.thetas, strict=True)):
            # One name for all intermediate rows, so that each assignment frees the rows before it.
            h = g.aggregate(h, alpha="symmetric", dropout=g.remaining_dropout(self.dropout))  # P H, symmetric P
            # (1 - α) P H + α H^0; h0 is returned unchanged, with a gradient that the layers accumulate in place.
            h, h0 = g.residual(h, h0, self.initial_share)
            h = g.affine(h, h, weight, beta=1 - theta, alpha=theta)  # H ((1 - θ) I + θ W)
            # If rows are aggregated next, their receivers may apply dropout; before the projection it is applied here.
            aggregated_next = index + 1 < len(self.weights)
            h = g.activate(h, norm_of(self.norms, index), aggregated_next=aggregated_next, **options)
        logits: Tensor = self.last(g, h, exact=True)  # (N, hidden) -> (N, C); logits in float32 products
        return logits
