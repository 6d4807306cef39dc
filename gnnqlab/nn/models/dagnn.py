"""DAGNN (Liu et al., 2020): transform first, then propagate K hops with a gate per node and hop."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnnqlab.nn.layers import Projection
from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.models.registry import ACTIVATED, ModelSettings, register_model
from gnnqlab.nn.sparse_input import SparseInput

__all__ = ["DAGNN", "dagnn"]


@register_model(norms=("none",), activations=ACTIVATED)
def dagnn(settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> nn.Module:
    """DAGNN: a two-layer perceptron, then aggregations without weights, whose results are gated per node."""
    return DAGNN(settings, in_features, num_classes, seed)


class DAGNN(nn.Module):
    """``Z = MLP(X)``, ``H_k = P^k Z``, ``out = sum over k = 0..K of sigmoid(<H_k, w> + c) H_k``; K is ``layers``.

    Every exchange has one column per class. The gate has a bias, as in the authors' code.
    """

    takes_sparse_input = True

    def __init__(self, settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.first = Projection(in_features, settings.hidden, generator=generator)
        self.second = Projection(settings.hidden, num_classes, generator=generator)
        self.gate = Projection(num_classes, 1, generator=generator)
        self.hops, self.activation = settings.layers, settings.activation or "relu"
        self.dropout, self.input_dropout = settings.dropout, settings.input_dropout

    def forward(self, g: GraphPass, x: Tensor | SparseInput) -> Tensor:
        y = self.first(g, g.dropout(x, self.input_dropout))  # (N, D) -> (N, hidden)
        # Z has a column per class (N, C), and so has every row that is sent.
        h: Tensor = self.second(
            g, g.activate(y, activation=self.activation, dropout=self.dropout, aggregated_next=False)
        )
        out = g.rowwise(_gated, self.gate(g, h), h)  # k = 0
        for _ in range(self.hops):
            h = g.aggregate(h, alpha="symmetric")  # P^k Z
            out = g.rowwise(_and_gated, out, self.gate(g, h), h)
        return out


def _gated(gate: Tensor, h: Tensor) -> Tensor:
    return torch.sigmoid(gate) * h  # (N, 1), (N, C) -> (N, C)


def _and_gated(out: Tensor, gate: Tensor, h: Tensor) -> Tensor:
    return out + torch.sigmoid(gate) * h
