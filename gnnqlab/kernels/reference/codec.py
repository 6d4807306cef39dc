"""The message codec in plain PyTorch: range, stochastic rounding, packing, and decoding.

Shapes: n rows of a call, D columns, B bytes of a packed row. All arithmetic is float32, every operation rounded
separately (no fused multiply-add), so that the compiled kernels can give identical bytes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels.reference.noise import uniform16

__all__ = ["decode_rows", "encode_rows", "pack", "row_parameters", "unpack"]

SMALLEST_RANGE = 2.0**-100
"""Smallest range of a non-constant row: below it 65536 / S could overflow."""


def encode_rows(
    x_ND: Tensor,
    rows_n: Tensor,
    ids_n: Tensor,
    bits_n: Tensor,
    offsets_n: Tensor,
    payload: Tensor,
    params_n2: Tensor,
    *,
    seed: int,
    epoch: int,
    stream: int,
    ranges_n: Tensor | None = None,
) -> int:
    """Write the codes of ``x[rows]`` into ``payload`` and (Z, S) into ``params``.

    Returns:
        The first position in ``rows`` of a row that cannot be encoded, or -1.
    """
    first_bad = rows_n.numel()
    for bits in bits_n.unique().tolist():  # one vectorized pass per bit-width
        group_m = (bits_n == bits).nonzero()[:, 0]
        x_mD = x_ND[rows_n[group_m].long()].float()  # (N, D) -> (m, D)
        zero_m1, scale_m1, range_m1, bad_m = row_parameters(x_mD, bits, params_n2.dtype)
        noise_mD = uniform16(ids_n[group_m], x_mD.shape[1], seed=seed, epoch=epoch, stream=stream)  # (m, D) int32
        codes_mD = _round_up_by_noise(x_mD, zero_m1, scale_m1, bits, noise_mD)

        packed_mB = pack(codes_mD, bits)  # (m, D) -> (m, B)
        columns_B = torch.arange(packed_mB.shape[1], device=payload.device)  # (B,)
        payload[offsets_n[group_m][:, None] + columns_B] = packed_mB  # (m, 1) + (B,): (m, B) positions
        params_n2[group_m] = torch.cat([zero_m1, scale_m1], dim=1).to(params_n2.dtype)  # exact, already rounded
        if ranges_n is not None:
            ranges_n[group_m] = range_m1[:, 0]
        if bad_m.any():
            first_bad = min(first_bad, int(group_m[bad_m][0]))  # groups are by bit-width, not by position
    return first_bad if first_bad < rows_n.numel() else -1


def decode_rows(
    payload: Tensor,
    params_n2: Tensor,
    bits_n: Tensor,
    offsets_n: Tensor,
    out_MD: Tensor,
    rows_n: Tensor,
    *,
    accumulate: bool = False,
) -> None:
    """Write (or add) ``q * S + Z`` to ``out[rows]``."""
    columns = out_MD.shape[1]
    for bits in bits_n.unique().tolist():
        group_m = (bits_n == bits).nonzero()[:, 0]
        columns_B = torch.arange(-(-columns * bits // 8), device=payload.device)
        codes_mD = unpack(payload[offsets_n[group_m][:, None] + columns_B], bits, columns)  # (m, B) -> (m, D)
        zero_m1, scale_m1 = params_n2[group_m].float().split(1, dim=1)  # (m, 2) -> 2 x (m, 1)
        values_mD = codes_mD.float() * scale_m1 + zero_m1
        target_m = rows_n[group_m].long()
        # Targets are distinct, so no sum is lost.
        out_MD[target_m] = out_MD[target_m] + values_mD if accumulate else values_mD


def row_parameters(x_mD: Tensor, bits: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return zero-point, scale and range of each row, float32 ``(m, 1)``, and a mask of invalid rows, bool ``(m,)``.

    In bfloat16 the zero-point is rounded down and the scale up *before* a code is computed: every value stays between
    Z and Z + (2**b - 1) S, and computing codes from the rounded parameters keeps decoding unbiased.
    """
    zero_m1 = x_mD.amin(dim=1, keepdim=True) + 0.0  # -0 becomes +0
    top_m1 = x_mD.amax(dim=1, keepdim=True) + 0.0
    range_m1 = top_m1 - zero_m1
    levels = 2**bits - 1
    if dtype == torch.bfloat16:
        zero_m1 = _bfloat16_down(zero_m1)
        span_m1 = top_m1 - zero_m1  # from the rounded Z, so that the top code reaches the maximum
        scale_m1 = _bfloat16_up(span_m1 / levels)
    else:
        span_m1 = range_m1
        scale_m1 = span_m1 / levels
    scale_m1 = torch.where(span_m1 < SMALLEST_RANGE, 0.0, scale_m1)  # S = 0 marks a constant row
    bad_m = ~(torch.isfinite(span_m1) & torch.isfinite(scale_m1))[:, 0]  # (m, 1) -> (m,); NaN, Inf or overflow
    return zero_m1, scale_m1, range_m1, bad_m


