"""Rows of integer codes with one scale per row: one code per byte, or two codes of at most four bits per byte.

Aggregation reads both formats; every other product needs one code per byte.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.sparse.adjacency import describe

__all__ = ["PAIRED_WIDTHS", "PairedRows", "QuantizedRows", "check_paired", "pack_pairs", "unpack_pairs"]

PAIRED_WIDTHS = (2, 3, 4)
"""Bit-widths of codes that can be packed in pairs."""

_pack = native.declare("pack_pairs", "p i i i p i i")


@dataclasses.dataclass(frozen=True, eq=False)
class QuantizedRows:
    """Rows of int8 codes with one scale per row: row ``i`` represents ``codes[i] * scales[i]``."""

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
    """Rows of codes packed in pairs: the even column in the lower half of a byte, the odd one in the upper half."""

    codes: Tensor
    """Packed codes, uint8 ``(N, ceil(D / 2))``; the upper half of the last byte is unused if D is odd."""
    scales: Tensor
    columns: int
    """Number of columns, D."""

    def __post_init__(self) -> None:
        if self.codes.dtype != torch.uint8 or self.codes.dim() != 2 or self.codes.shape[1] != -(-self.columns // 2):
            raise ValueError(
                f"packed codes must be uint8 of shape (N, {-(-self.columns // 2)}) for {self.columns} columns, got "
                f"{describe(self.codes)}"
            )
        _check_scales(self.scales, self.codes)

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.codes.shape[0], self.columns))


def check_paired(bits: int) -> None:
    """Check that two codes of a bit-width fit into a byte."""
    if bits not in PAIRED_WIDTHS:
        raise ValueError(f"packed codes must have bits among {PAIRED_WIDTHS}, two per byte, got {bits}")


def pack_pairs(rows: QuantizedRows) -> PairedRows:
    """Pack two codes of at most four bits into each byte.

    Args:
        rows: rows of codes in [-8, 7]; other codes are truncated to four bits without a check.

    Example:
        >>> rows = QuantizedRows(torch.tensor([[1, -1, 7]], dtype=torch.int8), torch.ones(1))
        >>> pack_pairs(rows).codes.tolist()
        [[241, 7]]
    """
    (count, columns), codes = rows.shape, rows.codes
    if count == 0 or columns == 0 or not native.active(codes.device):
        return PairedRows(_packed(codes), rows.scales, columns)
    if columns > 1 and codes.stride(1) != 1:
        codes = codes.contiguous()  # the kernel takes any row stride, but adjacent columns
    out = codes.new_empty((count, -(-columns // 2)), dtype=torch.uint8)
    native.call(_pack, codes, codes.stride(0), count, columns, out, out.stride(0))
    return PairedRows(out, rows.scales, columns)


def unpack_pairs(rows: PairedRows) -> QuantizedRows:
    """Unpack codes to one byte each.

    Example:
        >>> unpack_pairs(PairedRows(torch.tensor([[241, 7]], dtype=torch.uint8), torch.ones(1), 3)).codes.tolist()
        [[1, -1, 7]]
    """
    halves = torch.stack((rows.codes & 15, rows.codes >> 4), dim=-1)  # (N, ceil(D / 2), 2)
    codes = halves.flatten(1)[:, : rows.columns].to(torch.int8)  # (N, D)
    # Four bits in two's complement: 8 to 15 are -8 to -1.
    return QuantizedRows(torch.where(codes > 7, codes - 16, codes).contiguous(), rows.scales)


def _packed(codes: Tensor) -> Tensor:
    """Pack codes in plain PyTorch: even columns in the lower halves of bytes."""
    # & 15 retains the lower four bits of a code, which include its sign.
    even_codes, odd_codes = codes[:, ::2] & 15, codes[:, 1::2] & 15
    packed_codes = even_codes.to(torch.uint8)
    # With odd D there is one odd column less, and the last upper half stays 0.
    packed_codes[:, : odd_codes.shape[1]] |= odd_codes.to(torch.uint8) << 4
    return packed_codes


def _check_scales(scales: Tensor, codes: Tensor) -> None:
    if not scales.is_contiguous():
        raise ValueError(f"scales must be contiguous, got strides {scales.stride()}; use scales.contiguous()")
    if scales.dtype != torch.float32 or scales.shape != codes.shape[:1]:
        raise ValueError(f"scales must be float32 of shape ({codes.shape[0]},), one per row, got {describe(scales)}")
