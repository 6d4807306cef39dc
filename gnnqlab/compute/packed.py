"""Rows in few bits: EXACT's saved activations (Liu et al., ICLR 2022).

Codes are those of messages: ``q = floor((x - Z) / S + u)`` with the smallest element and the step of each row, both in
bfloat16 and rounded outwards before the codes are made, so that ``E[q S + Z] = x`` holds for the saved Z and S. Before
that, D columns may be projected to ``k = ceil(ratio D)``: ``x R`` with ``R`` of ``+-1 / sqrt(k)``, ``E[R R^T] = I``, so
``E[(x R) R^T] = x`` too. R is never stored, but drawn again when needed.

Variance: at most ``S^2 / 4`` per element from rounding; with a projection ``((D - 1) / k) |x|^2`` per row, and D / k
times the variance of rounding k columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gnnqlab.kernels.codec.rows import decode_rows, encode_rows, row_bytes
from gnnqlab.kernels.noise import uniform16

__all__ = ["Counter", "PackedRows", "kept_bytes", "pack", "projected_columns", "projection"]

_METADATA = 4
"""Bytes per row of Z and S in bfloat16."""


@dataclass(frozen=True)
class Counter:
    """Counter of the noise generator; columns of R have a stream of their own."""

    seed: int
    epoch: int
    stream: int

    @property
    def of_columns(self) -> Counter:
        return Counter(self.seed, self.epoch, self.stream + 1)  # the field `sender`, 0 for saved rows


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Rows ``(N, D)`` or ``(N, K, F)`` in codes; a dataclass of tensors, as operands are."""

    payload: Tensor
    """Codes, uint8 ``(N ceil(k b / 8),)``."""
    params: Tensor
    """Z and S, bfloat16 ``(N, 2)``."""
    shape: torch.Size
    bits: int
    columns: int
    """k, columns of a row in codes; less than D after a projection."""
    counter: Counter

    @property
    def nbytes(self) -> int:
        return self.payload.nbytes + self.params.nbytes

    @property
    def projected(self) -> bool:
        return self.columns < self.shape[1:].numel()

    def rows(self) -> Tensor:
        """Decode the codes without lifting a projection, float32 ``(N, k)``."""
        out = torch.empty(self.shape[0], self.columns, device=self.payload.device)  # (N, k)
        decode_rows(self.payload, self.params, self.bits, None, out, None)
        return out

    def projection(self) -> Tensor:
        """Return R, float32 ``(D, k)``."""
        return projection(self.shape[1:].numel(), self.columns, self.counter, self.payload.device)

    def dense(self) -> Tensor:
        """Decode the rows: float32 of the original shape, unbiased."""
        rows = self.rows()
        if self.projected:
            rows = rows @ self.projection().t()  # (N, k) -> (N, D)
        return rows.view(self.shape)


def projected_columns(columns: int, ratio: float) -> int:
    """Return k, the number of columns after projection; at least one.

    Example:
        >>> projected_columns(100, 0.125), projected_columns(3, 1.0)
        (13, 3)
    """
    # 0.07 * 100 is 7.000000000000001 in float64, whose ceiling would be 8.
    return min(columns, max(1, math.ceil(ratio * columns - 1e-9)))


def kept_bytes(rows: int, columns: int, *, bits: int, ratio: float = 1.0) -> int:
    """Return the bytes of saved rows ``(rows, columns)``: ``N ceil(k b / 8) + 4 N``.

    Example:
        >>> kept_bytes(1000, 256, bits=2), 1000 * 256 * 4
        (68000, 1024000)
    """
    return rows * (int(row_bytes(projected_columns(columns, ratio), bits)) + _METADATA)


def pack(x: Tensor, ids: Tensor, *, bits: int, counter: Counter, ratio: float = 1.0) -> PackedRows:
    """Pack rows into codes.

    Args:
        x: float32 ``(N, D)`` or, without a projection, ``(N, K, F)``.
        ids: global ids of the rows, int64 ``(N,)``: a row's noise is the same on every worker.
        bits: 1, 2, 4 or 8.
        counter: of the noise.
        ratio: columns after projection relative to before, in (0, 1]; 1: no projection.

    Raises:
        NonFiniteRow: if a row contains NaN or Inf.

    Example:
        >>> x = torch.tensor([[0.0, 1.0, 3.0]])
        >>> pack(x, torch.tensor([7]), bits=2, counter=Counter(0, 0, 0)).dense().tolist()
        [[0.0, 1.0, 3.0]]
    """
    shape, x = x.shape, x.flatten(1)  # (N, K, F) -> (N, D)
    columns = projected_columns(x.shape[1], ratio)
    if columns < x.shape[1]:
        x = x @ projection(x.shape[1], columns, counter, x.device)  # (N, D) -> (N, k)
    if columns > 1 and x.stride(1) != 1:
        x = x.contiguous()
    payload = torch.empty(x.shape[0] * int(row_bytes(columns, bits)), dtype=torch.uint8, device=x.device)
    params = torch.empty(x.shape[0], 2, dtype=torch.bfloat16, device=x.device)
    rows = torch.arange(x.shape[0], device=x.device)
    # Noise by node id, so that a node's codes do not depend on the worker.
    ids, seed, epoch = ids.long().contiguous(), counter.seed, counter.epoch
    encode_rows(x, rows, ids, bits, None, payload, params, seed=seed, epoch=epoch, stream=counter.stream)
    return PackedRows(payload, params, shape, bits, columns, counter)


def projection(columns: int, kept: int, counter: Counter, device: torch.device | str = "cpu") -> Tensor:
    """Draw R, ``(columns, kept)`` of ``+-1 / sqrt(kept)`` (normalised Rademacher), the same on all workers."""
    rows, draw = torch.arange(columns, device=device), counter.of_columns
    noise = uniform16(rows, kept, seed=draw.seed, epoch=draw.epoch, stream=draw.stream)  # (D, k)
    # The top bit is the sign; with entries of magnitude 1 / sqrt(k), E[R R^T] = I.
    return torch.where(noise < 1 << 15, 1.0, -1.0).div_(math.sqrt(kept))
