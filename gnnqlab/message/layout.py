"""The byte layout of one message: which row stands where.

A message is ``[parameters of all rows][payload of all rows]``, rows grouped by bit-width, widest first, in
plan order within one width. Both sides derive the same :class:`Layout` from the same widths, and the wire
carries exactly ``num_bytes`` bytes: ``ceil(D * b / 8)`` of payload a row, and what its codec says of parameters.
Widest first also keeps every word aligned.
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
    """What the rows of one bit-width take on the wire, in bytes."""

    bits: int
    rows: int
    payload_bytes: int
    param_bytes: int


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of a message that one routine writes: those of a width alone, or all that are narrower."""

    width: int
    """Their width, or the widest that they may have."""
    rows: slice
    """Which rows of the message, in wire order."""
    params: slice
    """Bytes of their parameters in the message."""
    payload: slice
    """Bytes in which their payload is."""
    bits: int | Tensor
    offsets: Tensor | None
    """First byte of each row in ``payload``, int64; ``None`` if rows follow at one width."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where every row of a message stands."""

    num_rows: int
    columns: int
    bits: int | Tensor
    """One width, or uint8 ``(n,)`` in wire order."""
    order: Tensor | None
    """Plan position of each wire position, int64 ``(n,)``; ``None`` if they agree."""
    offsets: Tensor | None
    """First payload byte of each row in wire order, int64 ``(n,)``; ``None`` if rows follow at one width."""
    param_bytes: int
    payload_bytes: int
    shares: tuple[Share, ...]
    _parts: dict[tuple[int, ...], tuple[Part, ...]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def num_bytes(self) -> int:
        return self.param_bytes + self.payload_bytes

    @property
    def bit_widths(self) -> Tensor:
        """Bits of an element of each row in wire order, int64 ``(n,)``."""
        return self.bits.long() if isinstance(self.bits, Tensor) else torch.full((self.num_rows,), self.bits)

    @cached_property
    def digest(self) -> int:
        """64 bits that tell this layout from others: shape, type of the parameters, and every row's width."""
        known = hashlib.blake2b(repr((self.num_rows, self.columns, self.shares)).encode(), digest_size=8)
        if self.order is not None:
            known.update(self.order.cpu().numpy().tobytes())
        return int.from_bytes(known.digest(), "little")

    def rows_of(self, bits: int) -> int:
        """Return how many rows have this width."""
        return sum(share.rows for share in self.shares if share.bits == bits)

    def parts(self, alone: tuple[int, ...] = (32, 16)) -> tuple[Part, ...]:
        """Return the rows of a message by the routine that writes them, in wire order; found once.

        Args:
            alone: widths that have a routine of their own, widest first; one writes all that are narrower.
        """
        if alone not in self._parts:
            self._parts[alone] = tuple(self._cut(alone))
        return self._parts[alone]

    def _cut(self, alone: tuple[int, ...]) -> Iterator[Part]:
        row, param, byte = 0, 0, self.param_bytes
        for width in alone:
            for share in self.shares:
                if share.bits == width and share.rows:
                    ends = row + share.rows, param + share.param_bytes, byte + share.payload_bytes
                    yield Part(width, slice(row, ends[0]), slice(param, ends[1]), slice(byte, ends[2]), width, None)
                    row, param, byte = ends
        if row == self.num_rows:
            return
        bits, offsets = self.bits, self.offsets
        if row:
            assert isinstance(bits, Tensor) and offsets is not None
            bits, offsets = bits[row:], offsets[row:]
        whole = slice(self.param_bytes, self.num_bytes)  # offsets are counted from its beginning
        yield Part(alone[-1] // 2, slice(row, self.num_rows), slice(param, self.param_bytes), whole, bits, offsets)

    def split(self, segment: Tensor) -> tuple[Tensor, Tensor]:
        """Return views of a uint8 segment: its parameters and its payload, both still bytes."""
        return segment[: self.param_bytes], segment[self.param_bytes :]

    def to_wire_order(self, rows: Tensor) -> Tensor:
        """Return plan-ordered values in wire order."""
        return rows if self.order is None else rows[self.order]


def make_layout(widths: int | Tensor, num_rows: int, columns: int, *, param_bytes: ParamBytes) -> Layout:
    """Lay out a message of ``num_rows`` rows.

    Args:
        widths: bits of every row, or uint8 ``(n,)`` in plan order.
        num_rows: n.
        columns: D, elements in a row.
        param_bytes: what the parameters of a row of each width take; the codec says it.

    Raises:
        ValueError: if ``widths`` does not have one entry a row.

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
        raise ValueError(f"widths must have one entry a row, got shape {tuple(widths.shape)} for {num_rows} rows")
    order = torch.argsort(widths, descending=True, stable=True)
    bits = widths[order]
    row_bytes = (bits.long() * columns + 7) // 8
    offsets = row_bytes.cumsum(0) - row_bytes
    values, counts = widths.unique(return_counts=True)
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
    return Share(bits, rows, rows * (-(-columns * bits // 8)), rows * param_bytes(bits, columns))
