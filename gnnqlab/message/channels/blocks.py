"""Selection for broadcast: a worker sends its whole block of rows to all others, or skips it.

A flag in front of each message is 1 if the block follows. The owner decides. Owner and receivers store the block as
decoded, so after a skip receivers use a copy that the owner has too. Letters: n rows of the block, D columns.
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
"""Bytes of the flag, padded so that float32 rows after it are aligned."""


class SkippedBlock(AllRowsOfRoute):
    """Selection that sends the block of one round if its owner refreshes it.

    Args:
        rank: rank of this worker.
        chooser: decides on this worker, for this exchange key.
        held: storage of decoded blocks; the caller saves it in checkpoints.
    """

    stands_for: ClassVar[dict[str, str]] = {"held": "halo"}
    bounded = True
    in_place = False
    counts_rows = True

    def __init__(self, rank: int, chooser: BlockChooser, held: Held) -> None:
        self._rank, self._chooser, self.held = rank, chooser, held

    @property
    def held_bytes(self) -> int:  # type: ignore[override]
        """Bytes of the stored copies of this block."""
        return sum(rows.untyped_storage().nbytes() for rows in self.held.values())

    def length(self, layout: Layout) -> int:
        return _HEAD + layout.num_bytes if layout.num_bytes else 0

    def outgoing(
        self, x: Tensor, route: Route, layout: Layout, buffer: Tensor, *, epoch: int, widths: int | Tensor, codec: Codec
    ) -> Outgoing:
        if not layout.num_bytes:
            return Outgoing(x, route.rows, route.ids, None, buffer)
        # Without a copy of the block's present shape there is nothing to reuse, so the block is sent.
        stored_block = self.held.get(("send", self._rank))
        is_new = stored_block is None or stored_block.shape != (layout.num_rows, layout.columns)
        if is_new:
            self.held["send", self._rank] = x.new_zeros(layout.num_rows, layout.columns)  # (n, D)
        is_sent = self._chooser.refreshes(x, None if is_new else stored_block, epoch)
        buffer[:_HEAD] = 0  # the padding is sent too, and must not be uninitialised memory
        buffer[0] = int(is_sent)
        # A skipped block sends only the flag; the message is shorter than its buffer.
        sent_layout, segment = (layout, buffer) if is_sent else (None, buffer[:_HEAD])
        return Outgoing(x, route.rows, route.ids, sent_layout, segment, _HEAD)

    def encoded(self, message: Outgoing, route: Route, codec: Codec, noise: Noise) -> None:
        """Store the decoded block at the owner, identical to the copies of its receivers."""
        layout = message.layout
        assert layout is not None
        stored_block, ids = self.held["send", self._rank], layout.to_wire_order(message.ids)
        places, body = layout.to_wire_order(all_places(layout.num_rows, stored_block)), message.segment[message.head :]
        codec.decode(body, layout, stored_block, places, accumulate=False, ids=ids, noise=noise)

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
        # The flag decides the layout of the body, so reading it synchronizes a GPU.
        if not segment.numel() or bool(segment[0]):
            return Contents(layout, segment, segment[_HEAD:])
        # Skipped: an empty layout, so that traffic counts no rows, and no positions to decode.
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
        """Return the stored block, which may be stale; a message that contains the block updates it first."""
        layout, key = contents.layout, ("receive", route.peer)
        if contents.places is None and route.num_rows:
            # Decode into the stored copy, not into ``out``, because later epochs may reuse it.
            stored_block = self.held.get(key)
            if stored_block is None or stored_block.shape != (layout.num_rows, layout.columns):
                stored_block = self.held[key] = out.new_zeros(layout.num_rows, layout.columns)  # (n, D)
            places, ids = layout.to_wire_order(all_places(layout.num_rows, stored_block)), contents.of_rows(route.ids)
            codec.decode(contents.encoded, layout, stored_block, places, accumulate=False, ids=ids, noise=noise)
        return self.held.get(key, out)
