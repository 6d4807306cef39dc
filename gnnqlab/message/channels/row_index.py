"""Which rows of a route a message holds, as bytes: how many, then the gaps between their places.

A gap is the number of rows left out before a row. Each takes a byte, and one more for every 255 in it: a byte of 255
says that the gap goes on. A message with all rows has no gaps to tell.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["max_index_bytes", "decode_row_index", "encode_row_index"]

_GOES_ON = 255
_HEAD = 8
"""Bytes of the two numbers in front: rows, bytes of gaps."""
_ALIGN = 16
"""What follows begins at a multiple of it, so that its words are aligned."""


def max_index_bytes(num_rows: int) -> int:
    """Return the most bytes that places of a route with so many rows can take.

    Example:
        >>> max_index_bytes(0), max_index_bytes(8), max_index_bytes(9)
        (16, 16, 32)
    """
    return _aligned(_HEAD + num_rows + num_rows // _GOES_ON)


def encode_row_index(places: Tensor | None, num_rows: int) -> Tensor:
    """Return places as bytes.

    Args:
        places: ascending places in the route, int64 ``(k,)``; ``None``: all.
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
        found = np.diff(places.cpu().numpy(), prepend=-1) - 1
        ends = (found // _GOES_ON + 1).cumsum() - 1
        gaps = np.full(int(ends[-1]) + 1 if count else 0, _GOES_ON, np.uint8)
        gaps[ends] = found % _GOES_ON
    written = np.zeros(_aligned(_HEAD + gaps.size), np.uint8)
    written[:_HEAD] = np.array([count, gaps.size], "<u4").view(np.uint8)
    written[_HEAD : _HEAD + gaps.size] = gaps
    return torch.from_numpy(written)


def decode_row_index(segment: Tensor, num_rows: int) -> tuple[Tensor | None, int]:
    """Return the places at the beginning of a message, and how many bytes they take.

    Args:
        segment: uint8; may be longer.
        num_rows: rows of the route.

    Returns:
        The places, int64 ``(k,)``, ``None`` for all; and where the rest begins.

    Raises:
        ValueError: if these bytes are no places of such a route.

    Example:
        >>> decode_row_index(encode_row_index(torch.tensor([0, 2, 300]), 400), 400)
        (tensor([  0,   2, 300]), 16)
        >>> decode_row_index(encode_row_index(None, 400), 400)
        (None, 16)
    """
    count, length = (int(number) for number in segment[:_HEAD].cpu().numpy().view("<u4"))
    if count > num_rows or _HEAD + length > segment.numel():
        raise ValueError(f"a message has at most its route's {num_rows} rows, got {count} told in {length} bytes")
    end = _aligned(_HEAD + length)
    if count == num_rows:
        return None, end
    gaps = segment[_HEAD : _HEAD + length].cpu().numpy()
    ends = gaps != _GOES_ON
    places = gaps.cumsum(dtype=np.int64)[ends] + np.arange(int(ends.sum()))
    if places.size != count or (count and places[-1] >= num_rows):
        raise ValueError(f"{count} places below {num_rows} must be told, got {places.size} that end at {places[-1:]}")
    return torch.from_numpy(places), end


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN
