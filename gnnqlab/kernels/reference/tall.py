"""Products of many rows with one small matrix, in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["tall_mm"]


def tall_mm(x: Tensor, w: Tensor, base: Tensor | None) -> Tensor:
    """Return ``base + x w``."""
    return x @ w if base is None else torch.addmm(base, x, w)
