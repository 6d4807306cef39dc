"""The layer of message passing: a message for every edge, of both of its ends and its own features."""

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
from gnnqlab.nn.sparse_input import SparseInput
from gnnqlab.nn.timed import timed

__all__ = ["MessageConvolution"]


class MessageConvolution(nn.Module):
    """MPNN layer (Gilmer et al., ICML 2017, Eq. 1 and 2): a message for each edge, summed at its destination.

    ``m_uv = relu(x_u W_1 + x_v W_2 + e_uv W_3 + c)``, ``y_v = x_v W_s + (sum over u of α(u, v) m_uv) W_m + b``, with
    α of ``mean`` or ``sum``, by the weights of edges. The update is linear; norm and activation follow in the stack.

    Both ends are projected where they live: ``x W_1`` travels, as wide as messages; features of edges lie with their
    destination. What is kept for the backward pass grows with edges: the messages, ``4 E hidden`` bytes a layer
    for E edges into a worker's nodes, and twice that while they are made; a layer that sums rows keeps rows of nodes
    alone. A model with this layer is registered with ``edges="rows"``.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> from gnnqlab.nn.message_passing import LocalGraph
        >>> graph = Graph.from_edges([0], [1], num_nodes=2, edge_features=[3.0], features=[[1.0], [2.0]])
        >>> layer = MessageConvolution(1, 4, hidden=8, edge_features=1, generator=torch.Generator())
        >>> layer(LocalGraph(graph).at(0, training=False), torch.ones(2, 1)).shape
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
        """Draw the weights.

        Args:
            in_features, out_features: width of rows before and after.
            hidden: width of messages.
            generator: source of the weights: Glorot with gain sqrt(2); biases are 0.
            edge_features: F, of each edge, at least 1.
            sums: α.

        Raises:
            ValueError: for a graph whose edges have no features: nothing would keep a sampler, or a schedule of older
                rows, from it.
        """
        super().__init__()
        if edge_features < 1:
            raise ValueError(
                f"messages are made of features of edges, edge_features must be at least 1, got {edge_features}; give "
                "the graph edge_features=, or choose a model of nodes alone, as graphsage"
            )
        self.sums: Literal["mean", "sum"] = sums

        def drawn(before: int, after: int) -> nn.Parameter:
            return nn.Parameter(glorot(before, after, generator, gain=math.sqrt(2)))

        self.weight_source, self.weight_target = drawn(in_features, hidden), drawn(in_features, hidden)
        self.weight_edge = drawn(edge_features, hidden)
        self.bias_message = nn.Parameter(torch.zeros(hidden))
        self.weight_self, self.weight_message = drawn(in_features, out_features), drawn(hidden, out_features)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, g: GraphPass, x: Tensor | SparseInput, *, dropout: float = 0.0, exact: bool = False) -> Tensor:
        x = g.dropout(x, dropout)
        source = g.extend(g.linear(x, self.weight_source, exact=exact))
        target = g.linear(x, self.weight_target, self.bias_message, exact=exact)
        adjacency = g.graph.adjacency(self.sums)
        of_edges = features_of_edges(g)

        def run(source: Tensor, target: Tensor) -> Tensor:
            m = torch.addmm(sddmm_add(adjacency, source, target), of_edges, self.weight_edge)
            return aggregate(adjacency.by_edge, functional.relu(m)) @ self.weight_message

        messages = timed(g.clock, "products", run, source, target)
        return g.rowwise(torch.add, g.linear(x, self.weight_self, self.bias, exact=exact), messages)
