"""Message-passing layer: one message per edge, from both of its ends and its features."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from gnnqlab.kernels.sparse.aggregate import aggregate
from gnnqlab.kernels.sparse.attention import sddmm_add
from gnnqlab.nn.edge_rows import edge_features as features_of_edges
from gnnqlab.nn.layers import glorot
from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.pass_clock import run_in_phase
from gnnqlab.nn.sparse_input import SparseInput

__all__ = ["MessageConvolution"]


class MessageConvolution(nn.Module):
    """MPNN layer (Gilmer et al., ICML 2017, Eq. 1 and 2): one message per edge, summed at its destination.

    ``m_uv = relu(x_u W_1 + x_v W_2 + e_uv W_3 + c)``, ``y_v = x_v W_s + (sum over u of α(u, v) m_uv) W_m + b``, with
    α of ``mean`` or ``sum``, from edge weights. The update is linear; norm and activation follow in the stack.

    Both ends are projected on their owners: ``x W_1`` is sent, with the dimension of messages; edge features are stored
    with the destination. Memory saved for backward grows with the edges: ``4 E hidden`` bytes of messages per layer for
    E edges into a worker's nodes, and twice that while they are computed; a layer that aggregates rows saves node rows
    only. A model with this layer is registered with ``edges="rows"``.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> from gnnqlab.nn.message_passing import LocalGraph
        >>> graph = Graph.from_edges([0], [1], num_nodes=2, edge_features=[3.0], features=[[1.0], [2.0]])
        >>> layer = MessageConvolution(1, 4, hidden=8, edge_features=1, generator=torch.Generator())
        >>> layer(LocalGraph(graph).open_pass(0, training=False), torch.ones(2, 1)).shape
        torch.Size([2, 4])
    """

    projects_first = True

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        hidden: int,
        generator: torch.Generator,
        edge_features: int,
        sums: Literal["mean", "sum"] = "mean",
    ) -> None:
        """Initialize the weights.

        Args:
            in_features, out_features: number of features per node before and after.
            hidden: dimension of messages.
            generator: random generator of the weights: Glorot with gain sqrt(2); biases are 0.
            edge_features: number of features per edge F, at least 1.
            sums: kind of α.

        Raises:
            ValueError: without edge features; the model would then be accepted with samplers and stale rows, which
                this layer does not support.
        """
        super().__init__()
        if edge_features < 1:
            raise ValueError(
                f"messages need edge features, edge_features must be at least 1, got {edge_features}; pass "
                "edge_features= to the graph, or choose a model without them, such as graphsage"
            )
        self.sums: Literal["mean", "sum"] = sums

        def matrix(rows: int, columns: int) -> nn.Parameter:
            return nn.Parameter(glorot(rows, columns, generator, gain=math.sqrt(2)))

        self.weight_source, self.weight_target = matrix(in_features, hidden), matrix(in_features, hidden)
        self.weight_edge = matrix(edge_features, hidden)
        self.bias_message = nn.Parameter(torch.zeros(hidden))
        self.weight_self, self.weight_message = matrix(in_features, out_features), matrix(hidden, out_features)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, g: GraphPass, x: Tensor | SparseInput, *, dropout: float = 0.0, exact: bool = False) -> Tensor:
        x = g.dropout(x, dropout)
        source = g.extend(g.linear(x, self.weight_source, exact=exact))  # (N, D) -> (N + H, hidden)
        target = g.linear(x, self.weight_target, self.bias_message, exact=exact)  # (N, hidden)
        adjacency = g.graph.adjacency(self.sums)
        edge_inputs = features_of_edges(g)  # (E, F)

        def run(source: Tensor, target: Tensor) -> Tensor:
            m = torch.addmm(sddmm_add(adjacency, source, target), edge_inputs, self.weight_edge)  # (E, hidden)
            return aggregate(adjacency.by_edge, functional.relu(m)) @ self.weight_message  # (E, hidden) -> (N, O)

        messages = run_in_phase(g.clock, "products", run, source, target)
        return g.rowwise(torch.add, g.linear(x, self.weight_self, self.bias, exact=exact), messages)
