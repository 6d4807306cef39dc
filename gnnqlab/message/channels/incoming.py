"""Receive side of a channel: wait for the bytes of a posted exchange, then decode them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

import torch
from torch import Tensor

from gnnqlab.bits.row import EXACT
from gnnqlab.kernels.sparse.codec_sum import CodedRows, MessageCodes
from gnnqlab.message.channels.layouts import MessageLayouts
from gnnqlab.message.channels.selection import AllRowsOfRoute, Contents
from gnnqlab.message.channels.stored_rows import StoredRows
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.codecs.entropy import Counting, code_entropies
from gnnqlab.message.exchange_key import ExchangeKey, Phases
from gnnqlab.message.layout import Layout
from gnnqlab.message.report import Sent, report_decoded
from gnnqlab.message.transport.header import Headers
from gnnqlab.message.transport.transport import Transfer
from gnnqlab.observe import NO_OBSERVERS, Observers
from gnnqlab.partition.plan import Plan, Route

__all__ = ["MessageRecord", "PendingReceive", "PostedExchange", "ReceiveLog"]


@dataclass(frozen=True)
class MessageRecord:
    """Record of one received message; ``run.traffic`` has a row for each of its bit-widths."""

    layer: int
    direction: str
    sender: int
    receiver: int
    layout: Layout
    seconds: float
    """Time from the receiver's post until the whole message was received."""
    posted: float = 0.0
    """Time of the receiver's post, by ``time.perf_counter``."""
    round: int = 0
    entropies: Mapping[int, float] = field(default_factory=dict)
    """Bit-width -> entropy of the codes in bits per element; empty if codes were not counted."""


@dataclass
class ReceiveLog:
    """Log of the messages received over a channel; :meth:`PendingReceive.wait` appends to it."""

    counting: Counting = field(default_factory=Counting)
    observers: Observers = NO_OBSERVERS
    wire_s: float = 0.0
    arrivals: list[MessageRecord] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class PostedExchange:
    """A posted exchange: its transfer, receive buffers and layouts."""

    message_layouts: MessageLayouts
    transfer: Transfer
    receive: dict[int, Tensor]
    """Peer -> uint8 receive buffer."""
    direct_peers: set[int]
    """Peers whose rows are received directly into the output, without decoding."""
    headers: Headers | None
    sampled_in: int | None
    noise: Callable[[int], Noise]
    """Peer -> noise key of its message."""
    read: Callable[[], None] | None = None
    """Callback after the first decoding, when buffers may be reused."""


