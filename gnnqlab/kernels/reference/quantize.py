"""Symmetric quantization in plain PyTorch: largest magnitude, scale, stochastic or nearest rounding."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels.reference.noise import uniform16

__all__ = ["HALF", "SMALLEST", "quantize", "rounded"]

SMALLEST = 2.0**-100
"""Magnitude below which a row is encoded as zeros."""
HALF = 1 << 15
"""Constant in place of the noise that rounds to nearest, in units of 2^-16."""


def quantize(
    x_ND: Tensor, *, levels: int, largest: Tensor | None, ids_N: Tensor | None, seed: int, epoch: int, stream: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes int8 ``(N, D)``, scales ``(N,)`` and a mask of rows that are not finite, bool ``(N,)``.

    See :func:`gnnqlab.kernels.codec.quantize.quantize`; ``ids_N`` is None for rounding to nearest, ``largest`` the
    magnitude for a single scale, None for one scale per row.
    """
    noise: Tensor | int = HALF
    if ids_N is not None:
        noise = uniform16(ids_N, x_ND.shape[1], seed=seed, epoch=epoch, stream=stream)
    return rounded(x_ND, noise, levels=levels, largest=largest)


def rounded(
    x_ND: Tensor, noise_ND: Tensor | int, *, levels: int, largest: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Quantize as `quantize`, with given 16-bit noise per element, or one value for all."""
    rows, columns = x_ND.shape
    if rows == 0 or columns == 0:
        return x_ND.to(torch.int8), x_ND.new_zeros(rows), torch.zeros(rows, dtype=torch.bool, device=x_ND.device)
    largest_N = x_ND.abs().amax(1)  # (N, D) -> (N,)
    bad_N = ~torch.isfinite(largest_N)
    if largest is not None:
        # A non-finite maximum belongs to a refused row; the scales of other rows must stay valid.
        largest_N = torch.where(torch.isfinite(largest), largest, 1.0).expand(rows)
    zero_N = largest_N < SMALLEST  # (N,) bool: rows that become zeros
    largest_N = torch.where(zero_N | bad_N, 1.0, largest_N)  # 1: no division by 0 or Inf
    steps_N = torch.where(zero_N, 0.0, levels * 65536.0 / largest_N)  # 65536 / s: 16 fractional bits
    scales_N = torch.where(zero_N, 0.0, largest_N / levels)
    # NaN and Inf have no defined integers; their rows are refused.
    fixed_ND = (x_ND * steps_N[:, None]).nan_to_num(0.0, 0.0, 0.0).round().to(torch.int64)
    # The arithmetic shift is a floor, also for negative values.
    codes_ND = ((fixed_ND + noise_ND) >> 16).clamp(-levels, levels)
    return codes_ND.to(torch.int8), scales_N.contiguous(), bad_N
