"""A block of rows that its owner sends to all others, or skips.

The sender decides: a bit of its own is in front of the block, in the same message, and says whether the block follows.
Both ends hold the block as it was decoded, so receivers that get a bit alone have what its owner knows them to have.
Letters: n rows of the block, D columns.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gnnqlab.message.caches.cache import BlockChooser, Held
from gnnqlab.message.channels.selection import AllRowsOfRoute, Contents, Outgoing, all_places
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.layout import Layout
from gnnqlab.message.transport.header import Headers
from gnnqlab.partition.plan import Route

__all__ = ["SkippedBlock"]

_HEAD = 16
"""Bytes of the bit in front, so that float32 rows behind it stay aligned."""


class SkippedBlock(AllRowsOfRoute):
    """The block of one round, when its owner says so.

    Args:
        rank: this worker.
        chooser: of this place, on this worker.
        held: where to keep blocks; whoever gives it keeps it in checkpoints.
    """

    stands_for: ClassVar[dict[str, str]] = {"held": "halo"}
    bounded = True
    in_place = False
    counts_rows = True

    def __init__(self, rank: int, chooser: BlockChooser, held: Held) -> None:
        self._rank, self._chooser, self.held = rank, chooser, held

    @property
    def held_bytes(self) -> int:  # type: ignore[override]
        """Bytes of what is held of this block."""
        return sum(rows.untyped_storage().nbytes() for rows in self.held.values())

    def length(self, layout: Layout) -> int:
        return _HEAD + layout.num_bytes if layout.num_bytes else 0

    def outgoing(
        self, x: Tensor, route: Route, layout: Layout, buffer: Tensor, *, epoch: int, widths: int | Tensor, codec: Codec
    ) -> Outgoing:
        if not layout.num_bytes:
            return Outgoing(x, route.rows, route.ids, None, buffer)
        held = self.held.get(("send", self._rank))
        fresh = held is None or held.shape != (layout.num_rows, layout.columns)
        if fresh:
            self.held["send", self._rank] = x.new_zeros(layout.num_rows, layout.columns)
        follows = self._chooser.refreshes(x, None if fresh else held, epoch)
        buffer[:_HEAD] = 0
        buffer[0] = int(follows)
        sent, segment = (layout, buffer) if follows else (None, buffer[:_HEAD])
        return Outgoing(x, route.rows, route.ids, sent, segment, _HEAD)

    def encoded(self, message: Outgoing, route: Route, codec: Codec, noise: Noise) -> None:
        """Update what the owner has, and receivers will have, of the block."""
        layout = message.layout
        assert layout is not None
        held, ids = self.held["send", self._rank], layout.to_wire_order(message.ids)
        places, body = layout.to_wire_order(all_places(layout.num_rows, held)), message.segment[message.head :]
        codec.decode(body, layout, held, places, accumulate=False, ids=ids, noise=noise)

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
        if not segment.numel() or bool(segment[0]):
            return Contents(layout, segment, segment[_HEAD:])
        no_rows = codec.layout(widths if isinstance(widths, int) else widths[:0], 0, layout.columns)
        return Contents(no_rows, segment[:_HEAD], segment[_HEAD:], torch.empty(0, dtype=torch.int64))

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
        """Return the block as it is held, whether it was received now or earlier."""
        layout, key = contents.layout, ("receive", route.peer)
        if contents.places is None and route.num_rows:
            held = self.held.get(key)
            if held is None or held.shape != (layout.num_rows, layout.columns):
                held = self.held[key] = out.new_zeros(layout.num_rows, layout.columns)
            places, ids = layout.to_wire_order(all_places(layout.num_rows, held)), contents.of_rows(route.ids)
            codec.decode(contents.encoded, layout, held, places, accumulate=False, ids=ids, noise=noise)
        return self.held.get(key, out)