class PendingReceive:
    """Pending rows of one exchange; received bytes stay encoded until :meth:`decode`.

    The receive buffers are valid until the channel posts again.
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
        """Epoch in which these rows were sampled; ``None``: all rows."""

    @property
    def headers(self) -> Headers | None:
        """Headers of the messages sent and received."""
        return self._posted.headers

    def wait(self) -> None:
        """Wait until all bytes are received; log each message.

        Raises:
            UnexpectedMessage: if a header is not the expected one.
        """
        if self._waited:
            return
        exchange, receive_log, (layer, direction, round_) = self._posted, self._received, self._place
        transfer, messages = exchange.transfer, exchange.message_layouts
        plan = messages.plan
        with self._phases("wait"):
            transfer.wait()
        self._waited = True
        receive_log.wire_s += transfer.wire_s
        # Codes are only counted on request, because a histogram reads every byte of a message.
        counts = receive_log.counting.on and self._codec.integer_codes
        for route in plan.receive:
            # Parsed here, because the log needs the layout of what was sent.
            segment, key = exchange.receive[route.peer], ("receive", route.peer)
            layout, widths = messages.layouts[key], messages.widths[key]
            self._contents[route.peer] = self._selection.contents(
                segment, route, layout, widths=widths, codec=self._codec, headers=exchange.headers
            )
        relayed = {} if plan.host_copies is None else self._layouts_by_sender(plan)
        for peer, contents in self._contents.items():
            layout, seconds = relayed.get(peer, contents.layout), transfer.seconds.get(peer, 0.0)
            entropies = code_entropies(contents.layout, contents.encoded) if counts else {}
            fields = (layer, direction, peer, plan.rank, layout, seconds, transfer.started, round_, entropies)
            receive_log.arrivals.append(MessageRecord(*fields))

    def _layouts_by_sender(self, plan: Plan) -> dict[int, Layout]:
        """Return the layouts of the rows received from each worker, some of which it passed on for their owner."""
        assert plan.host_copies is not None
        rows, layouts = plan.host_copies.received_rows(plan.receive), {p: c.layout for p, c in self._contents.items()}
        width = next((share.bits for layout in layouts.values() for share in layout.shares), EXACT)
        return {peer: self._codec.layout(width, rows[peer], layout.columns) for peer, layout in layouts.items()}

    def decode(self, out: Tensor | None = None) -> Tensor:
        """Wait, then write the decoded rows to ``out``, or add them if the plan accumulates; return ``out``.

        A further call adds the rows again if the plan accumulates; otherwise it returns the first result.

        Args:
            out: output, if ``post`` received only its size; by default zeros of that size.

        Raises:
            UnexpectedMessage: if a message is not the expected one, or its checksum differs from its header.
        """
        self.wait()
        exchange, is_first = self._posted, not self._decoded
        # Rows that replace others are decoded once; sums are added to each output that is passed.
        if self._rows is not None:
            return self._rows
        if out is None:
            out = self._out if isinstance(self._out, Tensor) else self._zeros(self._out)
        with self._phases("decode"):
            # In rank order: floating-point sums must not depend on the order in which messages are received.
            for route in sorted(exchange.message_layouts.plan.receive, key=_PEER):
                out = self._put(route, out, is_first=is_first)
        if exchange.read is not None and is_first:
            exchange.read()  # buffers are free: the next channel may prepost its receives
        self._decoded = True
        if not exchange.message_layouts.plan.accumulate:
            self._rows = out
        return out

    def codes(self) -> CodedRows | None:
        """Wait, then return the rows as codes in the receive buffers; ``None``: they must be decoded.

        Verifies and reports each message as :meth:`decode` does. Call :meth:`release` when the codes were used.

        Raises:
            UnexpectedMessage: if a message is not the expected one, or its checksum differs from its header.
        """
        self.wait()
        plan, size = (
            self._posted.message_layouts.plan,
            self._out if isinstance(self._out, torch.Size) else self._out.shape,
        )
        with self._phases("decode"):
            parts: list[MessageCodes] = []
            for route in sorted(plan.receive, key=_PEER):
                contents = self._contents[route.peer]
                found = self._codec.message_codes(contents.encoded, contents.layout, contents.of_rows(route.rows))
                if found is None:
                    return None
                parts += found
            for route in plan.receive:
                self._verify(route)
            coded = CodedRows(size[0], size[1], tuple(parts))
            assert coded.table is not None  # built in this phase, which decoding it replaces
        for route in sorted(plan.receive, key=_PEER) if self._received.observers.message_decoded else ():
            self._report(route, self._posted.noise(route.peer))
        return coded

    def release(self) -> None:
        """Allow the next channel to use the receive buffers, after :meth:`codes`."""
        if self._posted.read is not None and not self._decoded:
            self._posted.read()
        self._decoded = True

    def to_store(self) -> StoredRows:
        """Wait, then return the decoded rows of each message, for a checkpoint; a later :meth:`decode` is the same.

        Raises:
            UnexpectedMessage: if the checksum of a message differs from its header.
        """
        self.wait()
        plan = self._posted.message_layouts.plan
        size = self._out.shape if isinstance(self._out, Tensor) else self._out
        messages = []
        for route in sorted(plan.receive, key=_PEER):
            # Not into ``out``: only a decoding for the training is timed and reported to observers.
            out = self._out if route.peer in self._posted.direct_peers else self._zeros(size)
            assert isinstance(out, Tensor)  # rows that replace others have an output
            messages.append((route.rows, self._put(route, out, is_first=False).index_select(0, route.rows)))
        shape = size[0], size[1]
        return StoredRows(shape, tuple(messages), accumulate=plan.accumulate, sampled_in=self.sampled_in)

    def _put(self, route: Route, out: Tensor, *, is_first: bool) -> Tensor:
        """Verify, decode and report the rows of a peer; return the tensor that holds them."""
        exchange, contents = self._posted, self._contents[route.peer]
        self._verify(route)  # before decoding, so that changed bytes never enter the output
        # The noise key of the sender's message, derived from the same plan at both ends.
        noise, accumulate = exchange.noise(route.peer), exchange.message_layouts.plan.accumulate
        if route.peer not in exchange.direct_peers:  # of a direct one the bytes already are the rows of ``out``
            options = {"accumulate": accumulate, "again": not is_first}
            out = self._selection.put(contents, route, out, self._codec, noise, **options)
        if is_first and self._received.observers.message_decoded:
            self._report(route, noise)
        return out

    def _verify(self, route: Route) -> None:
        """Compare the bytes of a peer with their checksum; those of relayed rows were verified in the transfer."""
        headers, body = self._posted.headers, self._contents[route.peer].body
        is_relayed = self._posted.message_layouts.plan.host_copies is not None
        if headers is not None and body.numel() and not is_relayed:
            headers.verify(route.peer, body)

    def _report(self, route: Route, noise: Noise) -> None:
        """Report the decoded message of a peer to observers."""
        contents, observers = self._contents[route.peer], self._received.observers
        if contents.layout.num_rows:
            ids, rank = contents.of_rows(route.ids), self._posted.message_layouts.plan.rank
            event = Sent(self._place, route.peer, rank, ids, self._codec, contents.layout, contents.encoded, noise)
            report_decoded(observers, event)

    def _zeros(self, size: torch.Size) -> Tensor:
        bodies = iter(self._posted.receive.values())
        return torch.zeros(size, device=next((body.device for body in bodies), None))  # (m, D) float32


_PEER = attrgetter("peer")
