"""Elementwise maximum over layers in plain PyTorch, with the index of the layer that attains it.

The first layer wins a tie, and NaN wins over any other value. With ``l(v, c)`` the winning layer, the gradient of layer
t is that of the join where ``l(v, c) = t``, and 0 elsewhere: equal elements do not share it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["largest", "largest_backward"]


def largest(layers: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Compute the elementwise maximum and its layer, uint8 ``(N, D)``.

    Example:
        >>> best, layer = largest([torch.tensor([[1.0, 5.0]]), torch.tensor([[2.0, 5.0]])])
        >>> best.tolist(), layer.tolist()
        ([[2.0, 5.0]], [[1, 0]])
    """
    maximum = layers[0].clone(memory_format=torch.contiguous_format)
    layer = torch.zeros(maximum.shape, dtype=torch.uint8, device=maximum.device)  # (N, D); a byte numbers 256 layers
    for number, x in enumerate(layers[1:], start=1):
        is_larger = (x > maximum) | x.isnan()  # NaN replaces any value; a tie keeps the earlier layer
        maximum[is_larger], layer[is_larger] = x[is_larger], number
    return maximum, layer


def largest_backward(gradient_ND: Tensor, layer_ND: Tensor, num_layers: int) -> list[Tensor]:
    """Compute the gradient of each layer, ``(N, D)``."""
    return [torch.where(layer_ND == number, gradient_ND, 0.0) for number in range(num_layers)]
