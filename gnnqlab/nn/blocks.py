"""Models over the blocks of a mini-batch: each layer aggregates sampled neighbours, the last one for batch nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnnqlab.graph.edge_data import refuse_features
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.rowwise.nodewise import Norm, step_by_step
from gnnqlab.kernels.sparse.aggregate import Adjacency, aggregate
from gnnqlab.kernels.sparse.attention import attend
from gnnqlab.nn.attention import AttentionConvolution
from gnnqlab.nn.layers import GraphConvolution, SageConvolution
from gnnqlab.nn.models.stack import ConvolutionStack, norm_of

__all__ = ["MODELS", "Block", "BlockWeights", "Drop", "forward"]

MODELS = ("gcn", "graphsage", "gat")
"""Names of the models with a forward pass over blocks."""

Drop = Callable[[Tensor, float, int, Tensor], Tensor]
"""Type of a function ``(h, p, layer, ids) -> h``: dropout with probability p on the rows of the nodes ``ids``."""


@dataclass(frozen=True, eq=False)
class Block:
    """Bipartite graph of one layer of a mini-batch: sampled edges from source to target nodes."""

    indptr: Tensor
    indices: Tensor
    """Positions of the neighbours in ``sources``, int32."""
    weights: dict[str, Tensor]
    """Coefficients α of the edges, by kind of α."""
    sources: Tensor
    """Ids of the source nodes, int64; the first are the target nodes."""

    @property
    def num_sources(self) -> int:
        return self.sources.numel()

    @property
    def num_targets(self) -> int:
        return self.indptr.numel() - 1

    def adjacency(self, alpha: str) -> Adjacency:
        return Adjacency.of_checked(self.indptr, self.indices, self.weights.get(alpha), num_columns=self.num_sources)


class BlockWeights:
    """Aggregation coefficients of sampled edges, from global degrees.

    The sum over all neighbours is estimated by ``in-degree / sampled`` times the sum over sampled neighbours, which is
    unbiased; if every neighbour is sampled, the weights equal those of full-graph training.

    Raises:
        ValueError: if the graph's edges have weights or features.
    """

    def __init__(self, graph: Graph) -> None:
        if graph.edge_weights is not None:
            raise ValueError(
                f"mini-batches sample neighbours uniformly, graph {graph.name!r} has edge weights; train on the full "
                "graph, or on graph.without_edge_weights()"
            )
        if graph.edge_features is not None:
            refuse_features("mini-batches", "sample neighbours without the features of their edges")
        # Clamped, so that nodes without edges do not divide by 0; float64, as in full-graph training.
        self._scale = graph.out_degrees.clamp(min=1).double().rsqrt()
        self._in_degrees = graph.in_degrees.clamp(min=1).double()  # (nodes of the graph,)

    def block(self, indptr: Tensor, indices: Tensor, sources: Tensor) -> Block:
        """Build a block from a CSR by target: ``indptr (T + 1,)`` and ``indices``, positions in ``sources``."""
        counts, targets = indptr.diff(), sources[: indptr.numel() - 1]  # (T,), (T,)
        # symmetric: (in-degree / sampled) / sqrt(d_out(u) d_in(v)); mean: (in-degree / sampled) / in-degree.
        row_factors = self._in_degrees[targets].sqrt() / counts.clamp(min=1)  # (T,)
        symmetric_weights = self._scale[sources][indices] * torch.repeat_interleave(row_factors, counts)
        mean_weights = torch.repeat_interleave(1.0 / counts.clamp(min=1).double(), counts)  # (edges,)
        return Block(
            indptr, indices.int(), {"symmetric": symmetric_weights.float(), "mean": mean_weights.float()}, sources
        )


def forward(network: ConvolutionStack, blocks: Sequence[Block], x: Tensor, *, drop: Drop) -> Tensor:
    """Compute the logits of a batch: each convolution of the network over its block.

    Args:
        network: a stack with as many convolutions as there are blocks.
        blocks: from the input layer to that of the batch nodes; the targets of one are the sources of the next.
        x: features of the first block's sources, float32 ``(N, D)``.
        drop: function that applies dropout before each layer.

    Returns:
        Logits of the last block's targets, float32 ``(T, C)``.
    """
    h = drop(x, network.input_dropout, 0, blocks[0].sources)  # (N, D)
    last_index = len(network.convolutions) - 1
    for index, (convolution, block) in enumerate(zip(network.convolutions, blocks, strict=True)):
        if index > 0:
            h = drop(h, network.dropout, index, block.sources)
        h = _convolve(convolution, block, h)  # (sources, D) -> (targets, O)
        if index < last_index:
            norm = norm_of(network.norms, index)
            # Without a mask: dropout precedes the next layer, whose number enters the mask.
            h = step_by_step(
                h, None if norm is None else Norm.from_module(norm), activation=network.activation, mask=None
            )[0]
    return h


def _convolve(convolution: nn.Module, block: Block, h: Tensor) -> Tensor:
    if isinstance(convolution, GraphConvolution):
        return _sum(block, "symmetric", h, convolution.weight, convolution.projects_first) + convolution.bias
    target_rows = h[: block.num_targets]  # the targets are the first sources: (N, D) -> (T, D)
    if isinstance(convolution, SageConvolution):
        neighbours = _sum(block, "mean", h, convolution.weight_neighbour, convolution.projects_first)
        return target_rows @ convolution.weight_self + neighbours + convolution.bias
    assert isinstance(convolution, AttentionConvolution)
    z = (h @ convolution.weight).unflatten(1, convolution.a_source.shape)  # (N, D) -> (N, K, F)
    source = (z * convolution.a_source).sum(-1)  # (N, K)
    target = (z[: block.num_targets] * convolution.a_target).sum(-1)
    y = attend(block.adjacency("sum"), z, source, target, slope=convolution.slope)  # (T, K, F)
    return (y.mean(1) if convolution.mean else y.flatten(1)) + convolution.bias


def _sum(block: Block, alpha: str, h: Tensor, weight: Tensor, projects_first: bool) -> Tensor:
    matrix = block.adjacency(alpha)
    return aggregate(matrix, h @ weight) if projects_first else aggregate(matrix, h) @ weight
