"""Attention over the edges of two matrices side by side, of which one counts more than the other.

Letters: M rows, K heads, F features of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.products import Operand, Products
from gnnqlab.kernels.adjacency import Adjacency

__all__ = ["attend_halves"]


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

    With ``(o, m, 1/s)`` the sums, largest logit and reciprocal sum of each half, and m the larger of both,
    ``t_1 = s_1 exp(m_1 - m)``, ``t_2 = w s_2 exp(m_2 - m)``: the whole is ``(t_1 o_1 + t_2 o_2) / (t_1 + t_2)``. This
    is the softmax with ``log w`` added to the logits of the second half, after the rectifier.

    Args:
        matrices: ``(M, N)`` and ``(M, H)``.
        values: ``(N, K, F)`` and ``(H, K, F)``; ``source_logits`` ``(N, K)`` and ``(H, K)``.
        target_logits: ``(M, K)``.
        weight: w, at least 0.
        slope: of the leaky rectifier.
        products: whose operands the values are.

    Returns:
        The sums ``(M, K, F)``, and ``(M, 2, K)``: m and ``1 / (t_1 + t_2)``. A row without edges has zeros.

    Example:
        >>> one = Adjacency(torch.tensor([0, 1]), torch.tensor([0], dtype=torch.int32), num_columns=1)
        >>> values, logits = (torch.tensor([[[1.0]]]), torch.tensor([[[5.0]]])), (torch.zeros(1, 1),) * 2
        >>> attend_halves((one, one), values, logits, torch.zeros(1, 1), weight=3.0, slope=0.2)[0].item()
        4.0
    """
    outs, largest, sums = [], [], []
    for matrix, half, source in zip(matrices, values, source_logits, strict=True):
        out, stats = products.attend_rows(matrix, half, source, target_logits, slope=slope)
        filled = (matrix.indptr.diff() > 0).unsqueeze(1)
        outs.append(out)
        largest.append(torch.where(filled, stats[:, 0], -torch.inf))
        sums.append(torch.where(filled, 1.0 / stats[:, 1], 0.0))
    most = torch.maximum(*largest)
    most = torch.where(most.isfinite(), most, 0.0)
    first, second = (total * torch.exp(logit - most) for total, logit in zip(sums, largest, strict=True))
    second = second * weight
    total = first + second
    reciprocal = torch.where(total > 0, 1.0 / total, 0.0)
    shares = (part * reciprocal for part in (first, second))
    whole = sum(out * share.unsqueeze(-1) for out, share in zip(outs, shares, strict=True))
    assert isinstance(whole, Tensor)
    return whole, torch.stack((most, reciprocal), 1)
