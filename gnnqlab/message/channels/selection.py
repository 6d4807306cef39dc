"""Select the rows of a message and put received rows into their places; here: all rows of a route.

A channel encodes the rows that its selection returns and calls it again once the bytes are written; a receiver reads
the rows of a message through it. Letters: n rows of a route, k of them in a message, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.layout import Layout
from gnnqlab.message.transport.header import Headers
from gnnqlab.partition.plan import Route

__all__ = ["AllRowsOfRoute", "Contents", "Outgoing", "all_places"]


@dataclass(frozen=True, eq=False)
class Outgoing:
    """One message before it is encoded."""

    x: Tensor
    """The matrix whose ``x[rows]`` are encoded."""
    rows: Tensor
    """Int64 ``(k,)``, in plan order."""
    ids: Tensor
    """Global ids of the rows, int64 ``(k,)``, in plan order."""
    layout: Layout | None
    """Of the rows in the message; ``None``: nothing is encoded."""
    segment: Tensor
    """All bytes of the message."""
    head: int = 0
    """How many of them are in front of those that the codec writes."""
    places: Tensor | None = None
    """Which rows of the route they are, int64 ``(k,)``; ``None``: all."""


@dataclass(frozen=True, eq=False)
class Contents:
    """One message as its receiver reads it."""

    layout: Layout
    """Of the rows in it."""
    body: Tensor
    """All bytes that were sent: those of the checksum."""
    encoded: Tensor
    """The bytes that the codec wrote."""
    places: Tensor | None = None
    """Which rows of the route they are, int64 ``(k,)``; ``None``: all."""

    def of_rows(self, rows: Tensor) -> Tensor:
        """Return the values of the rows in the message, in wire order, from values of all rows of the route."""
        return self.layout.to_wire_order(rows if self.places is None else rows[self.places])


class AllRowsOfRoute:
    """Every row of a route is in its message: the selection of channels without a cache."""

    bounded: ClassVar[bool] = False
    """True if a message may be shorter than its buffer; the transport receives it as ``bounded``."""
    encodes_rows: ClassVar[bool] = True
    """True if the rows themselves are encoded, and not their changes since the last message."""
    in_place: ClassVar[bool] = True
    """True if rows that are bytes of a message already may be sent from their place in memory."""
    counts_rows: ClassVar[bool] = False
    """True if sent rows and offered rows are counted."""
    epsilon: float | None = None
    """Threshold by which the rows of the last message were selected; ``None``: there is none."""
    held_bytes: int = 0
    """Bytes of what is held for both ends of the messages."""

    def length(self, layout: Layout) -> int:
        """Return the most bytes that a message takes: those of its buffer and in its header."""
        return layout.num_bytes

    def outgoing(
        self, x: Tensor, route: Route, layout: Layout, buffer: Tensor, *, epoch: int, widths: int | Tensor, codec: Codec
    ) -> Outgoing:
        """Select the rows of one message.

        Args:
            x: float32 ``(N, D)``, or bfloat16 where the codec takes it.
            route: the rows that could be sent.
            layout: of all of them.
            buffer: uint8 ``(length(layout),)``.
            widths: those in force of all rows of the plan's route.
        """
        return Outgoing(x, route.rows, route.ids, layout, buffer)

    def encoded(self, message: Outgoing, route: Route, codec: Codec, noise: Noise) -> None:
        """Update the state of the selection after the bytes of a message are written."""

    def receives_as(self, route: Route) -> Tensor | None:
        """Return the rows of a route as their receiver has them, ``(n, D)``; ``None``: as the last message decodes."""
        return None

    def contents(
        self,
        segment: Tensor,
        route: Route,
        layout: Layout,
        *,
        widths: int | Tensor,
        codec: Codec,
        headers: Headers | None,
    ) -> Contents:
        """Read what a message holds.

        Args:
            segment: the buffer of :meth:`length` bytes in which it is.
            layout: of all rows of the route.
        """
        return Contents(layout, segment, segment)

    def put(
        self,
        contents: Contents,
        route: Route,
        out: Tensor,
        codec: Codec,
        noise: Noise,
        *,
        accumulate: bool,
        again: bool = False,
    ) -> Tensor:
        """Put the rows of a route into their places in ``out``, or add them there; return where they are then.

        Args:
            again: whether the message was decoded before.
        """
        rows, ids = contents.of_rows(route.rows), contents.of_rows(route.ids)
        codec.decode(contents.encoded, contents.layout, out, rows, accumulate=accumulate, ids=ids, noise=noise)
        return out

    def forget(self) -> None:
        """Send everything next time: without a cache that is always so."""


def all_places(num_rows: int, like: Tensor) -> Tensor:
    """Return the places of all rows of a route, int64 ``(n,)``."""
    return torch.arange(num_rows, device=like.device)
