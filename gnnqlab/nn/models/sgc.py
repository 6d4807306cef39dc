"""SGC (Wu et al., 2019): a GCN without anything between its layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnnqlab.nn.layers import Projection, glorot
from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.models.registry import ModelSettings, register_model
from gnnqlab.nn.sparse_input import SparseInput

__all__ = ["SGC", "sgc"]


@register_model(norms=("none",))
def sgc(settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> nn.Module:
    """SGC: hops without weights or nonlinearity between two projections."""
    return SGC(settings, in_features, num_classes, seed)


class SGC(nn.Module):
    """``out = P^K (X W_1) W_2 + b``; K is ``layers``.

    Linear, so it equals ``dgl.nn.SGConv`` with ``Θ = W_1 W_2``. SYLVIE trains "8 x 256" and measures its exchange in
    every epoch, which the usual way of taking ``P^K X`` beforehand would not have; so rows are projected to ``hidden``
    columns first and travel at every hop: K exchanges forward and K backward, ``hidden`` wide.

    Of the other ways, which give the same logits without dropout, none is here: ``P^K X`` taken once before training
    (K exchanges in all, as wide as the features) leaves nothing to quantize in an epoch, and taken anew in each epoch
    it sends wide rows that never change.
    """

    takes_sparse_input = True

    def __init__(self, settings: ModelSettings, in_features: int, num_classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(glorot(in_features, settings.hidden, generator))
        self.last = Projection(settings.hidden, num_classes, generator=generator)
        self.hops = settings.layers
        self.dropout, self.input_dropout = settings.dropout, settings.input_dropout

    def forward(self, g: GraphPass, x: Tensor | SparseInput) -> Tensor:
        h = g.linear(g.dropout(x, self.input_dropout), self.weight)
        for _ in range(self.hops):
            h = g.aggregate(h, alpha="symmetric")
        logits: Tensor = self.last(g, g.dropout(h, self.dropout), exact=True)
        return logits
