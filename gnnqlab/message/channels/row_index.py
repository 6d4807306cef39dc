"""Encode the positions of sent rows in their route: number of rows, then the gaps between positions.

A gap is the number of rows skipped before a row. It takes one byte, plus one byte of 255 for every 255 in it; a byte
of 255 means that the gap continues. A message with all rows has no gaps.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["max_index_bytes", "decode_row_index", "encode_row_index"]

_CONTINUES = 255
_HEAD = 8
"""Bytes of the two leading uint32 numbers: rows, and bytes of gaps."""
_ALIGN = 16
"""Alignment in bytes of the encoded rows that follow."""


def max_index_bytes(num_rows: int) -> int:
    """Return the maximum encoded size of positions in a route with ``num_rows`` rows.

    Example:
        >>> max_index_bytes(0), max_index_bytes(8), max_index_bytes(9)
        (16, 16, 32)
    """
    return _aligned(_HEAD + num_rows + num_rows // _CONTINUES)


def encode_row_index(places: Tensor | None, num_rows: int) -> Tensor:
    """Encode positions as bytes.

    Args:
        places: ascending positions in the route, int64 ``(k,)``; ``None``: all.
        num_rows: rows of the route, below 2^32.

    Returns:
        uint8, at most ``max_index_bytes(num_rows)``.

    Example:
        >>> encode_row_index(torch.tensor([0, 2, 300]), 400)[:12].tolist()  # gaps 0, 1 and 297
        [3, 0, 0, 0, 4, 0, 0, 0, 0, 1, 255, 42]
    """
    count = num_rows if places is None else places.numel()
    gaps = np.empty(0, np.uint8)
    if places is not None and count < num_rows:
        gap_sizes = np.diff(places.cpu().numpy(), prepend=-1) - 1  # (k,)
        ends = (gap_sizes // _CONTINUES + 1).cumsum() - 1  # index of each gap's last byte
        gaps = np.full(int(ends[-1]) + 1 if count else 0, _CONTINUES, np.uint8)
        # All bytes of a gap are 255 except the last, which has the remainder and is below 255.
        gaps[ends] = gap_sizes % _CONTINUES
    index_bytes = np.zeros(_aligned(_HEAD + gaps.size), np.uint8)  # [rows, gap bytes][gaps][padding]
    # Little-endian on every machine, as `decode_row_index` reads them.
    index_bytes[:_HEAD] = np.array([count, gaps.size], "<u4").view(np.uint8)
    index_bytes[_HEAD : _HEAD + gaps.size] = gaps
    return torch.from_numpy(index_bytes)


def decode_row_index(segment: Tensor, num_rows: int) -> tuple[Tensor | None, int]:
    """Decode the positions at the beginning of a message.

    Args:
        segment: uint8; may be longer than the message.
        num_rows: rows of the route.

    Returns:
        The positions, int64 ``(k,)``, ``None`` for all; and the offset of the encoded rows.

    Raises:
        ValueError: if the bytes are not valid positions in a route of ``num_rows`` rows.

    Example:
        >>> decode_row_index(encode_row_index(torch.tensor([0, 2, 300]), 400), 400)
        (tensor([  0,   2, 300]), 16)
        >>> decode_row_index(encode_row_index(None, 400), 400)
        (None, 16)
    """
    count, length = (int(number) for number in segment[:_HEAD].cpu().numpy().view("<u4"))
    # Check the sizes before they index anything: the checksum is verified only after the positions are read.
    if count > num_rows or _HEAD + length > segment.numel():
        raise ValueError(f"a message must have at most its route's {num_rows} rows, got {count} in {length} bytes")
    end = _aligned(_HEAD + length)
    if count == num_rows:
        return None, end
    gaps = segment[_HEAD : _HEAD + length].cpu().numpy()
    ends = gaps != _CONTINUES
    # Rows skipped before each sent row, plus the rows sent before it.
    places = gaps.cumsum(dtype=np.int64)[ends] + np.arange(int(ends.sum()))  # (k,)
    if places.size != count or (count and places[-1] >= num_rows):
        raise ValueError(f"positions must be {count} below {num_rows}, got {places.size} that end at {places[-1:]}")
    return torch.from_numpy(places), end


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
