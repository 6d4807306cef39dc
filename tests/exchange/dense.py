"""Dense references of an exchange: the whole matrix, and a product that sees rows of the epoch before."""

from __future__ import annotations

import torch


def dense_of(adjacency):
    """Return the matrix with its zeros; parallel edges are added."""
    dense = torch.zeros(adjacency.num_rows, adjacency.num_columns)
    row = torch.repeat_interleave(torch.arange(adjacency.num_rows), adjacency.indptr.diff())
    weights = torch.ones(adjacency.num_edges) if adjacency.weights is None else adjacency.weights
    return dense.index_put((row, adjacency.indices.long()), weights, accumulate=True)


class StaleProduct(torch.autograd.Function):
    """``inside x + across x'``, x' what edges between workers see; gradients that travel are of the epoch before too.

    ``graph.before(kind, hop, now, epoch)`` takes this epoch's ``rows`` or ``gradients`` and returns those to use.
    """

    @staticmethod
    def forward(ctx, x, inside, across, graph, hop, epoch):
        ctx.saved = inside, across, graph, hop, epoch
        return inside @ x + across @ graph.before("rows", hop, x.detach().clone(), epoch)

    @staticmethod
    def backward(ctx, dy):
        inside, across, graph, hop, epoch = ctx.saved
        # What travels is A_bd^T dy of the epoch before.
        home = graph.before("gradients", hop, across.T @ dy, epoch)
        return inside.T @ dy + home, None, None, None, None, None
