"""Attention over the edges of a CSR adjacency (GAT), with the sources in one or two buffers.

Shapes: N owned rows, H halo rows, R rows of the adjacency, E edges in its order, K heads, F features of a head. As in
``aggregate``, column ``c`` is row ``c`` of the owned buffer and, from N on, row ``c - N`` of the halo buffer.

`attend` saves nothing per edge: its backward pass recomputes each edge's attention from two numbers per row. The parts
(`sddmm_add`, `sddmm_dot`, `segment_softmax`, `weighted_sum`) serve other kinds of attention.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.kernels import native
from gnnqlab.kernels.reference import attention as reference
from gnnqlab.kernels.sparse.adjacency import Adjacency, describe
from gnnqlab.kernels.sparse.attention_passes import attend_columns, attend_rows, pack_rows
from gnnqlab.kernels.sparse.sddmm import (
    join,
    runs_natively,
    sddmm_add,
    sddmm_dot,
    segment_softmax,
    segment_sum,
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
    source half and a target half). If a gradient is needed, access ``adj.transposed_edges`` before ``torch.compile``,
    which cannot trace its construction.

    Args:
        adj: edges from sources (columns) to targets (rows); its weights are not used.
        values: ``(N, K, F)``.
        source_logits: ``(N, K)``.
        target_logits: ``(R, K)``.
        halo_values, halo_logits: ``(H, K, F)`` and ``(H, K)`` of the columns from N on, or None for both.
        slope: negative slope of the leaky ReLU, in (0, 1].

    Returns:
        ``(R, K, F)``; zeros for a row without edges.

    Raises:
        ValueError: if shapes or types do not match.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 2, 2]), torch.tensor([0, 1], dtype=torch.int32), num_columns=2)
        >>> values, logits = torch.tensor([[[1.0]], [[3.0]]]), torch.zeros(2, 1)
        >>> attend(adj, values, logits, logits).flatten().tolist()
        [2.0, 0.0]
    """
    _check_slope(slope)
    _check_operands(adj, values, source_logits, target_logits, halo_values, halo_logits)
    operands = (values, source_logits, target_logits, halo_values, halo_logits)
    if torch.compiler.is_compiling():
        transpose: tuple[Tensor | None, ...] = (None, None, None)
        if any(operand is not None and operand.requires_grad for operand in operands):
            transpose = (adj.transposed.indptr, adj.transposed.indices, adj.transposed_edges)  # built before tracing
        out: Tensor = torch.ops.gnnqlab.attend(adj.indptr, adj.indices, *transpose, *operands, slope)[0]
        return out
    if not runs_natively(values):
        return reference.attend(
            adj.indptr, adj.indices, join(values, halo_values), join(source_logits, halo_logits), target_logits, slope
        )
    return _EagerAttend.apply(adj, *operands, slope)


class _EagerAttend(torch.autograd.Function):
    """Eager version of the operator below, with less overhead and the transpose built only in the backward pass."""

    @staticmethod
    def forward(ctx: Any, adj: Adjacency, *operands: Any) -> Tensor:
        values, source, target, halo_values, halo_source, slope = operands
        # (R, K, F) and (R, 2, K); nothing of size E is saved.
        out, stats = attend_rows(adj, values, source, target, halo_values, halo_source, slope=slope)
        ctx.adj, ctx.slope = adj, slope
        ctx.save_for_backward(values, source, target, halo_values, halo_source, out, stats)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_gradients(ctx.adj, (*ctx.saved_tensors, grad), ctx.slope), None


