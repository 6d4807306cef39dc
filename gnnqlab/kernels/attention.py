"""Attention over the edges of a CSR adjacency (GAT), with the sources in one or two buffers.

Shapes: N owned rows, H halo rows, R rows of the adjacency, E edges in its order, K heads, F features of a head. As in
``aggregate``, column ``c`` is row ``c`` of the owned buffer and, from N on, row ``c - N`` of the halo buffer.

`attend` keeps nothing per edge: its backward pass finds each edge's attention again from two numbers a row. The parts
(`sddmm_add`, `sddmm_dot`, `segment_softmax`, `weighted_sum`) are there for other kinds of attention.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.kernels import native
from gnnqlab.kernels.adjacency import Adjacency, address, describe
from gnnqlab.kernels.reference import attention as reference
from gnnqlab.kernels.sddmm import (
    call,
    csr_addresses,
    head_rows,
    join,
    runs_natively,
    sddmm_add,
    sddmm_dot,
    segment_softmax,
    segment_sum,
    source_addresses,
    weighted_sum,
)

__all__ = [
    "attend",
    "attend_columns",
    "attend_rows",
    "pack_rows",
    "sddmm_add",
    "sddmm_dot",
    "segment_softmax",
    "segment_sum",
    "weighted_sum",
]

_attend = native.declare("attend", "p p i i i i p i i p i p p p f p i p i")
_attend_backward = native.declare("attend_backward", "p p p i i i i p i p p p i f p i p p i")


def attend(
    adj: Adjacency,
    values: Tensor,
    source_logits: Tensor,
    target_logits: Tensor,
    halo_values: Tensor | None = None,
    halo_logits: Tensor | None = None,
    *,
    slope: float = 0.2,
) -> Tensor:
    """Sum each row's neighbours, weighted by attention; differentiable in all five tensors.

    ``a_e = softmax over the row's edges of leaky(source_logits[u] + target_logits[i])`` and
    ``out[i] = sum_e a_e values[u]`` (GAT, Velickovic et al. 2018, equations 2 to 4; the logit is the sum of a
    source half and a target half).

    Args:
        adj: who attends to whom; its weights are not used.
        values: ``(N, K, F)``; ``source_logits`` ``(N, K)``, ``target_logits`` ``(R, K)``.
        halo_values: ``(H, K, F)`` and ``halo_logits`` ``(H, K)`` of the columns from N on, or None for neither.
        slope: of the leaky rectifier, in (0, 1].

    Returns:
        ``(R, K, F)``; zeros for a row without edges.

    Raises:
        ValueError: if shapes or types do not fit together.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 2, 2]), torch.tensor([0, 1], dtype=torch.int32), num_columns=2)
        >>> values, logits = torch.tensor([[[1.0]], [[3.0]]]), torch.zeros(2, 1)
        >>> attend(adj, values, logits, logits).flatten().tolist()
        [2.0, 0.0]
    """
    _check_slope(slope)
    _check_operands(adj, values, source_logits, target_logits, halo_values, halo_logits)
    if not runs_natively(values):
        return reference.attend(
            adj.indptr, adj.indices, join(values, halo_values), join(source_logits, halo_logits), target_logits, slope
        )
    return _Attend.apply(adj, values, source_logits, target_logits, halo_values, halo_logits, slope)


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        adj: Adjacency,
        values: Tensor,
        source: Tensor,
        target: Tensor,
        halo_values: Tensor | None,
        halo_source: Tensor | None,
        slope: float,
    ) -> Tensor:
        out, stats = attend_rows(adj, values, source, target, halo_values, halo_source, slope=slope)
        ctx.adj, ctx.slope = adj, slope
        ctx.save_for_backward(values, source, target, halo_values, halo_source, out, stats)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, source, target, halo_values, halo_source, out, stats = ctx.saved_tensors
        adj, num_owned = ctx.adj, values.shape[0]
        edge_grads = grad.new_empty((adj.num_edges, source.shape[1]))
        packed = pack_rows(target, stats, grad, out)
        owned = attend_columns(adj, values, source, packed, grad, edge_grads, columns=(0, num_owned), slope=ctx.slope)
        halo: tuple[Tensor | None, Tensor | None] = (None, None)
        if halo_values is not None:
            halo = attend_columns(
                adj,
                halo_values,
                halo_source,
                packed,
                grad,
                edge_grads,
                columns=(num_owned, adj.num_columns),
                slope=ctx.slope,
            )
        return None, *owned, segment_sum(adj, edge_grads), *halo, None


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
    """`attend` for some rows, with no gradient recorded: for a caller that overlaps rows with messages.

    Args:
        rows: ``(start, stop)``; rows that use no halo column may be asked for without the halo.
        target_logits: of all rows of the adjacency, ``(R, K)``.
        out: ``(stop - start, K, F)``, written; made if not given.

    Returns:
        The sums, and ``stats`` ``(stop - start, 2, K)``: each row's largest logit and reciprocal sum, for the backward
        pass. Those of row ranges are put together by ``torch.cat``.
    """
    start, stop = (0, adj.num_rows) if rows is None else rows
    if not 0 <= start <= stop <= adj.num_rows:
        raise ValueError(f"rows must satisfy 0 <= start <= stop <= {adj.num_rows}, got ({start}, {stop})")
    num_heads, num_features = values.shape[1:]
    if not runs_natively(values):
        first, last = int(adj.indptr[start]), int(adj.indptr[stop])
        summed, stats = reference.attend_rows(
            adj.indptr[start : stop + 1] - first,
            adj.indices[first:last],
            join(values, halo_values),
            join(source_logits, halo_logits),
            target_logits[start:stop],
            slope,
        )
        return (summed if out is None else out.copy_(summed)), stats
    if out is None:
        out = values.new_empty((stop - start, num_heads, num_features))
    stats = values.new_empty((stop - start, 2, num_heads))
    values, into = head_rows(values), head_rows(out)
    halo_values = None if halo_values is None else head_rows(halo_values)
    source_logits, target_logits = source_logits.contiguous(), target_logits.contiguous()
    halo_logits = None if halo_logits is None else halo_logits.contiguous()
    call(
        _attend,
        values,
        *csr_addresses(adj),
        start,
        stop,
        num_heads,
        num_features,
        *source_addresses(values, halo_values),
        source_logits.data_ptr(),
        address(halo_logits),
        target_logits.data_ptr(),
        slope,
        into.data_ptr(),
        into.stride(0),
        stats.data_ptr(),
    )
    return (out if into is out else out.copy_(into)), stats


def pack_rows(target_logits: Tensor, stats: Tensor, grad: Tensor, out: Tensor) -> Tensor:
    """What the backward pass needs of each row, ``(R, 4, K)``: target logit, stats, and ``<grad, out>``."""
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
    """The backward pass of `attend` for some columns: the owned ones, or the halo's, whose gradients go home.

    Args:
        values: ``(C, K, F)`` and ``source_logits`` ``(C, K)`` of just these columns.
        packed: ``(R, 4, K)`` from `pack_rows`; ``grad`` ``(R, K, F)``: the gradient of the sums.
        edge_grads: ``(E, K)``; the places of these columns' edges are written. Once all columns have been asked for,
            ``segment_sum(adj, edge_grads)`` is the gradient of the target logits.

    Returns:
        The gradients of ``values`` and ``source_logits``.
    """
    start, stop = columns
    turned, num_heads, num_features = adj.transposed, values.shape[1], values.shape[2]
    if not 0 <= start <= stop <= adj.num_columns or values.shape[0] != stop - start:
        raise ValueError(
            f"columns must lie in [0, {adj.num_columns}] and values have one row each, "
            f"got ({start}, {stop}) and {values.shape[0]} rows"
        )
    if not runs_natively(values):
        first, last = int(turned.indptr[start]), int(turned.indptr[stop])
        values_grad, source_grad, grads = reference.attend_columns(
            turned.indptr[start : stop + 1] - first,
            turned.indices[first:last],
            values,
            source_logits,
            packed,
            grad,
            slope,
        )
        edge_grads[adj.transposed_edges[first:last].long()] = grads
        return values_grad, source_grad
    values, grad = head_rows(values), head_rows(grad)
    source_logits, packed = source_logits.contiguous(), packed.contiguous()
    values_grad = values.new_empty((stop - start, num_heads, num_features))
    source_grad = values.new_empty((stop - start, num_heads))
    call(
        _attend_backward,
        values,
        *csr_addresses(turned),
        adj.transposed_edges.data_ptr(),
        start,
        stop,
        num_heads,
        num_features,
        values.data_ptr(),
        values.stride(0),
        source_logits.data_ptr(),
        packed.data_ptr(),
        grad.data_ptr(),
        grad.stride(0),
        slope,
        values_grad.data_ptr(),
        values_grad.stride(0),
        source_grad.data_ptr(),
        edge_grads.data_ptr(),
    )
    return values_grad, source_grad


def _check_slope(slope: float) -> None:
    if not 0.0 < slope <= 1.0:
        raise ValueError(f"slope must be in (0, 1], got {slope}")


def _check_operands(
    adj: Adjacency,
    values: Tensor,
    source: Tensor,
    target: Tensor,
    halo_values: Tensor | None,
    halo_source: Tensor | None,
) -> None:
    if values.dim() != 3 or values.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"values must be float32 of shape (N, heads, features), got {describe(values)}")
    num_halo = 0 if halo_values is None else halo_values.shape[0]
    if values.shape[0] + num_halo != adj.num_columns:
        raise ValueError(
            f"values and halo_values together must have {adj.num_columns} rows, one per column, "
            f"got {values.shape[0]} + {num_halo}"
        )
    if (halo_values is None) != (halo_source is None):
        raise ValueError("halo_values and halo_logits must be given together, got one without the other")
    if halo_values is not None and halo_values.shape[1:] != values.shape[1:]:
        raise ValueError(f"halo_values must be like values, {describe(values)}, got {describe(halo_values)}")
    num_heads = values.shape[1]
    logits = {"source_logits": (source, values.shape[0]), "target_logits": (target, adj.num_rows)}
    if halo_source is not None:
        logits["halo_logits"] = (halo_source, num_halo)
    for name, (tensor, num_rows) in logits.items():
        if tensor.shape != (num_rows, num_heads) or tensor.dtype != values.dtype:
            raise ValueError(
                f"{name} must be {values.dtype} of shape ({num_rows}, {num_heads}), got {describe(tensor)}"
            )
