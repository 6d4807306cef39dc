"""Normalization, activation and dropout in plain PyTorch, with explicit gradients.

``n = (x - mean) / sqrt(variance + eps)``, ``z = n w + b`` (``z = x`` without a norm), ``h = activation(z)``; dropout
returns ``h`` times ``65536 / (65536 - threshold)`` where 16 random bits are at least the threshold, and 0 elsewhere.

With ``g`` the gradient of ``z`` and ``m(.)`` a row's mean: ``dw = sum g n``, ``db = sum g`` over rows, and
``dx = (g w - m(g w) - n m(g w n)) / sqrt(variance + eps)`` (Ba et al., 2016); ``dx = g`` without a norm.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from gnnqlab.kernels.reference import noise

__all__ = ["ACTIVATIONS", "ELU_OUTPUT", "nodewise", "nodewise_backward"]

ACTIVATIONS = ("none", "relu", "elu", "gelu", "gelu-tanh")
"""Activations in the order of their numbers in the compiled kernels. ELU has α = 1 (Clevert et al., 2016). ``gelu`` is
z times the normal distribution function at z, ``gelu-tanh`` z times ``(1 + tanh(sqrt(2 / π) (z + 0.044715 z^3))) / 2``
(Hendrycks & Gimpel, 2016)."""
ELU_OUTPUT = 5
"""Number of ELU's gradient computed from its output: before the mask if that has its own gradient, else after."""


def nodewise(
    x_ND: Tensor, ids_N: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, activation: int, **mask: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows after dropout, rows before dropout, and ``(mean, 1 / sqrt(variance + eps))`` of each.

    Args:
        x_ND: rows; float64 is preserved, others are computed in float32 and rounded once at the end.
        weight, bias: parameters of the norm, ``(D,)``; ``None``: no norm, and statistics of shape ``(0, 2)``.
        activation: number of the activation.
        mask: threshold, seed, epoch and stream of the noise.
    """
    wide_x = _wide(x_ND)  # (N, D) float32 or float64
    stats, z = wide_x.new_empty((0, 2)), wide_x
    if weight is not None and bias is not None:
        mean = wide_x.mean(1)  # (N,)
        scale = (wide_x.var(1, unbiased=False) + eps).rsqrt()  # (N,)
        stats, z = torch.stack([mean, scale], 1), (wide_x - mean[:, None]) * scale[:, None] * weight + bias
    h = _activate(z, activation)
    # Rounded to the type of x only after the mask, so each element is rounded once.
    dropped_rows = h if mask["threshold"] == 0 else noise.dropout(h, ids_N, **mask)
    return dropped_rows.to(x_ND.dtype), h.to(x_ND.dtype), stats


def nodewise_backward(
    kept_ND: Tensor,
    gradient_ND: Tensor,
    of_whole_ND: Tensor | None,
    ids_N: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    stats_N2: Tensor,
    activation: int,
    factor: float,
    **mask: int,
) -> tuple[Tensor, Tensor]:
    """Compute the gradient of ``x`` and those of weight and bias, ``(2, D)``, or ``(0, D)`` without a norm.

    Args:
        kept_ND: x; after ReLU without a norm alternatively the output, which is positive at the same positions; with
            `ELU_OUTPUT` the output.
        gradient_ND: gradient of the rows after dropout.
        of_whole_ND: gradient of the rows before dropout.
        factor: scale of retained elements; with threshold 0 ``kept_ND`` contains the mask.
    """
    g, x = _wide(gradient_ND), _wide(kept_ND)
    # Threshold 0: no dropout (factor 1), or kept_ND is ReLU's output, whose zeros contain the mask.
    g = g * factor if mask["threshold"] == 0 else noise.dropout(g, ids_N, **mask)
    if activation == ELU_OUTPUT and of_whole_ND is None and mask["threshold"]:
        x = x / factor  # the saved output is after dropout: undo its scale
    if of_whole_ND is not None:
        g = g + of_whole_ND  # h has two users, whose gradients add up
    if weight is None or bias is None:
        return (g * _slope(x, activation)).to(kept_ND.dtype), x.new_empty((0, x.shape[1]))
    mean, scale = stats_N2.to(x.dtype).split(1, dim=1)  # (N, 2) -> 2 x (N, 1)
    n = (x - mean) * scale  # (N, D) normalized rows, computed again
    g = g * _slope(n * weight + bias, activation)  # gradient of z
    gw = g * weight  # gradient of n
    # LayerNorm's gradient has no component along the constant vector and along n.
    dx = (gw - gw.mean(1, keepdim=True) - n * (gw * n).mean(1, keepdim=True)) * scale
    return dx.to(kept_ND.dtype), torch.stack([(g * n).sum(0), g.sum(0)])  # (N, D), (2, D)


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _activate(z: Tensor, activation: int) -> Tensor:
    if activation == 4:
        return functional.gelu(z, approximate="tanh")
    return (lambda z: z, functional.relu, functional.elu, functional.gelu)[activation](z)


def _slope(z: Tensor, activation: int) -> Tensor:
    if activation == 1:  # ReLU
        return (z > 0).to(z.dtype)
    if activation == 2:  # ELU
        return torch.where(z > 0, 1.0, z.clamp(max=0.0).exp())  # the clamp avoids overflow of the other branch
    if activation == 3:  # GELU, z Φ(z): slope Φ(z) + z φ(z)
        density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return torch.special.ndtr(z) + z * density
    if activation == 4:
        tanh = torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))
        return (1 + tanh + z * (1 - tanh**2) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * z**2)) / 2
    if activation == ELU_OUTPUT:
        return torch.where(z > 0, 1.0, z + 1)  # z is ELU's output, exp(input) - 1
    return torch.ones_like(z)
