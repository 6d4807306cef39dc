"""Rows that their sender chooses: places first, then the rows, at most as many bytes as are announced.

Both ends hold what the receiver has of every row of a route, and update it with what is decoded. Letters: n rows of a
route, k of them that are sent, D columns.
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
    """The rows of one place that a cache chooses.

    Args:
        chooser: of this place, on this worker.
        held: where to keep what receivers have; whoever gives it keeps it in checkpoints.
    """

    stands_for: ClassVar[dict[str, str]] = {"held": "halo"}
    bounded = True
    encodes_rows = False
    in_place = False
    counts_rows = True

    def __init__(self, chooser: Chooser, held: Held | None = None) -> None:
        complete(chooser, Chooser)
        self._chooser, self._survives = chooser, held is not None
        self.held: Held = {} if held is None else held
        """(``send`` or ``receive``, peer) -> what the receiver has of the route's rows, float32 ``(n, D)``."""

    def forget(self) -> None:
        """Send everything next time, unless what is held is in the checkpoint that this is called for.

        Both ends of every message must do so between the same two epochs.
        """
        if not self._survives:
            self.held.clear()

    @property
    def held_bytes(self) -> int:  # type: ignore[override]
        """Bytes of what is held for both ends of the messages."""
        return sum(rows.untyped_storage().nbytes() for rows in self.held.values())

    def length(self, layout: Layout) -> int:
        return max_index_bytes(layout.num_rows) + layout.num_bytes if layout.num_bytes else 0

    def outgoing(
        self, x: Tensor, route: Route, layout: Layout, buffer: Tensor, *, epoch: int, widths: int | Tensor, codec: Codec
    ) -> Outgoing:
        if not layout.num_bytes:
            return Outgoing(x, route.rows, route.ids, None, buffer)
        held = self._held_of("send", route, x, layout.columns)
        self.epsilon = self._chooser.epsilon
        places, changes = (None, None) if held is None else self.choose(x, route.rows, held)
        written = encode_row_index(places, route.num_rows)
        head, fresh = written.numel(), held is None
        held = self.held["send", route.peer]
        places = all_places(route.num_rows, x) if places is None else places
        sent = codec.layout(_of(widths, places), places.numel(), layout.columns)
        segment = buffer[: head + sent.num_bytes]
        segment[:head] = written.to(x.device)
        rows, ids = route.rows[places], route.ids[places]
        if self._chooser.differences:
            if changes is None:
                changes = x.index_select(0, rows).sub_(held if fresh else held.index_select(0, places))
            x, rows = changes, all_places(places.numel(), x)
        return Outgoing(x, rows, ids, sent, segment, head, places)

    def encoded(self, message: Outgoing, route: Route, codec: Codec, noise: Noise) -> None:
        """Update what the receiver has with the message, as it decodes it."""
        layout = message.layout
        assert layout is not None and message.places is not None
        places, ids = layout.to_wire_order(message.places), layout.to_wire_order(message.ids)
        held, added, body = self.held["send", route.peer], self._chooser.differences, message.segment[message.head :]
        codec.decode(body, layout, held, places, accumulate=added, ids=ids, noise=noise)

    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the places of the rows that are sent, and their differences where the choice has read both anyway."""
        changed = self._chooser.changes(x, rows, held)
        return (self._chooser.choose(x, rows, held), None) if changed is None else changed

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
            places, begin = decode_row_index(segment, route.num_rows)
        except ValueError as error:
            if headers is None:
                raise
            advice = "its bytes were changed on the way, or the workers disagree about rows"
            raise headers.expected[route.peer].refusal("places", "rows of its route", error, advice) from error
        places = all_places(route.num_rows, segment) if places is None else places.to(segment.device)
        came = codec.layout(_of(widths, places), places.numel(), layout.columns)
        body = segment[: begin + came.num_bytes]
        return Contents(came, body, body[begin:], places)

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
        if not again:
            self._held_of("receive", route, out, contents.layout.columns)
            held, layout = self.held["receive", route.peer], contents.layout
            places, ids = contents.of_rows(all_places(route.num_rows, out)), contents.of_rows(route.ids)
            added = self._chooser.differences
            codec.decode(contents.encoded, layout, held, places, accumulate=added, ids=ids, noise=noise)
        held = self.held["receive", route.peer]
        return out.index_add_(0, route.rows, held) if accumulate else out.index_copy_(0, route.rows, held)

    def _held_of(self, side: str, route: Route, like: Tensor, columns: int) -> Tensor | None:
        """Return what is held of a route; of a new one ``None``, and from then on zeros."""
        held = self.held.get((side, route.peer))
        if held is not None and held.shape == (route.num_rows, columns):
            return held
        self.held[side, route.peer] = like.new_zeros(route.num_rows, columns)
        return None


def _of(widths: int | Tensor, places: Tensor) -> int | Tensor:
    return widths if isinstance(widths, int) else widths[places]
