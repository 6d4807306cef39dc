"""Selection for caches: send only the rows that a cache selects, preceded by their positions in the route.

Sender and receiver store the receiver's copy of every row of a route, and update it with the decoded message. A message
is at most as long as its buffer. Letters: n rows of a route, k of them sent, D columns.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from gnnqlab.axis_part import complete
from gnnqlab.message.caches.cache import Chooser, Held
from gnnqlab.message.channels.row_index import decode_row_index, encode_row_index, max_index_bytes
from gnnqlab.message.channels.selection import AllRowsOfRoute, Contents, Outgoing, all_places
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.layout import Layout
from gnnqlab.message.transport.header import Headers
from gnnqlab.partition.plan import Route

__all__ = ["SelectedRows"]


class SelectedRows(AllRowsOfRoute):
    """Rows of one exchange that a cache selects.

    Args:
        chooser: selects the rows, on this worker, for this exchange key.
        held: storage of the receivers' copies, saved in checkpoints by the caller; by default new.
    """

    stands_for: ClassVar[dict[str, str]] = {"held": "halo"}
    bounded = True
    encodes_rows = False
    in_place = False
    counts_rows = True

    def __init__(self, chooser: Chooser, held: Held | None = None) -> None:
        complete(chooser, Chooser)
        self._chooser = chooser
        self.held: Held = {} if held is None else held
        """(``send`` or ``receive``, peer) -> the receiver's copy of the route's rows, float32 ``(n, D)``."""

    @property
    def held_bytes(self) -> int:  # type: ignore[override]
        """Bytes of the copies, for messages sent and received."""
        return sum(rows.untyped_storage().nbytes() for rows in self.held.values())

    def length(self, layout: Layout) -> int:
        return max_index_bytes(layout.num_rows) + layout.num_bytes if layout.num_bytes else 0

    def outgoing(
        self, x: Tensor, route: Route, layout: Layout, buffer: Tensor, *, epoch: int, widths: int | Tensor, codec: Codec
    ) -> Outgoing:
        if not layout.num_bytes:
            return Outgoing(x, route.rows, route.ids, None, buffer)
        copies = self._held_of("send", route, x, layout.columns)  # None at first: then every row is sent
        self.epsilon = self._chooser.epsilon
        places, changes = (None, None) if copies is None else self.choose(x, route.rows, copies)
        index_bytes = encode_row_index(places, route.num_rows)  # (head,) uint8
        head, is_new = index_bytes.numel(), copies is None
        copies = self.held["send", route.peer]
        places = all_places(route.num_rows, x) if places is None else places  # (k,) int64, ascending
        # The layout of the sent rows only; the receiver derives it from the positions at the front of the message.
        sent_layout = codec.layout(_widths_of(widths, places), places.numel(), layout.columns)
        segment = buffer[: head + sent_layout.num_bytes]  # [positions][parameters][payload]
        segment[:head] = index_bytes.to(x.device)
        rows, ids = route.rows[places], route.ids[places]  # (n,) -> (k,)
        if self._chooser.differences:
            # The codec encodes ``changes``, numbered from 0, in place of rows of x.
            if changes is None:
                changes = x.index_select(0, rows).sub_(copies if is_new else copies.index_select(0, places))  # (k, D)
            x, rows = changes, all_places(places.numel(), x)
        return Outgoing(x, rows, ids, sent_layout, segment, head, places)

    def encoded(self, message: Outgoing, route: Route, codec: Codec, noise: Noise) -> None:
        """Apply the decoded message to the sender's record of the receiver's copy."""
        layout = message.layout
        assert layout is not None and message.places is not None
        # Decode the message instead of copying the rows: the receiver only has the rounded values.
        places, ids = layout.to_wire_order(message.places), layout.to_wire_order(message.ids)
        copies, adds_differences, body = (
            self.held["send", route.peer],
            self._chooser.differences,
            message.segment[message.head :],
        )
        codec.decode(body, layout, copies, places, accumulate=adds_differences, ids=ids, noise=noise)

    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the positions of the rows to send, and their differences if the chooser computes them in one pass."""
        changes = self._chooser.changes(x, rows, held)
        return (self._chooser.choose(x, rows, held), None) if changes is None else changes

    def receives_as(self, route: Route) -> Tensor | None:
        return self.held.get(("send", route.peer))

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
        if not segment.numel():
            return Contents(layout, segment, segment)
        try:
            places, begin = decode_row_index(segment, route.num_rows)  # (k,), offset of the codec's bytes
        except ValueError as error:
            if headers is None:
                raise
            advice = "its bytes were changed in transit, or the workers disagree about rows"
            raise headers.expected[route.peer].refusal("places", "rows of its route", error, advice) from error
        places = all_places(route.num_rows, segment) if places is None else places.to(segment.device)
        received_layout = codec.layout(_widths_of(widths, places), places.numel(), layout.columns)  # k rows
        body = segment[: begin + received_layout.num_bytes]  # the buffer may be longer than the message
        return Contents(received_layout, body, body[begin:], places)

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
        if not route.num_rows:
            return out
        if not again:  # decoding a message twice must not add its differences twice
            self._held_of("receive", route, out, contents.layout.columns)
            copies, layout = self.held["receive", route.peer], contents.layout
            places, ids = contents.of_rows(all_places(route.num_rows, out)), contents.of_rows(route.ids)
            adds_differences = self._chooser.differences
            codec.decode(contents.encoded, layout, copies, places, accumulate=adds_differences, ids=ids, noise=noise)
        copies = self.held["receive", route.peer]
        # All rows of the route are delivered: those just received, and copies of the skipped ones.
        return out.index_add_(0, route.rows, copies) if accumulate else out.index_copy_(0, route.rows, copies)

    def _held_of(self, side: str, route: Route, like: Tensor, columns: int) -> Tensor | None:
        """Return the stored copy of a route; for a new route store zeros and return ``None``."""
        copies = self.held.get((side, route.peer))
        if copies is not None and copies.shape == (route.num_rows, columns):
            return copies
        self.held[side, route.peer] = like.new_zeros(route.num_rows, columns)  # (n, D)
        return None


def _widths_of(widths: int | Tensor, places: Tensor) -> int | Tensor:
    return widths if isinstance(widths, int) else widths[places]  # (n,) -> (k,)
