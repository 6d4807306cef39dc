"""Graph layers: aggregation and projection, in the cheaper order."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gnnqlab.nn.edge_rows import edge_means
from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.sparse_input import SparseInput

__all__ = ["GraphConvolution", "Projection", "SageConvolution", "glorot", "projects_first"]


def projects_first(in_features: int, out_features: int) -> bool:
    """Return True if a layer projects before it aggregates, which sends rows of the smaller dimension.

    The rule of ``dgl.nn``'s ``GraphConv`` and ``SAGEConv``, identical for every system.
    """
    return in_features > out_features


class GraphConvolution(nn.Module):
    """GCN layer (Kipf & Welling, 2017): ``P X W + b`` with ``P = D_in^-1/2 A D_out^-1/2``; A and D use edge weights.

    Agrees with ``dgl.nn.GraphConv(norm="both")``: Glorot-uniform ``W (in, out)``, ``b = 0``.
    """

    def __init__(self, in_features: int, out_features: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.projects_first = projects_first(in_features, out_features)
        self.weight = nn.Parameter(glorot(in_features, out_features, generator))
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, g: GraphPass, x: Tensor | SparseInput, *, dropout: float = 0.0, exact: bool = False) -> Tensor:
        """Compute the layer's output, float32 ``(N, O)``.

        Args:
            g: operations of this pass over the graph: aggregation, dropout, dense and row-wise products.
            x: input rows ``(N, D)``.
            dropout: probability of dropping an input element.
            exact: compute in float32 whatever precision the system has, as for logits.
        """
        # Rows are not projected first if receivers apply dropout, because dropout must precede the projection.
        if self.projects_first and not g.aggregates_before_projection(x, dropout):
            projected_rows = g.linear(g.dropout(x, dropout), self.weight, exact=exact)  # (N, D) -> (N, O)
            sums = g.aggregate(projected_rows, alpha="symmetric", exact=exact)  # (N, O)
            return g.rowwise(torch.add, sums, self.bias)  # through g: timed, and recomputed in backward if chosen
        # Aggregates first: rows (N, D) are sent.
        return g.convolve(_dense(x), self.weight, self.bias, alpha="symmetric", dropout=dropout, exact=exact)


class SageConvolution(nn.Module):
    """GraphSAGE-mean layer (Hamilton et al., 2017), full batch: ``X W_s + mean(X) W_n + b``, with edge weights if any.

    Agrees with ``dgl.nn.SAGEConv("mean")``: Glorot-uniform weights with gain sqrt(2), ``b = 0``.

    With edge features, ``mean over u of (x_u W_n + e_uv W_e)``: a message is linear in both, as if node and edge
    features were concatenated. So it equals ``mean(x_u) W_n + mean(e_uv) W_e``, whose second mean is constant and
    computed once (:func:`gnnqlab.nn.edge_rows.edge_means`): an epoch adds a float32 product of ``(N, F)`` and
    ``(F, O)``, but no work per edge and no communication. Sampling of boundary rows does not affect edge features.
    """

    def __init__(
        self, in_features: int, out_features: int, *, generator: torch.Generator, edge_features: int = 0
    ) -> None:
        super().__init__()
        self.projects_first = projects_first(in_features, out_features)
        self.weight_self = nn.Parameter(glorot(in_features, out_features, generator, gain=math.sqrt(2)))
        self.weight_neighbour = nn.Parameter(glorot(in_features, out_features, generator, gain=math.sqrt(2)))
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.weight_edge = None
        if edge_features:
            self.weight_edge = nn.Parameter(glorot(edge_features, out_features, generator, gain=math.sqrt(2)))

    def forward(self, g: GraphPass, x: Tensor | SparseInput, *, dropout: float = 0.0, exact: bool = False) -> Tensor:
        """Compute the layer's output, float32 ``(N, O)``.

        Args:
            g: operations of this pass over the graph: aggregation, dropout, dense and row-wise products.
            x: input rows ``(N, D)``.
            dropout: probability of dropping an input element.
            exact: compute in float32 whatever precision the system has, as for logits.
        """
        y = self._of_nodes(g, x, dropout, exact)
        if self.weight_edge is None:
            return y
        return g.rowwise(torch.add, y, (edge_means(g) @ self.weight_edge).to(y.dtype))  # (N, F) -> (N, O)

    def _of_nodes(self, g: GraphPass, x: Tensor | SparseInput, dropout: float, exact: bool) -> Tensor:
        if self.projects_first and not g.aggregates_before_projection(x, dropout):
            x = g.dropout(x, dropout)
            x = g.exactly(x) if exact else x  # converted once for both products
            projected_rows = g.linear(x, self.weight_neighbour, exact=exact)  # (N, D) -> (N, O)
            neighbours = g.aggregate(projected_rows, alpha="mean", exact=exact)
            return g.rowwise(_sum, g.linear(x, self.weight_self, exact=exact), neighbours, self.bias)
        # Aggregates first; the term of the node itself needs no exchange and can be computed meanwhile.
        weights, self_weight = (self.weight_neighbour, self.bias), self.weight_self
        return g.convolve(_dense(x), *weights, alpha="mean", self_weight=self_weight, dropout=dropout, exact=exact)


class Projection(nn.Module):
    """Dense layer ``X W + b``; weights ``(in, out)`` and bias are uniform within 1/sqrt(in), as in ``torch.nn.Linear``.

    The cost with sparse features is proportional to their stored values.
    """

    def __init__(self, in_features: int, out_features: int, *, generator: torch.Generator) -> None:
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(in_features, out_features).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound, generator=generator))

    def forward(self, g: GraphPass, x: Tensor | SparseInput, *, exact: bool = False) -> Tensor:
        return g.linear(x, self.weight, self.bias, exact=exact)


def glorot(in_features: int, out_features: int, generator: torch.Generator, *, gain: float = 1.0) -> Tensor:
    """Return Glorot-uniform weights ``(in, out)`` drawn from ``generator``."""
    bound = gain * math.sqrt(6.0 / (in_features + out_features))
    return torch.empty(in_features, out_features).uniform_(-bound, bound, generator=generator)


def _sum(self_rows: Tensor, neighbours: Tensor, bias: Tensor) -> Tensor:
    return self_rows + neighbours + bias


def _dense(x: Tensor | SparseInput) -> Tensor:
    if isinstance(x, SparseInput):
        raise ValueError(
            "features that are aggregated before they are projected must be dense; call densify_features() first"
        )
    return x
