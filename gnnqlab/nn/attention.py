"""GAT layer: multi-head attention over neighbours."""

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

    With ``z = X W``. Heads are concatenated in hidden layers and averaged in the output layer. Agrees with
    ``dgl.nn.GATConv`` with one ``W`` for both ends (``a_source`` is its ``attn_l``, ``a_target`` its ``attn_r``).

    With edge features, ``y_v = sum over u of softmax_u(leaky(<a_t, z_v> + <a_s, z_u> + <a_e, e_uv W_e>)) z_u + b`` per
    head, as in PyTorch Geometric's ``GATConv(edge_dim=F)`` (except for added self loops: their features are zeros here,
    the mean of the node's edges there). ``dgl.nn.EdgeGATConv`` has the same attention, but also adds ``e_uv W_e`` to
    the values that it averages. As ``<a_e, e W_e>`` is linear in e, no tensor of shape ``(E, K F)`` is built.

    Differs: attention coefficients are never dropped, and rows are always sent after projection. So
    their owner has applied dropout already, and a stale row keeps the dropout mask of its own epoch.
    """

    projects_first = True
    slope = 0.2
    """Negative slope of the leaky ReLU."""

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
        """Initialize the weights.

        Args:
            in_features: number of input features per node.
            out_features: number of output features per node.
            heads: number of heads K.
            mean: True to average heads of ``out_features`` each; False to concatenate heads of ``out_features / K``.
            generator: random generator of the weights: Glorot with gain sqrt(2).
            edge_features: number of features per edge, F.
        """
        super().__init__()
        self.heads, self.mean = heads, mean
        head_features = out_features if mean else out_features // heads
        self.weight = nn.Parameter(glorot(in_features, heads * head_features, generator, gain=math.sqrt(2)))
        self.a_source = nn.Parameter(glorot(heads, head_features, generator, gain=math.sqrt(2)))  # (K, D), D per head
        self.a_target = nn.Parameter(glorot(heads, head_features, generator, gain=math.sqrt(2)))
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.weight_edge = self.a_edge = None
        if edge_features:
            shape = edge_features, heads * head_features
            self.weight_edge = nn.Parameter(glorot(*shape, generator, gain=math.sqrt(2)))  # (F, K D)
            self.a_edge = nn.Parameter(glorot(heads, head_features, generator, gain=math.sqrt(2)))  # (K, D)

    def forward(self, g: GraphPass, x: Tensor | SparseInput, *, dropout: float = 0.0, exact: bool = False) -> Tensor:
        """Compute the layer's output, float32 ``(N, O)``; arguments as for ``GraphConvolution.forward``."""
        # (N, in) -> (N, K D) -> (N, K, D): projected first, so rows of the output dimension are sent.
        z = g.linear(g.dropout(x, dropout), self.weight, exact=exact).unflatten(1, self.a_source.shape)
        if self.weight_edge is None or self.a_edge is None:
            y = g.attend(z, self.a_source, self.a_target, slope=self.slope, exact=exact)  # (N, K, D)
        else:
            # Fold W_e and a_e into one weight per feature and head before any product over edges.
            feature_weights = (self.weight_edge.unflatten(1, self.a_edge.shape) * self.a_edge).sum(-1)  # (F, K)
            edge_logits = edge_features(g) @ feature_weights  # (E, F) -> (E, K)
            y = attend_edges(g, z, self.a_source, self.a_target, edge_logits, slope=self.slope)
        # Heads (N, K, D) are averaged, -> (N, D), or concatenated, -> (N, K D).
        return g.rowwise(lambda y, bias: (y.mean(1) if self.mean else y.flatten(1)) + bias, y, self.bias)
