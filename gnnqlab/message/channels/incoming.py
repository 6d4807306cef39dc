"""Rows on their way to a worker: bytes that are waited for, and then decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

import torch
from torch import Tensor

from gnnqlab.message.channels.layouts import MessageLayouts
from gnnqlab.message.channels.selection import AllRowsOfRoute, Contents
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.codecs.entropy import Counting, code_entropies
from gnnqlab.message.exchange_key import ExchangeKey, Phases
from gnnqlab.message.layout import Layout
from gnnqlab.message.report import Sent, report_decoded
from gnnqlab.message.transport.header import Headers
from gnnqlab.message.transport.transport import Transfer
from gnnqlab.observe import NO_OBSERVERS, Observers
from gnnqlab.partition.plan import Route

__all__ = ["MessageRecord", "PendingReceive", "PostedExchange", "ReceiveLog"]


@dataclass(frozen=True)
class MessageRecord:
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
class ReceiveLog:
    """What came over a channel; rows under way write it down when they are waited for."""

    counting: Counting = field(default_factory=Counting)
    observers: Observers = NO_OBSERVERS
    wire_s: float = 0.0
    arrivals: list[MessageRecord] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class PostedExchange:
    """What a channel posted, and where the answers arrive."""

    laid: MessageLayouts
    transfer: Transfer
    receive: dict[int, Tensor]
    landed: set[int]
    headers: Headers | None
    sampled_in: int | None
    noise: Callable[[int], Noise]
    """Peer -> the noise of the message that comes from it."""
    read: Callable[[], None] | None = None
    """Called once the bytes have been read."""


class PendingReceive:
    """Rows on their way to this worker; they stay bytes until they are decoded.

    Bytes hold their buffers until the channel posts again.
    """

    def __init__(
        self,
        posted: PostedExchange,
        out: Tensor | torch.Size,
        place: ExchangeKey,
        codec: Codec,
        selection: AllRowsOfRoute,
        phases: Phases,
        received: ReceiveLog,
    ) -> None:
        self._posted, self._out, self._place = posted, out, place
        self._codec, self._selection, self._phases, self._received = codec, selection, phases, received
        self._contents: dict[int, Contents] = {}
        self._waited = self._decoded = False
        self._rows: Tensor | None = None
        self.sampled_in = posted.sampled_in
        """Epoch whose sample these rows are; ``None``: all rows."""

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
        posted, received, (layer, direction, round_) = self._posted, self._received, self._place
        transfer, plan = posted.transfer, posted.laid.plan
        with self._phases("wait"):
            transfer.wait()
        self._waited = True
        received.wire_s += transfer.wire_s
        counts = received.counting.on and self._codec.integer_codes
        for route in plan.receive:
            contents = self._read(route)
            seconds = transfer.seconds.get(route.peer, 0.0)
            found = code_entropies(contents.layout, contents.encoded) if counts else {}
            of_message = (
                layer,
                direction,
                route.peer,
                plan.rank,
                contents.layout,
                seconds,
                transfer.started,
                round_,
                found,
            )
            received.arrivals.append(MessageRecord(*of_message))

    def decode(self, out: Tensor | None = None) -> Tensor:
        """Return ``out`` with the rows in their places, or added there, peer by peer in rank order.

        Rows that replace others are decoded once; rows that are added, as often as asked.

        Args:
            out: as in ``post``, where only its size was said; zeros of that size by default.

        Raises:
            UnexpectedMessage: if a message is not the expected one, or has not the checksum of its header.
        """
        self.wait()
        posted, first = self._posted, not self._decoded
        if self._rows is not None:
            return self._rows
        if out is None:
            out = self._out if isinstance(self._out, Tensor) else self._zeros(self._out)
        with self._phases("decode"):
            for route in sorted(posted.laid.plan.receive, key=_PEER):
                out = self._put(route, out, first=first)
        if posted.read is not None and first:
            posted.read()
        self._decoded = True
        if not posted.laid.plan.accumulate:
            self._rows = out
        return out

    def _put(self, route: Route, out: Tensor, *, first: bool) -> Tensor:
        """Check, decode and report the rows that came from a peer; return where they are then."""
        posted, contents = self._posted, self._contents[route.peer]
        if posted.headers is not None and contents.body.numel():
            posted.headers.verify(route.peer, contents.body)
        landed = route.peer in posted.landed
        observed = self._received.observers.message_decoded and first and contents.layout.num_rows
        if landed and not observed:
            return out
        noise, how = posted.noise(route.peer), {"accumulate": posted.laid.plan.accumulate, "again": not first}
        if not landed:
            out = self._selection.put(contents, route, out, self._codec, noise, **how)
        if observed:
            rank, ids = posted.laid.plan.rank, contents.of_rows(route.ids)
            sent = Sent(self._place, route.peer, rank, ids, self._codec, contents.layout, contents.encoded, noise)
            report_decoded(self._received.observers, sent)
        return out

    def _read(self, route: Route) -> Contents:
        """Return what the message of a peer holds."""
        key, posted = ("receive", route.peer), self._posted
        segment, layout, widths = posted.receive[route.peer], posted.laid.layouts[key], posted.laid.widths[key]
        contents = self._selection.contents(
            segment, route, layout, widths=widths, codec=self._codec, headers=posted.headers
        )
        self._contents[route.peer] = contents
        return contents

    def _zeros(self, size: torch.Size) -> Tensor:
        bodies = iter(self._posted.receive.values())
        return torch.zeros(size, device=next((body.device for body in bodies), None))


_PEER = attrgetter("peer")
