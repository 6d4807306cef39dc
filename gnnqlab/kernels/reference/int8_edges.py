"""Products along edges of int8 codes in plain PyTorch: codes widened by their scales, then float32."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["rows_of_edges", "sddmm_add", "widened"]


def widened(codes: Tensor, scales: Tensor, heads: int) -> Tensor:
    """Return the float32 values of codes, ``(N, K, F)``."""
    return (codes * scales.unsqueeze(1)).view(codes.shape[0], heads, codes.shape[1] // heads)


def rows_of_edges(indptr: Tensor) -> Tensor:
    """Return each edge's row, int64 ``(E,)``."""
    return torch.arange(len(indptr) - 1, device=indptr.device).repeat_interleave(indptr.diff())


def sddmm_add(indptr: Tensor, indices: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """``out[e] = x[source of e] + y[row of e]``, ``(E, D)``."""
    return x[indices.long()] + y[rows_of_edges(indptr)]
