"""Encode rows of 16 and 32 bits in a message of mixed bit-widths.

A row of 16 bits has stochastic codes like smaller bit-widths, two bytes per element, with its own Z and S; its step is
the range over 65535. A row of 32 bits is float32. Both are encoded with tensor operations, one block of rows at a time,
without kernels of their own, because assignments choose these bit-widths for few rows.

Letters: N source rows, n rows of a call, m of one block, D columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec.rows import note_non_finite
from gnnqlab.kernels.noise import uniform16
from gnnqlab.kernels.reference.codec import row_parameters

__all__ = ["decode_16", "decode_32", "encode_16", "encode_32", "row_norms"]

_BLOCK = 1 << 17
"""Elements of a block: half a megabyte of float32, which fits in a cache."""
_TOP = 65535
"""Largest 16-bit code."""


def encode_16(
    x: Tensor,
    rows: Tensor,
    ids: Tensor,
    payload: Tensor,
    params: Tensor,
    ranges: Tensor,
    *,
    seed: int,
    epoch: int,
    stream: int,
) -> None:
    """Round ``x[rows]`` stochastically to 16-bit codes: ``q = floor((x - Z) / S + u)``, ``S = (max - min) / 65535``.

    The sum is computed in fixed point with 15 fractional bits, so ``u`` has 15 random bits here.

    Args:
        x: float32 ``(N, D)``.
        rows, ids: row indices and global node ids, int64 ``(n,)``.
        payload: uint8 ``(2 n D,)``, receives the codes.
        params: float32 or bfloat16 ``(n, 2)``, receives (Z, S).
        ranges: float32 ``(n,)``, receives ``max - min``.

    Raises:
        NonFiniteRow: if a row holds NaN or Inf or its range overflows.
    """
    if x.shape[1] == 0:
        params.zero_()
        ranges.zero_()
        return
    codes = payload.view(torch.int16).view(rows.numel(), x.shape[1])  # (2 n D,) uint8 -> (n, D) int16
    # Blocks of m rows, so that the temporary matrices stay in a cache.
    for block in _blocks(rows.numel(), x.shape[1]):
        x_mD = x[rows[block]]  # a copy, modified in place below
        zero_m1, scale_m1, range_m1, bad_m = row_parameters(x_mD, 16, params.dtype)
        # Reading the mask would synchronize the GPU, so there the row is only recorded.
        if bad_m.is_cuda:
            note_non_finite(bad_m.flatten(), block.start)
        elif bool(bad_m.any()):
            raise NonFiniteRow(block.start + int(bad_m.nonzero()[0, 0]))
        steps_m1 = torch.where(scale_m1 == 0.0, 0.0, 32768.0 / scale_m1)  # 2^15 / S; 0 for constant rows
        # Clamp first in float32, to the largest value below 2^31 that int32 can hold, then exactly to code 65535.
        fixed_mD = x_mD.sub_(zero_m1).mul_(steps_m1).round_().clamp_(max=2.0**31 - 128).to(torch.int32)
        fixed_mD.clamp_(max=_TOP << 15)
        noise_mD = uniform16(ids[block], x.shape[1], seed=seed, epoch=epoch, stream=stream)  # int32 in [0, 65536)
        codes[block] = fixed_mD.add_(noise_mD >> 1).bitwise_right_shift_(15)  # as int16, code 65535 wraps to -1
        params[block] = torch.cat([zero_m1, scale_m1], dim=1).to(params.dtype)
        ranges[block] = range_m1[:, 0]


def row_norms(x: Tensor, rows: Tensor) -> Tensor:
    """Return the norms ``|x[rows]|``, float32 ``(n,)``; squares are summed in float64, where they cannot overflow."""
    norms = torch.empty(rows.numel(), device=x.device)
    for block in _blocks(rows.numel(), x.shape[1]):
        norms[block] = torch.linalg.vector_norm(x.index_select(0, rows[block]), dim=1, dtype=torch.float64)
    return norms


def decode_16(payload: Tensor, params: Tensor, out: Tensor, rows: Tensor, *, accumulate: bool) -> None:
    """Write ``q S + Z`` to ``out[rows]``, or add it there."""
    codes = payload.view(torch.int16).view(rows.numel(), out.shape[1])
    for block in _blocks(rows.numel(), out.shape[1]):
        zero_m1, scale_m1 = params[block].float().split(1, dim=1)  # (m, 2) -> (m, 1) each
        # The mask makes the int16 codes unsigned again.
        values_mD = (codes[block].to(torch.int32) & _TOP).float().mul_(scale_m1).add_(zero_m1)
        _put(values_mD, out, rows[block], accumulate)


def encode_32(x: Tensor, rows: Tensor, payload: Tensor, ranges: Tensor) -> None:
    """Gather rows in float32.

    Raises:
        NonFiniteRow: if a row holds NaN or Inf or its range overflows.
    """
    gathered_nD = payload.view(torch.float32).view(rows.numel(), x.shape[1])  # (4 n D,) uint8 -> (n, D)
    torch.index_select(x, 0, rows, out=gathered_nD)
    if gathered_nD.numel() == 0:
        ranges.zero_()
        return
    torch.sub(gathered_nD.amax(1), gathered_nD.amin(1), out=ranges)  # (n, D) -> (n,)
    is_finite = torch.isfinite(ranges)  # NaN and Inf in a row make its range NaN or Inf
    if is_finite.is_cuda:
        note_non_finite(~is_finite)
    elif not bool(is_finite.all()):
        raise NonFiniteRow(int((~is_finite).nonzero()[0, 0]))


def decode_32(payload: Tensor, out: Tensor, rows: Tensor, *, accumulate: bool) -> None:
    """Write float32 rows to ``out[rows]``, or add them there."""
    _put(payload.view(torch.float32).view(rows.numel(), out.shape[1]), out, rows, accumulate)


def _put(values: Tensor, out: Tensor, rows: Tensor, accumulate: bool) -> None:
    if accumulate:
        out.index_add_(0, rows, values)
    else:
        out.index_copy_(0, rows, values)


def _blocks(num_rows: int, columns: int) -> Iterator[slice]:
    size = max(1, _BLOCK // max(columns, 1))
    for first in range(0, num_rows, size):
        yield slice(first, min(first + size, num_rows))
