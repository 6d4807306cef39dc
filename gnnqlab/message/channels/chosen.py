"""A channel whose sender chooses rows: places first, then the rows, at most as many bytes as are announced.

Both ends hold what the receiver has of every row of a route, and update it with what is decoded. Letters: n rows of a
route, k of them that travel, D columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.axis_part import complete
from gnnqlab.message.caches.cache import Chooser, Held
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.incoming import Incoming, Layouts
from gnnqlab.message.channels.places import most_bytes, read_places, write_places
from gnnqlab.message.codecs.codec import Noise
from gnnqlab.message.wire import Layout
from gnnqlab.partition.plan import Plan, Route

__all__ = ["ChosenRows"]


class ChosenRows(Channel):
    """Moves those rows of one place that a cache chooses.

    Args:
        chooser: of this place, on this worker.
        held: where to keep what receivers have; whoever gives it keeps it in checkpoints.
    """

    stands_for: ClassVar[dict[str, str]] = {"_held": "halo"}
    _encodes_rows = False

    def __init__(self, *, chooser: Chooser, held: Held | None = None, **of_channel: Any) -> None:
        super().__init__(**of_channel)
        complete(chooser, Chooser)
        self._chooser, self._how = chooser, {"bounded": True}
        self._chosen_by: float | None = None
        self._survives = held is not None
        self._held: Held = {} if held is None else held
        """(``send`` or ``receive``, peer) -> what the receiver has of the route's rows, float32 ``(n, D)``."""

    @property
    def epsilon(self) -> float | None:
        return self._chosen_by

    def as_received(self, x: Tensor) -> None:
        for route in self.plan.send:
            if route.num_rows:
                x.index_copy_(0, route.rows, self._held["send", route.peer])

    def forget(self) -> None:
        """Let everything travel next time, unless what is held is in the checkpoint that this is called for.

        Both ends of every message must do so between the same two epochs.
        """
        if not self._survives:
            self._held.clear()

    @property
    def held_bytes(self) -> int:
        """Bytes of what is held for both ends of the messages."""
        return sum(rows.untyped_storage().nbytes() for rows in self._held.values())

    def _length(self, layout: Layout) -> int:
        return most_bytes(layout.num_rows) + layout.num_bytes

    def _write(self, x: Tensor, route: Route, layout: Layout, epoch: int, noise: Noise) -> Tensor:
        if not layout.num_bytes:
            return self._buffer("send", route.peer, 0, x.device)
        shape = (route.num_rows, x.shape[1])
        held = self._held.get(("send", route.peer))
        fresh = held is None or held.shape != shape
        if held is None or fresh:
            held = self._held["send", route.peer] = x.new_zeros(shape)
        self._chosen_by = self._chooser.epsilon
        places, changes = (None, None) if fresh else self._choose(x, route.rows, held)
        told = write_places(places, route.num_rows)
        places = torch.arange(route.num_rows, device=x.device) if places is None else places
        widths = self._widths["send", route.peer]
        sent = self._codec.layout(_of(widths, places), places.numel(), x.shape[1])
        segment = self._buffer("send", route.peer, self._length(layout), x.device)[: told.numel() + sent.num_bytes]
        segment[: told.numel()] = told.to(x.device)
        body = segment[told.numel() :]
        chosen, difference = _at(route, places), self._chooser.differences
        if difference:
            if changes is None:
                changes = x.index_select(0, chosen.rows).sub_(held if fresh else held.index_select(0, places))
            x = changes
            chosen = replace(chosen, rows=torch.arange(places.numel(), device=x.device))
        spreads = self._encode(x, chosen, sent, body, noise)
        if spreads is not None:
            if fresh or route.peer not in self.spreads:
                self.spreads[route.peer] = spreads.new_zeros(route.num_rows, *spreads.shape[1:])
            self.spreads[route.peer][places] = spreads
        self._keep(body, sent, held, places, route.ids[places], noise)
        self.bytes_payload += sent.payload_bytes
        self.bytes_params += sent.param_bytes
        self.bytes_headers += told.numel()
        self.rows_sent += places.numel()
        self.rows_offered += route.num_rows
        return segment

    def _departing(self, x: Tensor, route: Route, layout: Layout) -> Tensor | None:
        return None  # places go ahead, and what receivers have is kept

    def _keep(self, body: Tensor, sent: Layout, held: Tensor, places: Tensor, ids: Tensor, noise: Noise) -> None:
        """Let what the receiver has follow the message, as it decodes it."""
        places, ids, added = sent.arranged(places), sent.arranged(ids), self._chooser.differences
        self._codec.decode(body, sent, held, places, accumulate=added, ids=ids, noise=noise)

    def _choose(self, x: Tensor, rows: Tensor, held: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the places of the rows that travel, and their differences where the choice has read both anyway."""
        changed = self._chooser.changes(x, rows, held)
        return (self._chooser.choose(x, rows, held), None) if changed is None else changed

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
        return _IncomingChosen(
            posted, out, self.place, self._codec, self._phases, self._received, self._widths, self._held, self._chooser
        )


class _IncomingChosen(Incoming):
    """Rows on their way, of which only their sender knows which they are."""

    def __init__(self, *of_incoming: Any) -> None:
        *plain, self._widths, self._held, self._chooser = of_incoming
        super().__init__(*plain)
        self._read: dict[int, tuple[Tensor, Layout, int]] = {}
        """Peer -> places and layout of the rows that came, and where they begin."""

    def _layout(self, route: Route) -> Layout:
        return self._parts(route)[1]

    def _body(self, route: Route) -> Tensor:
        """Return all that came, the places included: what the checksum is of."""
        segment = super()._body(route)
        if not segment.numel():
            return segment
        _, layout, begin = self._parts(route)
        return segment[: begin + layout.num_bytes]

    def _encoded(self, route: Route) -> Tensor:
        _, layout, begin = self._parts(route)
        return super()._body(route)[begin : begin + layout.num_bytes]

    def _parts(self, route: Route) -> tuple[Tensor, Layout, int]:
        if route.peer not in self._read:
            announced, segment = self._posted.layouts["receive", route.peer], super()._body(route)
            places, begin = self._places(segment, route) if segment.numel() else (None, 0)
            if places is None:
                places = torch.arange(route.num_rows)
            places = places.to(segment.device)
            widths = _of(self._widths["receive", route.peer], places)
            self._read[route.peer] = places, self._codec.layout(widths, places.numel(), announced.columns), begin
        return self._read[route.peer]

    def _places(self, segment: Tensor, route: Route) -> tuple[Tensor | None, int]:
        try:
            return read_places(segment, route.num_rows)
        except ValueError as error:
            if self.headers is None:
                raise
            advice = "its bytes were changed on the way, or the workers disagree about rows"
            raise self.headers.expected[route.peer].refusal("places", "rows of its route", error, advice) from error

    def _ids(self, route: Route) -> Tensor:
        places, layout, _ = self._parts(route)
        return layout.arranged(route.ids[places])

    def _put(self, route: Route, out: Tensor) -> None:
        places, layout, _ = self._parts(route)
        if not route.num_rows:
            return
        if not self._decoded:
            held = self._held.get(("receive", route.peer))
            if held is None or held.shape != (route.num_rows, layout.columns):
                held = self._held["receive", route.peer] = out.new_zeros(route.num_rows, layout.columns)
            ids, noise = layout.arranged(route.ids[places]), self._posted.noise(route.peer)
            places, added = layout.arranged(places), self._chooser.differences
            body = self._encoded(route)
            self._codec.decode(body, layout, held, places, accumulate=added, ids=ids, noise=noise)
        held = self._held["receive", route.peer]
        if self._posted.plan.accumulate:
            out.index_add_(0, route.rows, held)
        else:
            out.index_copy_(0, route.rows, held)


def _at(route: Route, places: Tensor) -> Route:
    """Return a route's rows at some places."""
    return replace(route, rows=route.rows[places], ids=route.ids[places], first=None, kept=places)


def _of(widths: int | Tensor, places: Tensor) -> int | Tensor:
    return widths if isinstance(widths, int) else widths[places]