def _round_up_by_noise(x_mD: Tensor, zero_m1: Tensor, scale_m1: Tensor, bits: int, noise_mD: Tensor) -> Tensor:
    """Compute ``q = floor((x - Z) / S + u)`` in fixed point with 16 fractional bits; the clamp keeps q below 2**b."""
    steps_mD = torch.round((x_mD - zero_m1) * (65536.0 / scale_m1))  # units of S / 65536
    steps_mD = torch.where(scale_m1 == 0.0, 0.0, steps_mD)  # 0 * inf of a constant row is NaN
    # NaN has no defined integer; its row is refused.
    fixed_mD = steps_mD.nan_to_num(0.0).to(torch.int64).clamp(0, (2**bits - 1) << 16)
    return (fixed_mD + torch.where(scale_m1 == 0.0, 0, noise_mD)) >> 16


def pack(codes_mD: Tensor, bits: int) -> Tensor:
    """Pack codes into bytes, the first column in the lowest bits, each row in whole bytes: uint8 ``(m, B)``.

    Codes whose bit-width does not divide 8 continue in the next byte: eight codes of 3 bits fill three bytes.
    """
    if 8 % bits:
        # Split each code into single bits, (m, D) -> (m, D * bits), and pack these.
        return pack((codes_mD[..., None] >> torch.arange(bits, device=codes_mD.device) & 1).flatten(1), 1)
    per_byte = 8 // bits
    padded_mD = torch.nn.functional.pad(codes_mD, (0, -codes_mD.shape[1] % per_byte))  # (m, D) -> (m, B * per_byte)
    shifts = torch.arange(per_byte, device=codes_mD.device) * bits  # (per_byte,)
    return (padded_mD.unflatten(1, (-1, per_byte)) << shifts).sum(dim=2).to(torch.uint8)  # (m, B, per_byte) -> (m, B)


def unpack(packed_mB: Tensor, bits: int, columns: int) -> Tensor:
    """Unpack bytes to codes, uint8 ``(m, columns)``; the inverse of `pack`."""
    if 8 % bits:
        # (m, B) -> (m, D * bits) -> (m, D, bits) -> (m, D)
        bit_planes = unpack(packed_mB, 1, columns * bits).unflatten(1, (columns, bits))
        return (bit_planes << torch.arange(bits, device=packed_mB.device).to(torch.uint8)).sum(2, dtype=torch.uint8)
    shifts = (torch.arange(8 // bits, device=packed_mB.device) * bits).to(torch.uint8)
    # (m, B) -> (m, B, per_byte) -> (m, D), without the padding of the last byte.
    return ((packed_mB[:, :, None] >> shifts) & (2**bits - 1)).flatten(1)[:, :columns]


def _bfloat16_down(x: Tensor) -> Tensor:
    """Round down to bfloat16, returned as float32."""
    word = x.view(torch.int32)
    high_word = word & -65536  # towards zero
    # Truncation rounds a negative value up, so an inexact one needs the next larger magnitude.
    return torch.where((word < 0) & (word != high_word), high_word + 65536, high_word).view(torch.float32)


def _bfloat16_up(x: Tensor) -> Tensor:
    """Round a non-negative x up to bfloat16, returned as float32."""
    # The addition carries into the upper half unless the lower half is zero.
    return ((x.view(torch.int32) + 65535) & -65536).view(torch.float32)
