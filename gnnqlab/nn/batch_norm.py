"""Batch normalization whose statistics are those of all nodes of the graph, on however many workers they are."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.pass_clock import run_in_phase

__all__ = ["SyncBatchNorm", "sum_over_nodes"]


def sum_over_nodes(g: GraphPass, x: Tensor) -> Tensor:
    """Return the sum of rows over all nodes of the graph, ``(N, D) -> (D,)``, the same on every worker.

    For layers with a statistic of the whole graph. Differentiable in ``x``; an all-reduce of D numbers in the forward
    and in the backward pass, so every worker must call it, also one without rows.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> from gnnqlab.nn import LocalGraph
        >>> graph = LocalGraph(Graph.from_edges([0], [1], num_nodes=2, features=[[1.0], [3.0]]))
        >>> sum_over_nodes(graph.open_pass(0, training=True), graph.features)
        tensor([4.])
    """
    return run_in_phase(g.clock, "reduce", g.graph.node_sums, x)


class SyncBatchNorm(nn.Module):
    """Batch normalization over the nodes of all workers, as ``torch.nn.BatchNorm1d`` on the whole graph.

    ``y = (x - mean) / sqrt(var + eps) weight + bias`` (Ioffe & Szegedy, ICML 2015), with mean and biased variance of
    each column over all nodes in training, and running means of both in evaluation. A training pass sums twice over
    all workers, ``2 D + 1`` numbers, and so does its backward pass: gradients reach the rows of other workers.
    Unlike ``torch.nn.SyncBatchNorm`` it runs on CPUs, takes the pass as its first argument, and a replica of a node
    under a vertex-cut counts once.

    Args:
        num_features: columns D.
        eps: added to the variance.
        momentum: share of this pass in the running means.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> from gnnqlab.nn import LocalGraph
        >>> graph = LocalGraph(Graph.from_edges([0], [1], num_nodes=2, features=[[1.0], [3.0]]))
        >>> norm = SyncBatchNorm(1)
        >>> norm(graph.open_pass(0, training=True), graph.features).flatten().tolist(), norm.running_mean.item()
        ([-0.99999..., 0.99999...], 0.2...)
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, g: GraphPass, x: Tensor) -> Tensor:
        """Normalize rows, float32 ``(N, D)``.

        Args:
            g: the pass; every worker must call the module.
            x: rows of this worker.
        """
        if not g.training:
            scale = self.weight * torch.rsqrt(self.running_var + self.eps)
            return (x - self.running_mean) * scale + self.bias
        ones = x.new_ones(x.shape[0], 1)
        sums = sum_over_nodes(g, torch.cat([x, ones], 1))  # (N, D + 1) -> (D + 1,)
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = x - mean  # before it is squared: E[x^2] - E[x]^2 would lose the digits of a small variance
        variance = sum_over_nodes(g, centred.square()) / count  # (N, D) -> (D,)
        self._update(mean.detach(), variance.detach(), count)
        return centred * (self.weight * torch.rsqrt(variance + self.eps)) + self.bias

    @torch.no_grad()
    def _update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Update the running means, with the unbiased variance, as PyTorch."""
        unbiased = variance * count / (count - 1).clamp(min=1)
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(unbiased, self.momentum)

    def extra_repr(self) -> str:
        """Return the settings, for ``print(model)``."""
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"
