"""Coefficients α of a weighted sum over in-edges, from degrees of the whole graph.

Letters: N rows, E edges.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["aggregation_coefficients", "divisors"]


def aggregation_coefficients(
    kind: str,
    indptr: Tensor,
    indices: Tensor,
    in_degrees: Tensor,
    out_degrees: Tensor,
    edge_weights: Tensor | None = None,
) -> Tensor:
    """Compute α(u, v) of every stored edge of a CSR by destination; see :meth:`gnnqlab.partition.shard.Shard.alpha`."""
    of_rows = divisors(in_degrees[: indptr.numel() - 1])  # (N,) of destinations
    counts = indptr.diff()  # (N,) number of in-edges
    if kind == "symmetric":
        alpha = divisors(out_degrees).rsqrt()[indices.long()] * torch.repeat_interleave(of_rows.rsqrt(), counts)
    elif kind == "mean":
        alpha = torch.repeat_interleave(of_rows.reciprocal(), counts)
    elif kind == "sum":
        alpha = torch.ones(indices.numel(), dtype=torch.float64)
    else:
        raise ValueError(f"alpha must be one of 'symmetric', 'mean', 'sum', got {kind!r}")
    return (alpha if edge_weights is None else alpha * edge_weights).float()  # float64 -> float32, rounded once


def divisors(degrees: Tensor) -> Tensor:
    """Return degrees, or sums of weights, as divisors: float64, with 1 in place of 0."""
    return degrees.double().masked_fill(degrees == 0, 1.0)
