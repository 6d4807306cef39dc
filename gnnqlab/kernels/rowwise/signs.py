"""One sign bit per element (positive or not), sufficient for the gradient of ReLU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["pack_positive", "unpack_positive"]

_PLACES = 2 ** torch.arange(8, dtype=torch.uint8)  # (8,): values of the bits of a byte


def pack_positive(x: Tensor) -> Tensor:
    """Pack the mask of positive elements, eight per byte, lowest bit first: uint8 ``(ceil(numel / 8),)``.

    Example:
        >>> pack_positive(torch.tensor([[0.5, -1.0, 0.0], [2.0, 3.0, float("nan")]])).tolist() == [1 + 8 + 16]
        True
    """
    is_positive = (x > 0).flatten()
    if is_positive.is_cpu:
        return torch.from_numpy(np.packbits(is_positive.numpy(), bitorder="little"))
    flags = torch.nn.functional.pad(is_positive, (0, -is_positive.numel() % 8)).view(-1, 8)  # eight flags per byte
    return (flags * _PLACES.to(x.device)).sum(1, dtype=torch.uint8)  # (bytes, 8) -> (bytes,)


def unpack_positive(packed: Tensor, shape: torch.Size) -> Tensor:
    """Unpack the result of :func:`pack_positive` to a bool tensor of the original shape."""
    count = shape.numel()
    if packed.is_cpu:
        bits = torch.from_numpy(np.unpackbits(packed.numpy(), count=count, bitorder="little"))
        return bits.view(torch.bool).view(shape)  # a bool is a byte of 0 or 1
    # (bytes,) -> (bytes, 8) -> (numel,), without the padding.
    return (packed[:, None] & _PLACES.to(packed.device)).bool().flatten()[:count].view(shape)
