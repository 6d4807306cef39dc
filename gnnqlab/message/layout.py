"""Byte layout of one message.

A message is ``[parameters of all rows][payload of all rows]``, where parameters are quantization parameters such as
scale and zero-point. Rows are grouped by bit-width, widest first, in plan order within one bit-width; widest first
keeps every word aligned. Sender and receiver derive the same :class:`Layout` from the same bit-widths. A message has
exactly ``num_bytes`` bytes: ``ceil(D * b / 8)`` of payload per row, plus the parameter bytes of its codec.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from gnnqlab.bits.row import ParamBytes

__all__ = ["Layout", "Part", "Share", "make_layout"]


@dataclass(frozen=True)
class Share:
    """Message size of the rows of one bit-width, in bytes."""

    bits: int
    rows: int
    payload_bytes: int
    param_bytes: int


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a message that one routine encodes: those of a single bit-width, or all rows below it."""

    width: int
    """Bit-width of the rows, or the largest one that they may have."""
    rows: slice
    """Range of the rows in wire order."""
    params: slice
    """Byte range of their parameters in the message."""
    payload: slice
    """Byte range of their payload in the message."""
    bits: int | Tensor
    """Common bit-width, or one per row."""
    offsets: Tensor | None
    """First byte of each row in ``payload``, int64; ``None`` if all rows have one bit-width."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Position and size of every row of a message."""

    num_rows: int
    """n."""
    columns: int
    """D."""
    bits: int | Tensor
    """One bit-width, or uint8 ``(n,)`` in wire order."""
    order: Tensor | None
    """Plan position of each wire position, int64 ``(n,)``; ``None`` for the identity."""
    offsets: Tensor | None
    """First payload byte of each row in wire order, int64 ``(n,)``; ``None`` if all rows have one bit-width."""
    param_bytes: int
    payload_bytes: int
    shares: tuple[Share, ...]
    _parts: dict[tuple[int, ...], tuple[Part, ...]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def num_bytes(self) -> int:
        return self.param_bytes + self.payload_bytes

    @property
    def bit_widths(self) -> Tensor:
        """Bit-width of each row in wire order, int64 ``(n,)``."""
        return self.bits.long() if isinstance(self.bits, Tensor) else torch.full((self.num_rows,), self.bits)

    @cached_property
    def digest(self) -> int:
        """64-bit hash of the shape, the parameter bytes and the bit-width of every row."""
        # The order by bit-width, with the number of rows of each, determines the bit-width of every row.
        digest = hashlib.blake2b(repr((self.num_rows, self.columns, self.shares)).encode(), digest_size=8)
        if self.order is not None:
            digest.update(self.order.cpu().numpy().tobytes())
        return int.from_bytes(digest.digest(), "little")

    def rows_of(self, bits: int) -> int:
        """Return the number of rows with this bit-width."""
        return sum(share.rows for share in self.shares if share.bits == bits)

    def parts(self, separate_widths: tuple[int, ...] = (32, 16)) -> tuple[Part, ...]:
        """Return the rows of a message grouped by the routine that encodes them, in wire order (cached).

        Args:
            separate_widths: bit-widths with a routine of their own, widest first; one routine handles all smaller ones.
        """
        if separate_widths not in self._parts:
            self._parts[separate_widths] = tuple(self._cut(separate_widths))
        return self._parts[separate_widths]

    def _cut(self, separate_widths: tuple[int, ...]) -> Iterator[Part]:
        # Next row, next parameter byte and next payload byte, in wire order.
        row, param, byte = 0, 0, self.param_bytes
        for width in separate_widths:
            for share in self.shares:
                if share.bits == width and share.rows:
                    ends = row + share.rows, param + share.param_bytes, byte + share.payload_bytes
                    yield Part(width, slice(row, ends[0]), slice(param, ends[1]), slice(byte, ends[2]), width, None)
                    row, param, byte = ends
        if row == self.num_rows:
            return
        # All remaining rows, of several small bit-widths, form one part.
        bits, offsets = self.bits, self.offsets
        if row:
            assert isinstance(bits, Tensor) and offsets is not None
            bits, offsets = bits[row:], offsets[row:]
        payload = slice(self.param_bytes, self.num_bytes)  # offsets count from the first payload byte of the message
        max_width = separate_widths[-1] // 2
        yield Part(max_width, slice(row, self.num_rows), slice(param, self.param_bytes), payload, bits, offsets)

    def split(self, segment: Tensor) -> tuple[Tensor, Tensor]:
        """Return uint8 views of the parameters and of the payload of a message."""
        return segment[: self.param_bytes], segment[self.param_bytes :]

    def to_wire_order(self, rows: Tensor) -> Tensor:
        """Reorder values from plan order to wire order."""
        return rows if self.order is None else rows[self.order]


def make_layout(widths: int | Tensor, num_rows: int, columns: int, *, param_bytes: ParamBytes) -> Layout:
    """Compute the layout of a message of ``num_rows`` rows.

    Args:
        widths: bit-width of all rows, or of each row in plan order, uint8 ``(n,)``.
        num_rows: n.
        columns: D, elements per row.
        param_bytes: function of the codec: parameter bytes of a row with a given bit-width.

    Raises:
        ValueError: if ``widths`` does not have one entry per row.

    Example:
        >>> from gnnqlab.bits.row import two_parameters
        >>> layout = make_layout(torch.tensor([2, 8, 2], dtype=torch.uint8), 3, 5, param_bytes=two_parameters(4))
        >>> layout.order.tolist(), layout.offsets.tolist(), layout.num_bytes
        ([1, 0, 2], [0, 5, 7], 33)
    """
    if isinstance(widths, int):
        share = _share(widths, num_rows, columns, param_bytes)
        return Layout(num_rows, columns, widths, None, None, share.param_bytes, share.payload_bytes, (share,))
    if widths.shape != (num_rows,):
        raise ValueError(f"widths must have one entry per row, got shape {tuple(widths.shape)} for {num_rows} rows")
    order = torch.argsort(widths, descending=True, stable=True)  # stable: both ends compute the same order
    bits = widths[order]  # (n,) uint8, descending
    row_bytes = (bits.long() * columns + 7) // 8  # each row starts at a whole byte
    offsets = row_bytes.cumsum(0) - row_bytes
    values, counts = widths.unique(return_counts=True)  # ascending, unlike the wire order
    shares = tuple(
        _share(width, count, columns, param_bytes)
        for width, count in zip(values.tolist(), counts.tolist(), strict=True)
    )
    return Layout(
        num_rows,
        columns,
        bits,
        order,
        offsets,
        sum(share.param_bytes for share in shares),
        sum(share.payload_bytes for share in shares),
        shares,
    )


def _share(bits: int, rows: int, columns: int, param_bytes: ParamBytes) -> Share:
    # Each row starts at a whole byte, so its bits are rounded up to bytes.
    return Share(bits, rows, rows * (-(-columns * bits // 8)), rows * param_bytes(bits, columns))
