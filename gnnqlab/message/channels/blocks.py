"""A channel for one block of rows that its owner sends to all others: written once, in buffers that rounds share.

Where a cache skips blocks, the sender decides: a bit of its own goes ahead of the block, in the same message, and says
whether the block follows. Both ends hold the block as it was decoded, so receivers that get a bit alone have what its
owner knows them to have. Letters: n rows of the block, D columns.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.message.caches.cache import BlockChooser, Held
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.incoming import Incoming, Layouts
from gnnqlab.message.codecs.codec import Noise
from gnnqlab.message.wire import Layout
from gnnqlab.partition.plan import Plan, Route

__all__ = ["BlockBuffers", "BlockChannel", "SkippedBlock"]

BlockBuffers = dict[tuple[str, int], Tensor]
"""(``send`` or ``receive``, slot) -> bytes; whoever shares them sees that no two messages under way do."""
_AHEAD = 16
"""Bytes of the bit that goes ahead, so that float32 rows behind it stay aligned."""


class BlockChannel(Channel):
    """Moves the block of one round.

    Args:
        buffers: shared with the channels of other rounds, layers and directions.
        slot: which of the buffers that receive.
    """

    def __init__(self, *, buffers: BlockBuffers, slot: int, **of_channel: Any) -> None:
        super().__init__(**of_channel)
        self._shared, self._slot = buffers, slot

    def _write(self, x: Tensor, route: Route, layout: Layout, epoch: int, noise: Noise) -> Tensor:
        first = self.plan.send[0].peer
        if route.peer == first:
            return super()._write(x, route, layout, epoch, noise)
        if first in self.spreads:
            self.spreads[route.peer] = self.spreads[first]
        self.bytes_payload += layout.payload_bytes
        self.bytes_params += layout.param_bytes
        return self._buffer("send", route.peer, layout.num_bytes, x.device)

    def _buffer(self, side: str, peer: int, size: int, device: torch.device) -> Tensor:
        """Return the bytes of a side, the same for all peers: a block has one sender, and one text."""
        key = side, self._slot if side == "receive" else 0
        kept = self._shared.get(key)
        if kept is None or kept.numel() < size or kept.device != device:
            kept = self._shared[key] = torch.empty(size, dtype=torch.uint8, device=device)
        return kept[:size]


class SkippedBlock(BlockChannel):
    """Moves the block of one round when its owner says so.

    Args:
        chooser: of this place, on this worker.
        held: where to keep blocks; whoever gives it keeps it in checkpoints.
    """

    stands_for: ClassVar[dict[str, str]] = {"_held": "halo"}

    def __init__(self, *, chooser: BlockChooser, held: Held, **of_channel: Any) -> None:
        super().__init__(**of_channel)
        self._chooser, self._held, self._how = chooser, held, {"bounded": True}
        self._follows = True

    @property
    def held_bytes(self) -> int:
        """Bytes of what is held of this block."""
        return sum(rows.untyped_storage().nbytes() for rows in self._held.values())

    def _length(self, layout: Layout) -> int:
        return _AHEAD + layout.num_bytes

    def _write(self, x: Tensor, route: Route, layout: Layout, epoch: int, noise: Noise) -> Tensor:
        if not layout.num_bytes:
            return self._buffer("send", route.peer, 0, x.device)
        segment = self._buffer("send", route.peer, self._length(layout), x.device)
        if route.peer == self.plan.send[0].peer:
            self._follows = self._decide(x, route, layout, epoch)
            segment[:_AHEAD] = 0
            segment[0] = int(self._follows)
            if self._follows:
                self._encode_block(x, route, layout, segment[_AHEAD:], noise)
        elif route.peer not in self.spreads and self.plan.send[0].peer in self.spreads:
            self.spreads[route.peer] = self.spreads[self.plan.send[0].peer]
        self.bytes_headers += _AHEAD
        self.rows_offered += route.num_rows
        if not self._follows:
            return segment[:_AHEAD]
        self.bytes_payload += layout.payload_bytes
        self.bytes_params += layout.param_bytes
        self.rows_sent += route.num_rows
        return segment

    def _decide(self, x: Tensor, route: Route, layout: Layout, epoch: int) -> bool:
        """Return whether the block travels; its first use always does."""
        held = self._held.get(("send", self.plan.rank))
        fresh = held is None or held.shape != (layout.num_rows, layout.columns)
        if fresh:
            self._held["send", self.plan.rank] = x.new_zeros(layout.num_rows, layout.columns)
        return self._chooser.refreshes(x, None if fresh else held, epoch)

    def _encode_block(self, x: Tensor, route: Route, layout: Layout, body: Tensor, noise: Noise) -> None:
        spreads = self._encode(x, route, layout, body, noise)
        if spreads is not None:
            self.spreads[route.peer] = spreads
        held, ids = self._held["send", self.plan.rank], layout.arranged(route.ids)
        places = layout.arranged(torch.arange(layout.num_rows, device=x.device))
        self._codec.decode(body, layout, held, places, accumulate=False, ids=ids, noise=noise)

    def _landing(
        self, plan: Plan, layouts: Layouts, out: Tensor | torch.Size, device: torch.device
    ) -> tuple[dict[int, Tensor], set[int]]:
        receive = {}
        for route in plan.receive:
            layout = layouts["receive", route.peer]
            size = self._length(layout) if layout.num_bytes else 0
            receive[route.peer] = self._buffer("receive", route.peer, size, device)
        return receive, set()

    def _incoming(self, posted: Any, out: Tensor | torch.Size) -> Incoming:
        return _IncomingBlock(
            posted, out, self.place, self._codec, self._phases, self._received, self._widths, self._held
        )


class _IncomingBlock(Incoming):
    """A block on its way, or the bit that says that it stayed home."""

    def __init__(self, *of_incoming: Any) -> None:
        *plain, self._widths, self._held = of_incoming
        super().__init__(*plain)

    def decode(self, out: Tensor | None = None) -> Tensor:
        """Return the block as it is held, whether it came now or earlier; the sender has nothing to decode."""
        out = super().decode(out)
        for route in self._posted.plan.receive:
            out = self._held.get(("receive", route.peer), out)
        return out

    def _follows(self, route: Route) -> bool:
        segment = super()._body(route)
        return bool(segment[0]) if segment.numel() else True

    def _layout(self, route: Route) -> Layout:
        announced = super()._layout(route)
        if self._follows(route):
            return announced
        widths = self._widths["receive", route.peer]
        return self._codec.layout(widths if isinstance(widths, int) else widths[:0], 0, announced.columns)

    def _body(self, route: Route) -> Tensor:
        """Return all that came, the bit included: what the checksum is of."""
        segment = super()._body(route)
        return segment if self._follows(route) else segment[:_AHEAD]

    def _encoded(self, route: Route) -> Tensor:
        return super()._body(route)[_AHEAD:]

    def _ids(self, route: Route) -> Tensor:
        return super()._ids(route) if self._follows(route) else route.ids[:0]

    def _put(self, route: Route, out: Tensor) -> None:
        layout, key = self._layout(route), ("receive", route.peer)
        if not route.num_rows or not self._follows(route):
            return
        held = self._held.get(key)
        if held is None or held.shape != (layout.num_rows, layout.columns):
            held = self._held[key] = out.new_zeros(layout.num_rows, layout.columns)
        places = layout.arranged(torch.arange(layout.num_rows, device=held.device))
        came, ids, noise = self._encoded(route), layout.arranged(route.ids), self._posted.noise(route.peer)
        self._codec.decode(came, layout, held, places, accumulate=False, ids=ids, noise=noise)
