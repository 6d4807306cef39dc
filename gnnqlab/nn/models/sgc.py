"""SGC (Wu et al., 2019): a linear GCN, without activations between layers."""

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
    """SGC: K aggregations without weights or activations between two projections."""
    return SGC(settings, in_features, num_classes, seed)


class SGC(nn.Module):
    """``out = P^K (X W_1) W_2 + b``; K is ``layers``.

    Linear, so it equals ``dgl.nn.SGConv`` with ``Θ = W_1 W_2``. SYLVIE trains "8 x 256" and measures its exchange in
    every epoch, which the usual precomputation of ``P^K X`` would avoid; so rows are projected to ``hidden`` columns
    first and exchanged at every hop: K exchanges of ``hidden`` columns forward and K backward.

    The alternatives give identical logits without dropout, but are not implemented: ``P^K X`` computed once before
    training (K exchanges in all, of feature rows) leaves nothing to quantize in an epoch, and recomputed in each epoch
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
        h = g.linear(g.dropout(x, self.input_dropout), self.weight)  # (N, D) -> (N, hidden)
        for _ in range(self.hops):
            h = g.aggregate(h, alpha="symmetric")  # P^k X W_1
        logits: Tensor = self.last(g, g.dropout(h, self.dropout), exact=True)  # (N, C)
        return logits
