"""Dense references of an exchange: the whole matrix, and a product with rows of the epoch before."""

from __future__ import annotations

import torch

from gnnqlab.exchange.whole import convolve_in_steps


def dense_of(adjacency):
    """Return the matrix with its zeros; parallel edges are added."""
    dense = torch.zeros(adjacency.num_rows, adjacency.num_columns)
    row = torch.repeat_interleave(torch.arange(adjacency.num_rows), adjacency.indptr.diff())
    weights = torch.ones(adjacency.num_edges) if adjacency.weights is None else adjacency.weights
    return dense.index_put((row, adjacency.indices.long()), weights, accumulate=True)


class Instead:
    """Use other sums over neighbours in place of the exchange of a whole graph."""

    def __init__(self, exchange, aggregate, attend=None, *, uses_stale_rows=False):
        self._exchange, self.aggregate = exchange, aggregate
        self.uses_stale_rows = self.aggregates_before_projection = uses_stale_rows
        if attend is not None:
            self.attend = attend

    def __getattr__(self, name):
        return getattr(self._exchange, name)

    def convolve(self, *arguments):
        return convolve_in_steps(self, *arguments)


class StaleProduct(torch.autograd.Function):
    """``inside m x + across m x'``, x' for edges between workers; gradients that are sent are one epoch old too.

    ``graph.before(kind, layer, now, epoch)`` takes this epoch's ``rows`` or ``gradients`` and returns those to use; m
    is this epoch's dropout mask.
    """

    @staticmethod
    def forward(ctx, x, inside, across, graph, context):
        ctx.saved = inside, across, graph, context
        seen = graph.before("rows", context.layer, x.detach().clone(), context.epoch)
        return inside @ context.own(x) + across @ context.own(seen)

    @staticmethod
    def backward(ctx, dy):
        inside, across, graph, context = ctx.saved
        # The received gradient is m A_bd^T dy of the epoch before.
        home = graph.before("gradients", context.layer, context.own(across.T @ dy), context.epoch)
        return context.own(inside.T @ dy) + home, None, None, None, None
