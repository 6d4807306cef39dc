"""Attention over edges in plain PyTorch, the definition of the compiled kernels, with PyTorch's own gradients.

Shapes: N owned rows, H halo rows, R rows of the matrix, E edges, K heads, F features of a head. Source tensors have
shape ``(N + H, ...)`` here; callers with two buffers concatenate them first.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "attend",
    "attend_columns",
    "attend_rows",
    "edge_rows",
    "sddmm_add",
    "sddmm_dot",
    "segment_softmax",
    "segment_sum",
    "softmax_parts",
    "weighted_sum",
]


def edge_rows(indptr: Tensor) -> Tensor:
    """Return the row of each edge, int64 ``(E,)``."""
    return torch.repeat_interleave(torch.arange(indptr.numel() - 1, device=indptr.device), indptr.diff())


def sddmm_dot(indptr: Tensor, indices: Tensor, x_NKF: Tensor, y_RKF: Tensor) -> Tensor:
    """Compute ``out[e, k] = <x[source of e, k], y[row of e, k]>``, ``(E, K)``."""
    return (x_NKF[indices] * y_RKF[edge_rows(indptr)]).sum(-1)  # (E, K, F) -> (E, K)


def sddmm_add(indptr: Tensor, indices: Tensor, source_NK: Tensor, target_RK: Tensor) -> Tensor:
    """Compute ``out[e, k] = source[source of e, k] + target[row of e, k]``, ``(E, K)``."""
    return source_NK[indices] + target_RK[edge_rows(indptr)]


def segment_sum(indptr: Tensor, values_EK: Tensor) -> Tensor:
    """Sum the values of each row's edges, ``(E, ...) -> (R, ...)``."""
    sums = values_EK.new_zeros((indptr.numel() - 1, *values_EK.shape[1:]))  # (R, ...)
    return sums.index_add(0, edge_rows(indptr), values_EK)


def softmax_parts(indptr: Tensor, logits_EK: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's largest logit and the reciprocal of ``sum exp(logit - max_logit)``; zeros without edges."""
    rows = edge_rows(indptr)
    max_logits = logits_EK.new_full((indptr.numel() - 1, logits_EK.shape[1]), -torch.inf)  # (R, K)
    places = rows.unsqueeze(1).expand_as(logits_EK)  # (E,) -> (E, K)
    # Subtracting the largest logit avoids overflow; it cancels, so it needs no gradient.
    max_logits = max_logits.scatter_reduce(0, places, logits_EK.detach(), "amax")
    sums = segment_sum(indptr, torch.exp(logits_EK - max_logits[rows]))  # (E, K) -> (R, K)
    has_edges = (indptr.diff() > 0).unsqueeze(1)  # (R, 1) bool: rows with edges
    max_logits = torch.where(has_edges, max_logits, 0.0)  # -inf for a row without edges
    # The inner where avoids 1 / 0, whose infinite derivative times 0 would be NaN.
    return max_logits, torch.where(has_edges, 1.0 / torch.where(has_edges, sums, 1.0), 0.0)


def segment_softmax(indptr: Tensor, logits_EK: Tensor) -> Tensor:
    """Compute the softmax over each row's edges, for each head."""
    rows = edge_rows(indptr)
    max_logits, reciprocal = softmax_parts(indptr, logits_EK)
    return torch.exp(logits_EK - max_logits[rows]) * reciprocal[rows]  # (E, K)


def weighted_sum(indptr: Tensor, indices: Tensor, weights_EK: Tensor, x_NKF: Tensor) -> Tensor:
    """Compute ``out[i, k] = sum_e weights[e, k] x[source of e, k]``, ``(R, K, F)``."""
    return segment_sum(indptr, weights_EK.unsqueeze(-1) * x_NKF[indices])  # (E, K, F) -> (R, K, F)


def attend(
    indptr: Tensor, indices: Tensor, values_NKF: Tensor, source_NK: Tensor, target_RK: Tensor, slope: float
) -> Tensor:
    """Compute ``out[i] = sum_e softmax_e(leaky(source + target[i])) values[source of e]``, ``(R, K, F)``."""
    logits = functional.leaky_relu(sddmm_add(indptr, indices, source_NK, target_RK), slope)  # (E, K)
    return weighted_sum(indptr, indices, segment_softmax(indptr, logits), values_NKF)


def attend_rows(
    indptr: Tensor, indices: Tensor, values_NKF: Tensor, source_NK: Tensor, target_RK: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    """Compute ``attend`` and its row statistics ``(R, 2, K)``: the largest logit and the reciprocal of the sum."""
    logits = functional.leaky_relu(sddmm_add(indptr, indices, source_NK, target_RK), slope)
    parts = torch.stack(softmax_parts(indptr, logits), 1)  # 2 x (R, K) -> (R, 2, K)
    return attend(indptr, indices, values_NKF, source_NK, target_RK, slope), parts


def attend_columns(
    turned_indptr: Tensor,
    turned_indices: Tensor,
    values_CKF: Tensor,
    source_CK: Tensor,
    packed_R4K: Tensor,
    grad_RKF: Tensor,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the backward pass of a range of columns, with one entry of ``turned_indices`` per edge.

    ``packed`` holds each row's target logit, largest logit, reciprocal sum and ``<grad, out>``.

    Returns:
        Gradients of the values and source logits of these columns, and of each edge's ``source + target``.
    """
    # Rows of the transpose are columns of the matrix: column and row of each edge, (E,).
    columns, rows = edge_rows(turned_indptr), turned_indices.long()
    target, max_logits, reciprocal, row_dots = packed_R4K[rows].unbind(1)  # (R, 4, K) -> 4 x (E, K)
    sums = source_CK[columns] + target  # (E, K)
    attention = torch.exp(functional.leaky_relu(sums, slope) - max_logits) * reciprocal  # (E, K)
    dots = sddmm_dot(turned_indptr, turned_indices, grad_RKF, values_CKF)  # (E, K): <grad, value> of each edge
    # Softmax: d logit = a (<grad, value> - sum a <grad, value>), and that sum is <grad, out>.
    edge_grads = attention * (dots - row_dots) * torch.where(sums > 0, 1.0, slope)
    values_grad = weighted_sum(turned_indptr, turned_indices, attention, grad_RKF)  # (C, K, F)
    return values_grad, segment_sum(turned_indptr, edge_grads), edge_grads
