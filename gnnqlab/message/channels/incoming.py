"""Rows on their way to a worker: bytes that are waited for, and then decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.codecs.entropy import Counting, code_entropies
from gnnqlab.message.place import Phases, Place
from gnnqlab.message.report import Sent, report_decoded
from gnnqlab.message.transport.header import Headers
from gnnqlab.message.transport.transport import Transfer
from gnnqlab.message.wire import Layout
from gnnqlab.observe import NO_OBSERVERS, Observers
from gnnqlab.partition.plan import Plan, Route

__all__ = ["Arrival", "Incoming", "Layouts", "Posted", "Received"]

Layouts = dict[tuple[str, int], Layout]
"""(``send`` or ``receive``, peer) -> layout."""


@dataclass(frozen=True)
class Arrival:
    """One message as its receiver saw it: a row per bit-width of ``run.traffic``."""

    layer: int
    direction: str
    sender: int
    receiver: int
    layout: Layout
    seconds: float
    """From the receiver's post until the whole message had come."""
    posted: float = 0.0
    """When the receiver posted, by ``time.perf_counter``."""
    round: int = 0
    entropies: Mapping[int, float] = field(default_factory=dict)
    """Width -> entropy of its codes in bits an element, where codes were counted."""


@dataclass
class Received:
    """What came over a channel; rows under way write it down when they are waited for."""

    counting: Counting = field(default_factory=Counting)
    observers: Observers = NO_OBSERVERS
    wire_s: float = 0.0
    arrivals: list[Arrival] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Posted:
    """What a channel posted, and where the answers arrive."""

    plan: Plan
    layouts: Layouts
    transfer: Transfer
    receive: dict[int, Tensor]
    landed: set[int]
    headers: Headers | None
    sampled_in: int | None
    noise: Callable[[int], Noise]
    """Peer -> the noise of the message that comes from it."""
    read: Callable[[], None] | None = None
    """Called once the bytes have been read."""


class Incoming:
    """Rows on their way to this worker; they stay bytes until they are decoded.

    Bytes hold their buffers until the channel posts again.
    """

    def __init__(
        self, posted: Posted, out: Tensor | torch.Size, place: Place, codec: Codec, phases: Phases, received: Received
    ) -> None:
        self._posted, self._out, self._place = posted, out, place
        self._codec, self._phases, self._received = codec, phases, received
        self._waited = self._decoded = False

    @property
    def sampled_in(self) -> int | None:
        """Epoch whose sample these rows are; ``None``: all rows."""
        return self._posted.sampled_in

    @property
    def headers(self) -> Headers | None:
        """Headers that went and came with the messages."""
        return self._posted.headers

    def wait(self) -> None:
        """Return when every byte has come.

        Raises:
            UnexpectedMessage: if a message has a header that does not belong here.
        """
        if self._waited:
            return
        posted, received = self._posted, self._received
        with self._phases("wait"):
            posted.transfer.wait()
        self._waited = True
        received.wire_s += posted.transfer.wire_s
        for route in posted.plan.receive:
            layout = self._layout(route)
            seconds, started = posted.transfer.seconds.get(route.peer, 0.0), posted.transfer.started
            layer, direction, round_ = self._place
            found = self._count(route)
            received.arrivals.append(
                Arrival(layer, direction, route.peer, posted.plan.rank, layout, seconds, started, round_, found)
            )

    def decode(self, out: Tensor | None = None) -> Tensor:
        """Return ``out`` with the rows in their places, or added there, peer by peer in rank order.

        Rows that replace others are decoded once; rows that are added, as often as asked.

        Args:
            out: as in ``post``, where only its size was said; zeros of that size by default.

        Raises:
            UnexpectedMessage: if a message is not the expected one, or has not the checksum of its header.
        """
        self.wait()
        posted = self._posted
        if out is None:
            out = self._out if isinstance(self._out, Tensor) else self._zeros(self._out)
        if self._decoded and not posted.plan.accumulate:
            return out
        with self._phases("decode"):
            for route in sorted(posted.plan.receive, key=lambda route: route.peer):
                self._check(route)
                if route.peer not in posted.landed:
                    self._put(route, out)
                if self._received.observers.message_decoded and not self._decoded and self._layout(route).num_rows:
                    layout, body, noise = self._layout(route), self._encoded(route), posted.noise(route.peer)
                    rank, ids = posted.plan.rank, self._ids(route)
                    sent = Sent(self._place, route.peer, rank, ids, self._codec, layout, body, noise)
                    report_decoded(self._received.observers, sent)
        if posted.read is not None and not self._decoded:
            posted.read()
        self._decoded = True
        return out

    def _zeros(self, size: torch.Size) -> Tensor:
        bodies = iter(self._posted.receive.values())
        return torch.zeros(size, device=next((body.device for body in bodies), None))

    def _layout(self, route: Route) -> Layout:
        """Return the layout of what came from a peer."""
        return self._posted.layouts["receive", route.peer]

    def _body(self, route: Route) -> Tensor:
        """Return the bytes that came from a peer."""
        return self._posted.receive[route.peer]

    def _encoded(self, route: Route) -> Tensor:
        """Return the bytes that a codec wrote of what came from a peer."""
        return self._body(route)

    def _count(self, route: Route) -> dict[int, float]:
        """Return the entropies of a message's codes, if they are counted and there are any."""
        if not self._received.counting.on or not self._codec.integer_codes:
            return {}
        return code_entropies(self._layout(route), self._encoded(route))

    def _check(self, route: Route) -> None:
        body = self._body(route)
        if self.headers is not None and body.numel():
            self.headers.verify(route.peer, body)

    def _ids(self, route: Route) -> Tensor:
        """Return the global ids of the rows that came from a peer, in the order of the wire."""
        return self._layout(route).arranged(route.ids)

    def _put(self, route: Route, out: Tensor) -> None:
        layout = self._layout(route)
        rows, accumulate = layout.arranged(route.rows), self._posted.plan.accumulate
        ids, noise = layout.arranged(route.ids), self._posted.noise(route.peer)
        self._codec.decode(self._encoded(route), layout, out, rows, accumulate=accumulate, ids=ids, noise=noise)
