"""Parts of attention over edges: sampled dense-dense products (SDDMM), softmax over each row's edges, weighted sums.

Shapes as in ``attention``: N owned rows, H halo rows, R rows of the adjacency, E edges, K heads, F features of a head.
The compiled kernels are float32; the reference runs for other types.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.kernels import native
from gnnqlab.kernels.huge_pages import empty_in_huge_pages
from gnnqlab.kernels.native import call
from gnnqlab.kernels.reference import attention as reference
from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["sddmm_add", "sddmm_dot", "segment_softmax", "segment_sum", "weighted_sum"]

# indptr, indices, R, K, F; rows by column: x, N, stride, halo, stride; rows by row: y, stride; out; threads.
_sddmm_dot = native.declare("sddmm_dot", "p p i i i p i i p i p i p i")
_sddmm_add = native.declare("sddmm_add", "p p i i p i p p p i")
_segment_softmax = native.declare("segment_softmax", "p i i p p i")
_segment_softmax_backward = native.declare("segment_softmax_backward", "p i i p p p i")
# indptr, indices, order of the weights, R, K, F; weights; x, N, stride, halo, stride; out, stride; threads.
_weighted_sum = native.declare("weighted_sum", "p p p i i i p p i i p i p i i")
_segment_sum = native.declare("segment_sum", "p p i i p p i")


def sddmm_dot(adj: Adjacency, x: Tensor, y: Tensor, halo: Tensor | None = None) -> Tensor:
    """Compute ``out[e, k] = <x[source of e, k], y[row of e, k]>``, ``(E, K)``; differentiable.

    Args:
        adj: the edges.
        x: rows by column, ``(N, K, F)``.
        y: rows by row, ``(R, K, F)``.
        halo: halo rows by column, ``(H, K, F)``.
    """
    if not runs_natively(x):
        return reference.sddmm_dot(adj.indptr, adj.indices, join(x, halo), y)
    return _Dot.apply(adj, x, y, halo)


def sddmm_add(adj: Adjacency, source: Tensor, target: Tensor, halo: Tensor | None = None) -> Tensor:
    """Compute ``out[e, k] = source[source of e, k] + target[row of e, k]``, ``(E, K)``; differentiable."""
    if not runs_natively(source):
        return reference.sddmm_add(adj.indptr, adj.indices, join(source, halo), target)
    return _Add.apply(adj, source, target, halo)


def segment_softmax(adj: Adjacency, logits: Tensor) -> Tensor:
    """Compute the softmax of ``(E, K)`` logits over each row's edges, for each head; differentiable."""
    if not runs_natively(logits):
        return reference.segment_softmax(adj.indptr, logits)
    return _Softmax.apply(adj, logits)


def weighted_sum(adj: Adjacency, weights: Tensor, x: Tensor, halo: Tensor | None = None) -> Tensor:
    """Compute ``out[i, k] = sum_e weights[e, k] x[source of e, k]``, ``(R, K, F)``; differentiable in weights and x."""
    if not runs_natively(x):
        return reference.weighted_sum(adj.indptr, adj.indices, weights, join(x, halo))
    return _WeightedSum.apply(adj, weights, x, halo)


