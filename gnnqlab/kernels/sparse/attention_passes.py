"""Attention over ranges: rows forward, columns backward, for callers that overlap them with the exchange.

Shapes as in ``attention``: N owned rows, H halo rows, R rows of the adjacency, C columns, E edges, K heads, F features
of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.huge_pages import empty_in_huge_pages
from gnnqlab.kernels.native import call
from gnnqlab.kernels.reference import attention as reference
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.sddmm import head_rows, join, runs_natively, sources

__all__ = ["attend_columns", "attend_rows", "pack_rows"]

# indptr, indices, start, stop, K, F; values, N, stride; halo values, stride; source, halo and target logits; slope;
# out, stride; stats; threads.
_attend = native.declare("attend", "p p i i i i p i i p i p p p f p i p i")
# Transpose (3), start, stop, K, F; values, stride; source logits, packed; gradient, stride; slope; values' gradient,
# stride; source logits' and edges' gradients; threads.
_attend_backward = native.declare("attend_backward", "p p p i i i i p i p p p i f p i p p i")


def attend_rows(
    adj: Adjacency,
    values: Tensor,
    source_logits: Tensor,
    target_logits: Tensor,
    halo_values: Tensor | None = None,
    halo_logits: Tensor | None = None,
    *,
    slope: float = 0.2,
    rows: tuple[int, int] | None = None,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute `attend` for a range of rows; no gradient is recorded.

    Args:
        adj, values, source_logits, halo_values, halo_logits, slope: as for `attend`.
        target_logits: logits of all rows of the adjacency, ``(R, K)``.
        rows: ``(start, stop)``; rows that use no halo column may be computed without the halo.
        out: ``(stop - start, K, F)``, written; allocated by default.

    Returns:
        The sums, and ``stats`` ``(stop - start, 2, K)``: each row's largest logit and reciprocal sum, for the backward
        pass. Concatenate those of row ranges with ``torch.cat``.
    """
    start, stop = (0, adj.num_rows) if rows is None else rows
    if not 0 <= start <= stop <= adj.num_rows:
        raise ValueError(f"rows must satisfy 0 <= start <= stop <= {adj.num_rows}, got ({start}, {stop})")
    num_heads, num_features = values.shape[1:]
    if not runs_natively(values):
        # The edges of the range, as a matrix of its own whose offsets start at 0.
        first, last = int(adj.indptr[start]), int(adj.indptr[stop])
        sums, stats = reference.attend_rows(
            adj.indptr[start : stop + 1] - first,
            adj.indices[first:last],
            join(values, halo_values),
            join(source_logits, halo_logits),
            target_logits[start:stop],
            slope,
        )
        return (sums if out is None else out.copy_(sums)), stats
    if out is None:
        out = empty_in_huge_pages(values, stop - start, num_heads, num_features)
    stats = values.new_empty((stop - start, 2, num_heads))  # (stop - start, 2, K)
    # A strided out is computed in a copy.
    values, buffer = head_rows(values), head_rows(out)
    halo_values = None if halo_values is None else head_rows(halo_values)
    source_logits, target_logits = source_logits.contiguous(), target_logits.contiguous()
    halo_logits = None if halo_logits is None else halo_logits.contiguous()
    call(
        _attend,
        adj.indptr,
        adj.indices,
        start,
        stop,
        num_heads,
        num_features,
        *sources(values, halo_values),
        source_logits,
        halo_logits,
        target_logits,
        slope,
        buffer,
        buffer.stride(0),
        stats,
    )
    return (out if buffer is out else out.copy_(buffer)), stats


def pack_rows(target_logits: Tensor, stats: Tensor, grad: Tensor, out: Tensor) -> Tensor:
    """Pack the inputs of the backward pass of each row, ``(R, 4, K)``: target logit, stats, and ``<grad, out>``."""
    # (R, 1, K), (R, 2, K), (R, 1, K) -> (R, 4, K): one read per edge fetches all of a row.
    return torch.cat((target_logits.unsqueeze(1), stats, (grad * out).sum(-1).unsqueeze(1)), 1)


def attend_columns(
    adj: Adjacency,
    values: Tensor,
    source_logits: Tensor,
    packed: Tensor,
    grad: Tensor,
    edge_grads: Tensor,
    *,
    columns: tuple[int, int],
    slope: float = 0.2,
) -> tuple[Tensor, Tensor]:
    """Compute the backward pass of `attend` for a range of columns: owned ones, or halo ones, sent to their owners.

    Args:
        adj: as for `attend`.
        values, source_logits: ``(C, K, F)`` and ``(C, K)`` of these columns only.
        packed: ``(R, 4, K)`` from `pack_rows`.
        grad: gradient of the sums, ``(R, K, F)``.
        edge_grads: ``(E, K)``; the entries of these columns' edges are written. After all columns,
            ``segment_sum(adj, edge_grads)`` is the gradient of the target logits.
        columns: ``(start, stop)``.
        slope: as for `attend`.

    Returns:
        The gradients of ``values`` and ``source_logits``.
    """
    start, stop = columns
    # In the transpose the edges of a column are consecutive, so its gradients are summed without atomic additions.
    transpose, num_heads, num_features = adj.transposed, values.shape[1], values.shape[2]
    if not 0 <= start <= stop <= adj.num_columns or values.shape[0] != stop - start:
        raise ValueError(
            f"columns must lie in [0, {adj.num_columns}] and values have one row each, "
            f"got ({start}, {stop}) and {values.shape[0]} rows"
        )
    if not runs_natively(values):
        first, last = int(transpose.indptr[start]), int(transpose.indptr[stop])
        values_grad, source_grad, grads = reference.attend_columns(
            transpose.indptr[start : stop + 1] - first,
            transpose.indices[first:last],
            values,
            source_logits,
            packed,
            grad,
            slope,
        )
        edge_grads[adj.transposed_edges[first:last].long()] = grads  # from column order to row order
        return values_grad, source_grad
    values, grad = head_rows(values), head_rows(grad)
    source_logits, packed = source_logits.contiguous(), packed.contiguous()
    values_grad = empty_in_huge_pages(values, stop - start, num_heads, num_features)  # (C, K, F)
    source_grad = values.new_empty((stop - start, num_heads))  # (C, K)
    call(
        _attend_backward,
        transpose.indptr,
        transpose.indices,
        adj.transposed_edges,
        start,
        stop,
        num_heads,
        num_features,
        values,
        values.stride(0),
        source_logits,
        packed,
        grad,
        grad.stride(0),
        slope,
        values_grad,
        values_grad.stride(0),
        source_grad,
        edge_grads,
    )
    return values_grad, source_grad
