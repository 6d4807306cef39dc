"""Linear codes in plain PyTorch: range, rounding to the nearest level, packing."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels.reference.codec import SMALLEST_RANGE, pack

__all__ = ["encode_linear"]


def encode_linear(
    x_ND: Tensor,
    rows_n: Tensor,
    bits_n: Tensor,
    offsets_n: Tensor,
    payload: Tensor,
    params_n2: Tensor,
    ranges_n: Tensor,
) -> Tensor:
    """Write codes, (Z, S) and ranges; return a mask of invalid rows, bool ``(n,)``.

    See :func:`gnnqlab.kernels.codec.linear.encode_linear`.
    """
    bad_n = torch.zeros(rows_n.numel(), dtype=torch.bool, device=x_ND.device)
    for bits in bits_n.unique().tolist():
        group_m = (bits_n == bits).nonzero()[:, 0]
        x_mD = x_ND[rows_n[group_m]]  # (N, D) -> (m, D)
        zero_m1 = x_mD.amin(dim=1, keepdim=True) + 0.0  # -0 becomes +0
        range_m1 = x_mD.amax(dim=1, keepdim=True) + 0.0 - zero_m1
        constant_m1 = range_m1 < SMALLEST_RANGE
        inverse_m1 = torch.where(constant_m1, 0.0, 2.0**bits / range_m1)
        # Nearest level by + 1/2 and truncation. The maximum gives 2**b, which the clamp maps to the top code;
        # NaN has no defined integer, and its row is refused.
        steps_mD = ((x_mD - zero_m1) * inverse_m1 + 0.5).nan_to_num(0.0).clamp(0, 2**bits - 1)
        packed_mB = pack(steps_mD.to(torch.int64), bits)
        # (m, 1) + (B,) -> (m, B) positions in the payload.
        payload[offsets_n[group_m][:, None] + torch.arange(packed_mB.shape[1], device=payload.device)] = packed_mB
        scale_m1 = torch.where(constant_m1, 0.0, range_m1 / 2.0**bits)
        params_n2[group_m] = torch.cat([zero_m1, scale_m1], dim=1)
        ranges_n[group_m] = range_m1[:, 0]
        bad_n[group_m] = ~torch.isfinite(range_m1)[:, 0]
    return bad_n
