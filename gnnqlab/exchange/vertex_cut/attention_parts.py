"""Partial attention over the edges of one matrix, and its merging with other parts.

Letters: M rows, K heads, F features of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.products import Operand, Products
from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["Part", "attend_halves", "attended", "finished", "merged"]


def attend_halves(
    matrices: tuple[Adjacency, Adjacency],
    values: tuple[Operand, Operand],
    source_logits: tuple[Tensor, Tensor],
    target_logits: Tensor,
    *,
    weight: float,
    slope: float,
    products: Products = PLAIN,
) -> tuple[Tensor, Tensor]:
    """Attend to the columns of two matrices with the same rows; each edge of the second counts ``weight`` times.

    With ``(o, m, 1/s)`` the sums, largest logit and reciprocal sum of each half, and m the maximum of both,
    ``t_1 = s_1 exp(m_1 - m)``, ``t_2 = w s_2 exp(m_2 - m)``, the result is ``(t_1 o_1 + t_2 o_2) / (t_1 + t_2)``. This
    is the softmax with ``log w`` added to the logits of the second half, after the leaky ReLU.

    Args:
        matrices: ``(M, N)`` and ``(M, H)``.
        values: ``(N, K, F)`` and ``(H, K, F)``; ``source_logits`` ``(N, K)`` and ``(H, K)``.
        target_logits: ``(M, K)``.
        weight: w, at least 0.
        slope: negative slope of the leaky ReLU.
        products: backend that created the operands ``values``.

    Returns:
        The sums ``(M, K, F)``, and ``(M, 2, K)``: m and ``1 / (t_1 + t_2)``. A row without edges has zeros.

    Example:
        >>> one = Adjacency(torch.tensor([0, 1]), torch.tensor([0], dtype=torch.int32), num_columns=1)
        >>> values, logits = (torch.tensor([[[1.0]]]), torch.tensor([[[5.0]]])), (torch.zeros(1, 1),) * 2
        >>> attend_halves((one, one), values, logits, torch.zeros(1, 1), weight=3.0, slope=0.2)[0].item()
        4.0
    """
    parts = [
        attended(matrix, half, source, target_logits, slope=slope, products=products)
        for matrix, half, source in zip(matrices, values, source_logits, strict=True)
    ]
    return finished(merged(parts[0], parts[1], weight=weight))


Part = tuple[Tensor, Tensor]
"""Sums ``(M, K, F)`` over some edges, and ``(M, 2, K)``: the largest logit (-inf for a row without edges) and 1/s."""


def attended(
    matrix: Adjacency,
    values: Operand,
    source_logits: Tensor,
    target_logits: Tensor,
    *,
    slope: float,
    products: Products = PLAIN,
) -> Part:
    """Attend to the columns of one matrix; the result can be merged with other parts."""
    out, stats = products.attend_rows(matrix, values, source_logits, target_logits, slope=slope)
    is_empty = matrix.indptr.diff() == 0  # (M,) bool
    # The neutral element of `merged`: largest logit -inf, and a sum of 0, whose reciprocal is inf.
    stats[:, 0].masked_fill_(is_empty.unsqueeze(1), -torch.inf)
    stats[:, 1].masked_fill_(is_empty.unsqueeze(1), torch.inf)
    return out, stats


def merged(first: Part, second: Part, *, weight: float = 1.0) -> Part:
    """Merge two parts, in the memory of the first; the second counts ``weight`` times.

    ``(o, m, 1/s)`` are combined as in :func:`attend_halves`.
    """
    (out, stats), (other_out, other_stats) = first, second
    max_logits = torch.maximum(stats[:, 0], other_stats[:, 0])  # (M, K)
    finite_max = torch.where(max_logits.isfinite(), max_logits, 0.0)  # -inf - (-inf) would be NaN in rows without edges
    # Denominators relative to the common maximum: s exp(m - max), from the stored reciprocals 1/s.
    share = torch.exp(stats[:, 0] - finite_max) / stats[:, 1]
    other_share = torch.exp(other_stats[:, 0] - finite_max) / other_stats[:, 1] * weight
    reciprocal = 1.0 / (share + other_share)  # 1 / (t_1 + t_2), (M, K)
    is_empty = reciprocal.isinf()  # rows without edges in both parts
    # In place, in the memory of both parts: neither is used afterwards.
    out *= torch.where(is_empty, 0.0, share * reciprocal).unsqueeze(-1)
    other_out *= torch.where(is_empty, 0.0, other_share * reciprocal).unsqueeze(-1)
    out += other_out
    stats[:, 0], stats[:, 1] = max_logits, reciprocal
    return out, stats


def finished(part: Part) -> Part:
    """Replace the statistics of rows without edges by zeros, as the backward pass requires."""
    out, stats = part
    is_empty = stats[:, 1].isinf()
    stats[:, 0].masked_fill_(is_empty, 0.0)
    stats[:, 1].masked_fill_(is_empty, 0.0)
    return out, stats