def _gradients(adj: Adjacency, operands: tuple[Tensor, ...], slope: float) -> tuple[Tensor | None, ...]:
    """Compute the gradients of the five operands (the last two may be None) from them, results and statistics."""
    values, source, target, halo_values, halo_source, out, stats, grad = operands
    num_owned = values.shape[0]
    edge_grads = grad.new_empty((adj.num_edges, source.shape[1]))  # (E, K)
    rows = pack_rows(target, stats, grad, out)  # (R, 4, K)
    # (N, K, F) and (N, K); every edge's gradient is written by the range of its column.
    owned_gradients = attend_columns(adj, values, source, rows, grad, edge_grads, columns=(0, num_owned), slope=slope)
    # Halo columns are a separate range, since their gradients are sent to other workers.
    halo: tuple[Tensor | None, Tensor | None] = (None, None)
    if halo_values is not None and halo_source is not None:
        columns = (num_owned, adj.num_columns)
        halo = attend_columns(adj, halo_values, halo_source, rows, grad, edge_grads, columns=columns, slope=slope)
    # A target logit enters all edges of its row: (E, K) -> (R, K).
    return *owned_gradients, segment_sum(adj, edge_grads), *halo


# Operators for compiled graphs, with the matrix, its transpose (for a gradient only) and the operands as arguments.
def _matrix(
    num_columns: int,
    indptr: Tensor,
    indices: Tensor,
    turned_indptr: Tensor | None,
    turned_indices: Tensor | None,
    turned_edges: Tensor | None,
) -> Adjacency:
    if turned_indptr is None or turned_indices is None:
        return Adjacency.of_checked(indptr, indices, num_columns=num_columns)
    transpose = Adjacency.of_checked(turned_indptr, turned_indices, num_columns=indptr.numel() - 1)
    return Adjacency.of_checked(indptr, indices, num_columns=num_columns, turned=transpose, turned_edges=turned_edges)


def _num_columns(values: Tensor, halo_values: Tensor | None) -> int:
    return values.shape[0] + (0 if halo_values is None else halo_values.shape[0])


def _operator(*inputs: Any) -> tuple[Tensor, Tensor]:
    *matrix, values, source, target, halo_values, halo_source, slope = inputs
    adj = _matrix(_num_columns(values, halo_values), *matrix)
    return attend_rows(adj, values, source, target, halo_values, halo_source, slope=slope)


def _operator_fake(*inputs: Any) -> tuple[Tensor, Tensor]:
    indptr, values = inputs[0], inputs[5]
    num_rows, (_, num_heads, num_features) = indptr.shape[0] - 1, values.shape
    return values.new_empty((num_rows, num_heads, num_features)), values.new_empty((num_rows, 2, num_heads))


def _operator_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:-1], *output)
    ctx.slope = inputs[-1]
    ctx.mark_non_differentiable(output[1])  # statistics, for the backward pass only


def _operator_backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    gradients = torch.ops.gnnqlab.attend_backward(*ctx.saved_tensors, grad, ctx.slope)
    without_halo = ctx.saved_tensors[8] is None  # halo_values, after 5 tensors of the matrix and 3 operands
    return *[None] * 5, *gradients[:3], *([None] * 2 if without_halo else gradients[3:]), None


def _backward_operator(*inputs: Any) -> tuple[Tensor, ...]:
    matrix, operands, slope = inputs[:5], inputs[5:-1], inputs[-1]
    adj = _matrix(_num_columns(operands[0], operands[3]), *matrix)
    # A schema has no optional results: without a halo its gradients are empty tensors.
    return tuple(operands[0].new_empty(0) if part is None else part for part in _gradients(adj, operands, slope))


def _backward_fake(*inputs: Any) -> tuple[Tensor, ...]:
    return tuple(inputs[5].new_empty(0 if operand is None else operand.shape) for operand in inputs[5:10])


_MATRIX = "Tensor indptr, Tensor indices, Tensor? turned_indptr, Tensor? turned_indices, Tensor? turned_edges"
_OPERANDS = "Tensor values, Tensor source_logits, Tensor target_logits, Tensor? halo_values, Tensor? halo_logits"
native.register(
    f"attend({_MATRIX}, {_OPERANDS}, float slope) -> (Tensor, Tensor)",
    _operator,
    fake=_operator_fake,
    backward=_operator_backward,
    setup=_operator_setup,
)
native.register(
    f"attend_backward({_MATRIX}, {_OPERANDS}, Tensor out, Tensor stats, Tensor grad, float slope)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _backward_operator,
    fake=_backward_fake,
)


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
