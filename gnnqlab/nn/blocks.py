"""Models over the blocks of a mini-batch: a layer sums sampled neighbours, the last one into the batch's own nodes."""

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
"""Models that have a forward pass over blocks."""

Drop = Callable[[Tensor, float, int, Tensor], Tensor]
"""``(h, p, layer, ids) -> h`` after dropout with probability p; ids are those of the rows."""


@dataclass(frozen=True, eq=False)
class Block:
    """One layer of a batch: who is summed for whom."""

    indptr: Tensor
    indices: Tensor
    """Places among the sources, int32."""
    weights: dict[str, Tensor]
    """α of each edge, by its kind."""
    sources: Tensor
    """Ids of the rows that come in, int64; the first are the target rows themselves."""

    @property
    def num_sources(self) -> int:
        return self.sources.numel()

    @property
    def num_targets(self) -> int:
        return self.indptr.numel() - 1

    def adjacency(self, alpha: str) -> Adjacency:
        return Adjacency.of_checked(self.indptr, self.indices, self.weights.get(alpha), num_columns=self.num_sources)


class BlockWeights:
    """The weights of sampled edges, from global degrees.

    The sum over all neighbours is estimated by ``in-degree / sampled`` times the sum over those that were sampled, so
    its mean is the sum itself; with every neighbour sampled the weights are those of full-graph training.

    Raises:
        ValueError: if the graph's edges have weights or features.
    """

    def __init__(self, graph: Graph) -> None:
        if graph.edge_weights is not None:
            raise ValueError(
                f"mini-batches sample neighbours as equals, graph {graph.name!r} has weights of edges; train on the "
                "full graph, or on graph.without_edge_weights()"
            )
        if graph.edge_features is not None:
            refuse_features("mini-batches", "sample neighbours without the features of their edges")
        self._scale = graph.out_degrees.clamp(min=1).double().rsqrt()
        self._in_degrees = graph.in_degrees.clamp(min=1).double()

    def block(self, indptr: Tensor, indices: Tensor, sources: Tensor) -> Block:
        """Return a block; ``indptr (T + 1,)`` and ``indices``, places among the sources, say who is summed."""
        counts, targets = indptr.diff(), sources[: indptr.numel() - 1]
        per_row = self._in_degrees[targets].sqrt() / counts.clamp(min=1)
        symmetric = self._scale[sources][indices] * torch.repeat_interleave(per_row, counts)
        mean = torch.repeat_interleave(1.0 / counts.clamp(min=1).double(), counts)
        return Block(indptr, indices.int(), {"symmetric": symmetric.float(), "mean": mean.float()}, sources)


def forward(network: ConvolutionStack, blocks: Sequence[Block], x: Tensor, *, drop: Drop) -> Tensor:
    """Return the logits of a batch: the network's layers, each over its block.

    Args:
        network: with as many convolutions as there are blocks.
        blocks: from the widest to that of the batch's own nodes; the targets of one are the sources of the next.
        x: features of the first block's sources, float32 ``(N, D)``.
        drop: dropout before each layer.
    """
    h = drop(x, network.input_dropout, 0, blocks[0].sources)
    last = len(network.convolutions) - 1
    for index, (convolution, block) in enumerate(zip(network.convolutions, blocks, strict=True)):
        if index > 0:
            h = drop(h, network.dropout, index, block.sources)
        h = _convolve(convolution, block, h)
        if index < last:
            norm = norm_of(network.norms, index)
            h = step_by_step(h, None if norm is None else Norm.of(norm), activation=network.activation, mask=None)[0]
    return h


def _convolve(convolution: nn.Module, block: Block, h: Tensor) -> Tensor:
    if isinstance(convolution, GraphConvolution):
        return _sum(block, "symmetric", h, convolution.weight, convolution.projects_first) + convolution.bias
    own = h[: block.num_targets]
    if isinstance(convolution, SageConvolution):
        neighbours = _sum(block, "mean", h, convolution.weight_neighbour, convolution.projects_first)
        return own @ convolution.weight_self + neighbours + convolution.bias
    assert isinstance(convolution, AttentionConvolution)
    z = (h @ convolution.weight).unflatten(1, convolution.a_source.shape)
    source = (z * convolution.a_source).sum(-1)
    target = (z[: block.num_targets] * convolution.a_target).sum(-1)
    y = attend(block.adjacency("sum"), z, source, target, slope=convolution.slope)
    return (y.mean(1) if convolution.mean else y.flatten(1)) + convolution.bias


def _sum(block: Block, alpha: str, h: Tensor, weight: Tensor, projects_first: bool) -> Tensor:
    matrix = block.adjacency(alpha)
    return aggregate(matrix, h @ weight) if projects_first else aggregate(matrix, h) @ weight
