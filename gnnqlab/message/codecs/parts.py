"""The rows of a message by the routine that writes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.message.wire import Layout

__all__ = ["Part", "counted_from", "parts_of"]


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of a message that one routine writes: those of a width alone, or all that are narrower."""

    width: int
    """Their width, or the widest that they may have."""
    rows: slice
    params: slice
    """Which they are of the rows with parameters."""
    payload: Tensor
    bits: int | Tensor
    offsets: Tensor | None


def parts_of(layout: Layout, segment: Tensor, alone: tuple[int, ...] = (32, 16)) -> Iterator[Part]:
    """Yield the rows of a message by the routine that writes them, with their part of the payload.

    Args:
        alone: widths that have a routine of their own, widest first; one writes all that are narrower.
    """
    if not layout.num_rows:
        return
    payload, first, exact = layout.split(segment)[1], 0, layout.rows_of(32)
    for width in alone:
        count = layout.rows_of(width)
        if count:
            of = slice(first, first + count)
            size = count * -(-layout.columns * width // 8)
            params = slice(0, 0) if width == 32 else slice(of.start - exact, of.stop - exact)
            yield Part(width, of, params, payload[:size], width, None)
            payload, first = payload[size:], of.stop
    if first == layout.num_rows:
        return
    bits, offsets = layout.bits, layout.offsets
    if first:
        assert isinstance(bits, Tensor) and offsets is not None
        bits, offsets = bits[first:], offsets[first:] - offsets[first]
    of = slice(first, layout.num_rows)
    yield Part(alone[-1] // 2, of, slice(first - exact, layout.num_rows - exact), payload, bits, offsets)


@contextmanager
def counted_from(first: int) -> Iterator[None]:
    """Count the row that a routine refuses from the beginning of the message."""
    try:
        yield
    except NonFiniteRow as error:
        if not first:
            raise
        raise NonFiniteRow(first + error.position) from error
