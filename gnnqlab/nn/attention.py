"""The layer of GAT: neighbours weighed by attention, head by head."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gnnqlab.nn.edge_rows import attend_edges, edge_features
from gnnqlab.nn.layers import glorot
from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.sparse_input import SparseInput

__all__ = ["AttentionConvolution"]


class AttentionConvolution(nn.Module):
    """GAT layer (Velickovic et al., 2018): ``y_v = sum over u of softmax_u(leaky(<a_t, z_v> + <a_s, z_u>)) z_u + b``.

    With ``z = X W``. Heads stand side by side in hidden layers; the output layer takes their mean. Agrees with
    ``dgl.nn.GATConv`` with one ``W`` for both ends (``a_source`` is its ``attn_l``, ``a_target`` its ``attn_r``).

    Where edges have features, ``y_v = sum over u of softmax_u(leaky(<a_t, z_v> + <a_s, z_u> + <a_e, e_uv W_e>)) z_u +
    b`` head by head, as PyTorch Geometric's ``GATConv(edge_dim=F)`` has it (but for the self loops that it adds: those
    of the graph have zeros here, the mean of a node's edges there). ``dgl.nn.EdgeGATConv`` has the same attention, and
    sums ``z_u + e_uv W_e`` with it. As ``<a_e, e W_e>`` is linear in e, nothing here is ``(E, K F)`` wide.

    Differs: attention itself is never dropped; rows always travel projected, so they travel with their owner's dropout
    mask inside, under a schedule of older rows with that of the epoch they are from.
    """

    projects_first = True
    slope = 0.2
    """Of the leaky rectifier."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        heads: int,
        mean: bool,
        generator: torch.Generator,
        edge_features: int = 0,
    ) -> None:
        """Draw the weights.

        Args:
            out_features: width of the result.
            mean: whether heads are averaged, and so ``out_features`` wide each; else they share it out.
            generator: source of the weights: Glorot with gain sqrt(2).
            edge_features: F, of each edge.
        """
        super().__init__()
        self.heads, self.mean = heads, mean
        per_head = out_features if mean else out_features // heads
        self.weight = nn.Parameter(glorot(in_features, heads * per_head, generator, gain=math.sqrt(2)))
        self.a_source = nn.Parameter(glorot(heads, per_head, generator, gain=math.sqrt(2)))
        self.a_target = nn.Parameter(glorot(heads, per_head, generator, gain=math.sqrt(2)))
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.weight_edge = self.a_edge = None
        if edge_features:
            shape = edge_features, heads * per_head
            self.weight_edge = nn.Parameter(glorot(*shape, generator, gain=math.sqrt(2)))
            self.a_edge = nn.Parameter(glorot(heads, per_head, generator, gain=math.sqrt(2)))

    def forward(self, g: GraphPass, x: Tensor | SparseInput, *, dropout: float = 0.0, exact: bool = False) -> Tensor:
        z = g.linear(g.dropout(x, dropout), self.weight, exact=exact).unflatten(1, self.a_source.shape)
        if self.weight_edge is None or self.a_edge is None:
            y = g.attend(z, self.a_source, self.a_target, slope=self.slope, exact=exact)
        else:
            per_feature = (self.weight_edge.unflatten(1, self.a_edge.shape) * self.a_edge).sum(-1)
            of_edges = edge_features(g) @ per_feature
            y = attend_edges(g, z, self.a_source, self.a_target, of_edges, slope=self.slope)
        return g.rowwise(lambda y, bias: (y.mean(1) if self.mean else y.flatten(1)) + bias, y, self.bias)
