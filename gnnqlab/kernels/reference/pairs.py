"""Two codes of four bits a byte, in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["pack", "unpack"]


def pack(codes_ND: Tensor) -> Tensor:
    """Return uint8 ``(N, ceil(D / 2))`` of int8 codes in [-8, 7], even columns in the lower halves."""
    even, odd = codes_ND[:, ::2] & 15, codes_ND[:, 1::2] & 15
    packed = even.to(torch.uint8)
    packed[:, : odd.shape[1]] |= odd.to(torch.uint8) << 4
    return packed


def unpack(pairs: Tensor, columns: int) -> Tensor:
    """Return the int8 codes ``(N, D)`` of packed ones."""
    halves = torch.stack((pairs & 15, pairs >> 4), dim=-1).flatten(1)[:, :columns].to(torch.int8)
    return torch.where(halves > 7, halves - 16, halves).contiguous()
