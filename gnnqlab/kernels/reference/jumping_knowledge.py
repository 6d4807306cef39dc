"""Joins of layers in plain PyTorch: side by side, or the largest of each element and the layer that it came from.

Of equal elements the first layer's is taken, and NaN before any other. With ``l(v, c)`` the layer that was taken, the
gradient of layer t is that of the join where ``l(v, c) = t``, and 0 elsewhere: it is not shared among equal elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["largest", "largest_backward"]


def largest(layers: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the largest of each element and its layer, uint8 ``(N, D)``.

    Example:
        >>> best, layer = largest([torch.tensor([[1.0, 5.0]]), torch.tensor([[2.0, 5.0]])])
        >>> best.tolist(), layer.tolist()
        ([[2.0, 5.0]], [[1, 0]])
    """
    best = layers[0].clone(memory_format=torch.contiguous_format)
    layer = torch.zeros(best.shape, dtype=torch.uint8, device=best.device)
    for number, x in enumerate(layers[1:], start=1):
        newer = (x > best) | x.isnan()
        best[newer], layer[newer] = x[newer], number
    return best, layer


def largest_backward(gradient_ND: Tensor, layer_ND: Tensor, num_layers: int) -> list[Tensor]:
    """Return the gradient of each layer, ``(N, D)``."""
    return [torch.where(layer_ND == number, gradient_ND, 0.0) for number in range(num_layers)]
