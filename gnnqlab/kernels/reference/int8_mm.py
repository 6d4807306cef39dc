"""Dense products of int8 codes in plain PyTorch: integers summed exactly in float64."""

from __future__ import annotations

from torch import Tensor

__all__ = ["int8_mm"]


def int8_mm(a: Tensor, b: Tensor) -> Tensor:
    """Return the integers ``a @ b`` as float64, which holds sums of up to 2**39 such products exactly."""
    return a.double() @ b.double()