def segment_sum(adj: Adjacency, values: Tensor, *, by_column: bool = False) -> Tensor:
    """Sum ``(E, K)`` values over each row's edges (or each column's), ``(R, K)``; no gradient is recorded."""
    if not runs_natively(values):
        if by_column:
            # (E, K) from the order of rows to that of columns.
            return reference.segment_sum(adj.transposed.indptr, values[adj.transposed_edges.long()])
        return reference.segment_sum(adj.indptr, values)
    values, matrix = values.contiguous(), adj.transposed if by_column else adj
    out = values.new_empty((matrix.num_rows, values.shape[1]))  # (R, K), or (N + H, K)
    # The kernel reads values through this permutation, so they are not copied.
    places = adj.transposed_edges if by_column else None
    call(_segment_sum, matrix.indptr, places, matrix.num_rows, values.shape[1], values, out)
    return out


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: Adjacency, x: Tensor, y: Tensor, halo: Tensor | None) -> Tensor:
        ctx.adj = adj
        ctx.save_for_backward(x, y, halo)
        return _dot(adj, x, y, halo)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y, halo = ctx.saved_tensors
        by_column = _sum(ctx.adj, grad, y, None, by_column=True)  # gradient of x and halo, (N + H, K, F)
        # Gradient of y: a sum over rows, (R, K, F).
        return None, *_halves(by_column, x, halo, between=_sum(ctx.adj, grad, x, halo))


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: Adjacency, source: Tensor, target: Tensor, halo: Tensor | None) -> Tensor:
        ctx.adj, ctx.num_owned, ctx.has_halo = adj, source.shape[0], halo is not None
        source, target, halo = source.contiguous(), target.contiguous(), None if halo is None else halo.contiguous()
        # Every element of (E, K) is written, so it is not initialized.
        out = empty_in_huge_pages(source, adj.num_edges, source.shape[1])
        call(
            _sddmm_add,
            adj.indptr,
            adj.indices,
            adj.num_rows,
            source.shape[1],
            source,
            source.shape[0],
            halo,
            target,
            out,
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        by_column = segment_sum(ctx.adj, grad, by_column=True)  # (E, K) -> (N + H, K)
        halo = by_column[ctx.num_owned :] if ctx.has_halo else None
        # Gradient of the target half: (E, K) -> (R, K).
        return None, by_column[: ctx.num_owned], segment_sum(ctx.adj, grad), halo


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: Adjacency, logits: Tensor) -> Tensor:
        logits = logits.contiguous()
        attention = torch.empty_like(logits)
        call(_segment_softmax, adj.indptr, adj.num_rows, logits.shape[1], logits, attention)
        ctx.adj = adj
        # The gradient needs the result only: a (g - sum over the row of a g).
        ctx.save_for_backward(attention)
        return attention

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (attention,) = ctx.saved_tensors
        grad, logits_grad = grad.contiguous(), torch.empty_like(attention)
        call(_segment_softmax_backward, ctx.adj.indptr, ctx.adj.num_rows, grad.shape[1], attention, grad, logits_grad)
        return None, logits_grad


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: Adjacency, weights: Tensor, x: Tensor, halo: Tensor | None) -> Tensor:
        ctx.adj = adj
        ctx.save_for_backward(weights, x, halo)
        return _sum(adj, weights, x, halo)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, x, halo = ctx.saved_tensors
        by_column = _sum(ctx.adj, weights, grad, None, by_column=True)  # (N + H, K, F)
        x_grad, halo_grad = _halves(by_column, x, halo)
        return None, _dot(ctx.adj, x, grad, halo), x_grad, halo_grad  # gradient of a weight: <x_u, grad_v>


def _dot(adj: Adjacency, x: Tensor, y: Tensor, halo: Tensor | None) -> Tensor:
    x, y, halo = head_rows(x), head_rows(y), None if halo is None else head_rows(halo)
    out = x.new_empty((adj.num_edges, x.shape[1]))  # (E, K)
    call(
        _sddmm_dot,
        adj.indptr,
        adj.indices,
        adj.num_rows,
        x.shape[1],
        x.shape[2],
        *sources(x, halo),
        y,
        y.stride(0),
        out,
    )
    return out


def _sum(adj: Adjacency, weights: Tensor, x: Tensor, halo: Tensor | None, *, by_column: bool = False) -> Tensor:
    """Compute the weighted sum by rows, or by columns, with weights in the order of the rows in both cases."""
    matrix, weights = adj.transposed if by_column else adj, weights.contiguous()
    x, halo = head_rows(x), None if halo is None else head_rows(halo)
    out = empty_in_huge_pages(x, matrix.num_rows, *x.shape[1:])  # (R, K, F), or (N + H, K, F) by columns
    places = adj.transposed_edges if by_column else None
    call(
        _weighted_sum,
        matrix.indptr,
        matrix.indices,
        places,
        matrix.num_rows,
        x.shape[1],
        x.shape[2],
        weights,
        *sources(x, halo),
        out,
        out.stride(0),
    )
    return out


def _halves(by_column: Tensor, x: Tensor, halo: Tensor | None, **other_gradients: Tensor) -> tuple[Tensor | None, ...]:
    num_owned = x.shape[0]
    # Columns are owned rows first, then halo rows: (N + H, ...) -> (N, ...), (H, ...).
    return by_column[:num_owned], *other_gradients.values(), None if halo is None else by_column[num_owned:]


def runs_natively(tensor: Tensor) -> bool:
    """Return True if the compiled kernels support the tensor: they are float32 only."""
    return tensor.dtype == torch.float32 and native.active(tensor.device)


def sources(x: Tensor, halo: Tensor | None) -> tuple[Any, ...]:
    """Return both buffers of rows by column as arguments of the C interface."""
    return x, x.shape[0], x.stride(0), halo, 0 if halo is None else halo.stride(0)


def head_rows(x: Tensor) -> Tensor:
    """Return rows with contiguous elements; the row stride may exceed K * F."""
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()


def join(owned: Tensor, halo: Tensor | None) -> Tensor:
    return owned if halo is None else torch.cat((owned, halo))
