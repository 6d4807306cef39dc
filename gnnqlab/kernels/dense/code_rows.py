"""Rows of integer codes with a scale each: a byte a code, or two codes of four bits a byte.

Sums over neighbours read both; every other product takes a byte a code.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.sparse.adjacency import describe

__all__ = ["PAIRED_WIDTHS", "PairedRows", "QuantizedRows", "check_paired", "pack_pairs", "unpack_pairs"]

PAIRED_WIDTHS = (2, 3, 4)
"""Bits of codes of which a byte holds two."""

_pack = native.declare("pack_pairs", "p i i i p i i")


@dataclasses.dataclass(frozen=True, eq=False)
class QuantizedRows:
    """Rows of int8 codes with a scale each: row ``i`` stands for ``codes[i] * scales[i]``."""

    codes: Tensor
    scales: Tensor

    def __post_init__(self) -> None:
        if self.codes.dtype != torch.int8 or self.codes.dim() != 2:
            raise ValueError(f"codes must be int8 of shape (N, D), got {describe(self.codes)}")
        _check_scales(self.scales, self.codes)

    @property
    def shape(self) -> torch.Size:
        return self.codes.shape


@dataclasses.dataclass(frozen=True, eq=False)
class PairedRows:
    """The same rows with two codes of at most four bits a byte, that of the even column in its lower half."""

    codes: Tensor
    """uint8 ``(N, ceil(D / 2))``; the upper half of the last byte is of no column where D is odd."""
    scales: Tensor
    columns: int
    """D."""

    def __post_init__(self) -> None:
        if self.codes.dtype != torch.uint8 or self.codes.dim() != 2 or self.codes.shape[1] != -(-self.columns // 2):
            raise ValueError(
                f"packed codes must be uint8 of shape (N, {-(-self.columns // 2)}), two of {self.columns} columns a "
                f"byte, got {describe(self.codes)}"
            )
        _check_scales(self.scales, self.codes)

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.codes.shape[0], self.columns))


def check_paired(bits: int) -> None:
    """Refuse a width of which a byte does not hold two codes."""
    if bits not in PAIRED_WIDTHS:
        raise ValueError(f"packed codes must have bits among {PAIRED_WIDTHS}, two to a byte, got {bits}")


def pack_pairs(rows: QuantizedRows) -> PairedRows:
    """Put two codes of at most four bits into a byte.

    Args:
        rows: of codes in [-8, 7]; of others the lower four bits are kept, unchecked.

    Example:
        >>> rows = QuantizedRows(torch.tensor([[1, -1, 7]], dtype=torch.int8), torch.ones(1))
        >>> pack_pairs(rows).codes.tolist()
        [[241, 7]]
    """
    (count, columns), codes = rows.shape, rows.codes
    if count == 0 or columns == 0 or not native.active(codes.device):
        return PairedRows(_packed(codes), rows.scales, columns)
    if columns > 1 and codes.stride(1) != 1:
        codes = codes.contiguous()
    out = codes.new_empty((count, -(-columns // 2)), dtype=torch.uint8)
    native.call(_pack, codes, codes.stride(0), count, columns, out, out.stride(0))
    return PairedRows(out, rows.scales, columns)


def unpack_pairs(rows: PairedRows) -> QuantizedRows:
    """Give each code a byte.

    Example:
        >>> unpack_pairs(PairedRows(torch.tensor([[241, 7]], dtype=torch.uint8), torch.ones(1), 3)).codes.tolist()
        [[1, -1, 7]]
    """
    halves = torch.stack((rows.codes & 15, rows.codes >> 4), dim=-1)  # (N, ceil(D / 2), 2)
    codes = halves.flatten(1)[:, : rows.columns].to(torch.int8)  # (N, D)
    return QuantizedRows(torch.where(codes > 7, codes - 16, codes).contiguous(), rows.scales)


def _packed(codes: Tensor) -> Tensor:
    """Pack codes in plain PyTorch: even columns in the lower halves of bytes."""
    even, odd = codes[:, ::2] & 15, codes[:, 1::2] & 15
    packed = even.to(torch.uint8)
    packed[:, : odd.shape[1]] |= odd.to(torch.uint8) << 4
    return packed


def _check_scales(scales: Tensor, codes: Tensor) -> None:
    if not scales.is_contiguous():
        raise ValueError(f"scales must be contiguous, got strides {scales.stride()}; use scales.contiguous()")
    if scales.dtype != torch.float32 or scales.shape != codes.shape[:1]:
        raise ValueError(f"scales must be float32 of shape ({codes.shape[0]},), one per row, got {describe(scales)}")
