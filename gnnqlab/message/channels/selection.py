"""Select the rows of a message, and write received rows to the output; here: all rows of a route.

A channel encodes the rows that its selection returns, then calls :meth:`AllRowsOfRoute.encoded`; the receiver parses
and decodes messages through it. Letters: n rows of a route, k of them in a message, D columns.
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
    """Matrix whose ``x[rows]`` are encoded."""
    rows: Tensor
    """Row indices into ``x``, int64 ``(k,)``, in plan order."""
    ids: Tensor
    """Global node ids of the rows, int64 ``(k,)``, in plan order."""
    layout: Layout | None
    """Layout of the rows in the message; ``None``: nothing is encoded."""
    segment: Tensor
    """All bytes of the message, uint8."""
    head: int = 0
    """Number of bytes in front of the codec's."""
    places: Tensor | None = None
    """Positions of the rows in the route, int64 ``(k,)``; ``None``: all."""


@dataclass(frozen=True, eq=False)
class Contents:
    """One received message, parsed."""

    layout: Layout
    """Layout of the rows in the message."""
    body: Tensor
    """All bytes that were sent, uint8; the checksum covers them."""
    encoded: Tensor
    """Bytes written by the codec."""
    places: Tensor | None = None
    """Positions of the rows in the route, int64 ``(k,)``; ``None``: all."""

    def of_rows(self, rows: Tensor) -> Tensor:
        """Select the values of the message's rows, in wire order, from values of all rows of the route."""
        rows, order = rows if self.places is None else rows[self.places], self.layout.order
        return rows if order is None else rows[order]  # as `Layout.to_wire_order`


class AllRowsOfRoute:
    """Selection of channels without a cache: every row of a route is sent."""

    bounded: ClassVar[bool] = False
    """True if a message may be shorter than its buffer; the transport receives it as ``bounded``."""
    encodes_rows: ClassVar[bool] = True
    """True if the rows themselves are encoded; False for differences or sums with a residual."""
    in_place: ClassVar[bool] = True
    """True if contiguous rows may be sent, and received, without a copy where the codec supports it."""
    counts_rows: ClassVar[bool] = False
    """True if the channel counts sent rows and candidate rows."""
    epsilon: float | None = None
    """Threshold used to select the rows of the last message; ``None`` without one."""
    held_bytes: int = 0
    """Bytes of rows stored for messages sent and received."""

    def length(self, layout: Layout) -> int:
        """Return the maximum bytes of a message: size of its buffer, and length in its header."""
        return layout.num_bytes

    def outgoing(
        self, x: Tensor, route: Route, layout: Layout, buffer: Tensor, *, epoch: int, widths: int | Tensor, codec: Codec
    ) -> Outgoing:
        """Select the rows of one message.

        Args:
            x: float32 ``(N, D)``, or bfloat16 where the codec takes it.
            route: rows that could be sent.
            layout: layout of all of them.
            buffer: uint8 ``(length(layout),)``.
            widths: bit-widths in force for all rows of the plan's route.
        """
        return Outgoing(x, route.rows, route.ids, layout, buffer)

    def encoded(self, message: Outgoing, route: Route, codec: Codec, noise: Noise) -> None:
        """Update the state of the selection after a message was encoded."""

    def receives_as(self, route: Route) -> Tensor | None:
        """Return the receiver's copy of a route's rows, ``(n, D)``; ``None``: it equals the last message, decoded."""
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
        """Parse a received message.

        Args:
            segment: receive buffer of :meth:`length` bytes.
            layout: layout of all rows of the route.
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
        """Write the rows of a route to ``out``, or add them; return the tensor that holds them.

        Args:
            again: True if the message was decoded before.
        """
        rows, ids = route.rows, route.ids  # (k,) int64, wire order
        if contents.places is not None or contents.layout.order is not None:
            rows, ids = contents.of_rows(rows), contents.of_rows(ids)
        codec.decode(contents.encoded, contents.layout, out, rows, accumulate=accumulate, ids=ids, noise=noise)
        return out

    def cache_own(self, x: Tensor, rows: Tensor) -> None:
        """Replace this worker's own partial sums by cached ones, before others are added; no effect by default.

        Args:
            x: partial sums, float32 ``(R, D)``, changed in place.
            rows: rows of ``x`` to which received partial sums are added, int64.
        """


def all_places(num_rows: int, like: Tensor) -> Tensor:
    """Return the positions of all rows of a route, int64 ``(n,)``."""
    return torch.arange(num_rows, device=like.device)
