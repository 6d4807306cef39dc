"""Send and receive the rows of one exchange key (layer, direction, round).

A channel combines plan, cache, codec, bit policy and transport. Sender and receiver derive bit-widths and layouts from
the same policy, so neither is transmitted.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gnnqlab.bits.policy import BitPolicy
from gnnqlab.bits.row import EXACT
from gnnqlab.errors import NonFiniteMessage, NonFiniteRow
from gnnqlab.kernels.noise import stream
from gnnqlab.message.channels.incoming import MessageRecord, PendingReceive, PostedExchange, ReceiveLog
from gnnqlab.message.channels.layouts import KnownLayouts, Layouts, MessageLayouts, lay_out_messages, widths_in_force
from gnnqlab.message.channels.selection import AllRowsOfRoute, Outgoing
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.codecs.entropy import Counting
from gnnqlab.message.exchange_key import ExchangeKey, Phases, at_once, no_phases
from gnnqlab.message.report import Sent, report_encoded
from gnnqlab.message.transport.once_per_host import OncePerHost
from gnnqlab.message.transport.preposted_receives import Expected, PrepostedReceives
from gnnqlab.message.transport.transport import Transport
from gnnqlab.observe import NO_OBSERVERS, Observers
from gnnqlab.partition.plan import Plan, Route

__all__ = ["ByteBuffers", "Channel"]

ByteBuffers = dict[tuple[str, int], Tensor]
"""(side, peer) -> uint8 buffer. The backward pass receives gradients for the rows that the forward pass sends, so both
share a buffer. For broadcast blocks the key is (``send`` or ``receive``, slot). Messages in flight share no buffer."""
_OTHER = {"send": "receive", "receive": "send"}
_NOTHING: tuple[Expected | None, set[int]] = (None, set())  # no receives are posted


class Channel:
    """Exchange of the rows of one key between this worker and its peers."""

    def __init__(
        self,
        *,
        layer: int,
        direction: str,
        plan: Plan,
        codec: Codec,
        bits: BitPolicy,
        transport: Transport,
        seed: int,
        selection: AllRowsOfRoute | None = None,
        round: int = 0,
        run: int | None = None,
        phases: Phases = no_phases,
        launch: Callable[[Callable[[], None]], None] = at_once,
        known: KnownLayouts | None = None,
        keeps_buffers: bool = True,
        buffers: ByteBuffers | None = None,
        slot: int | None = None,
        counting: Counting | None = None,
        ahead: PrepostedReceives | None = None,
        observers: Observers = NO_OBSERVERS,
    ) -> None:
        """Open the channel.

        Args:
            selection: selects the rows of a route to send; by default all.
            run: run number in message headers; ``None`` sends messages without headers.
            launch: calls its argument, which starts the transfer, once other work of the device is queued.
            known: layouts computed by other channels of the same codec; entries live as long as their bit-widths.
            keeps_buffers: True reuses byte buffers in every epoch; False frees them after use.
            buffers: shared byte buffers of channels that never have messages in flight together; by default new.
            slot: index of the receive buffer of a broadcast block; its owner encodes one message for all peers.
                By default each peer has a message and buffers of its own.
            counting: enables the entropy count of received codes; off by default.
            ahead: decides when receives are preposted; by default never.
            observers: receive an event for each encoded or decoded message.
        """
        self.layer, self.direction, self.round, self.plan = layer, direction, round, plan
        self.place = ExchangeKey(layer, direction, round)
        self._run = run
        self._codec, self._bits, self._transport = codec, bits, transport
        self.selection = selection or AllRowsOfRoute()
        """Selection of the rows of a route to send."""
        self.takes_bfloat16 = self.selection.encodes_rows and codec.takes_bfloat16
        """True if bfloat16 rows are encoded directly, and not converted to float32 first."""
        self.reads_in_place = self.selection.in_place and self.selection.encodes_rows and codec.reads_in_place
        """True if :meth:`PendingReceive.codes` may return codes."""
        self._seed, self._phases, self._launch = seed, phases, launch
        self._known: KnownLayouts = WeakTensorKeyDictionary() if known is None else known
        self._epoch = 0
        self._message_layouts: MessageLayouts | None = None
        self._keeps_buffers = keeps_buffers
        self._buffers: ByteBuffers = {} if buffers is None else buffers
        self._slot = slot
        self._observers, self._received = observers, ReceiveLog(counting or Counting(), observers)
        self._ahead, self._device = ahead, torch.device("cpu")
        self._expected: dict[int, tuple[Expected | None, set[int]]] = {}
        self.bytes_payload = self.bytes_params = self.bytes_headers = 0
        """Bytes of codes, quantization parameters and headers sent so far to all peers."""
        self.rows_sent = self.rows_offered = 0
        """Rows sent so far by a cache, and rows that it could have sent, to all peers; 0 without a cache."""
        self.spreads: dict[int, Tensor] = {}
        """Peer -> statistics of each row, recorded while encoding the last message to it, in plan order; the bit
        assigner reads them."""

    @property
    def arrivals(self) -> list[MessageRecord]:
        """Records of the messages received since the list was last cleared."""
        return self._received.arrivals

    @property
    def buffers(self) -> list[Tensor]:
        """Byte buffers that are reused in every epoch."""
        return list(self._buffers.values())

    @property
    def wire_s(self) -> float:
        """Seconds in which this channel had messages in flight."""
        return self._received.wire_s

    @property
    def epsilon(self) -> float | None:
        """Threshold with which a cache selects rows; ``None`` without one."""
        return self.selection.epsilon

    @property
    def columns(self) -> int:
        """D of the last message."""
        assert self._message_layouts is not None, "nothing was sent yet"
        return self._message_layouts.columns

    @property
    def layouts(self) -> Layouts:
        """Layouts of the last messages."""
        return {} if self._message_layouts is None else self._message_layouts.layouts

    def post(
        self,
        x: Tensor,
        out: Tensor | torch.Size,
        *,
        epoch: int,
        plan: Plan | None = None,
        sampled_in: int | None = None,
        still: bool = False,
    ) -> PendingReceive:
        """Encode the rows of ``x`` for every peer, post the receives and start the transfer.

        Args:
            x: ``(n, D)``, float32 or bfloat16, the rows that the plan's send routes index.
            out: float32 ``(m, D)``, output that the plan's receive routes index; must live until decoding is done. Or
                only its size, if the plan accumulates or codes are read; :meth:`PendingReceive.decode` takes it then.
            epoch: selects the bit-widths in force; part of the noise key.
            plan: subset of the plan's rows that is sent in this epoch; by default all.
            sampled_in: epoch in which the subset was sampled; ``None``: not sampled.
            still: True if ``x`` is not modified before the transfer ends, so that rows may be sent without a copy.

        Raises:
            NonFiniteMessage: if a row to send holds NaN or Inf.
        """
        plan = plan or self.plan
        if x.dtype == torch.bfloat16 and not self.takes_bfloat16:
            x = x.float()
        message_layouts = self._lay_out(plan, x.shape[1], epoch)
        # Preposted receives are those of all rows of the plan in one epoch; others cannot be used.
        receives, direct_peers = self._expected.pop(epoch, _NOTHING) if plan is self.plan else _NOTHING
        self._expected.clear()  # receives of another epoch or plan match no message: tags differ
        if self._ahead is not None:
            self._ahead.posts(self, epoch)
            if receives is None:  # post receives now, so that peers can send while this worker encodes
                receives, direct_peers = self._expect(message_layouts, out, epoch, x.device)
        # Encode one message per peer; a block is encoded once, and its bytes are sent to all.
        send: dict[int, Tensor] = {}  # peer -> (bytes,) uint8
        block: Outgoing | None = None
        with self._phases("encode"):
            for route in plan.send:
                if block is not None:  # encoded once, for the first receiver
                    send[route.peer] = self._share_block(block, route, plan.send[0].peer, epoch)
                    continue
                message = self._outgoing(x, route, message_layouts, epoch, is_still=still)
                send[route.peer] = message.segment
                layout, noise = message.layout, self._noise(epoch, plan.rank, route.peer)
                if layout is not None:  # None: rows are sent without encoding, or a block is skipped
                    rows, ids, order = message.rows, message.ids, layout.order  # as `Layout.to_wire_order`
                    rows, ids = (rows, ids) if order is None else (rows[order], ids[order])
                    body = message.segment[message.head :]
                    try:
                        spreads = self._codec.encode(message.x, rows, ids, layout, body, noise)
                    except NonFiniteRow as error:
                        raise self._refusal(error, ids) from error
                    self._note(message, route, spreads, noise)
                block = message if self._slot is not None else None
            headers = message_layouts.headers(self.place, self._run, epoch) if receives is None else receives.headers
        options: dict[str, Any] = {"expected": receives}
        if receives is None:
            receive, direct_peers = self._receive_buffers(message_layouts, out, x.device)
            options = {"bounded": True} if self.selection.bounded else {}
        else:
            receive = dict(receives.receive)
        self.bytes_headers += 0 if headers is None else headers.num_bytes
        with self._phases("post"):
            transport = self._transport if plan.host_copies is None else OncePerHost(self._transport, plan, self)
            transfer = transport.post(send, receive, headers, **options)
        if not x.is_cpu:
            self._launch(transfer.start)  # the transfer starts after the next product was launched
        self._epoch, self._device = epoch, x.device
        read = None if self._ahead is None else partial(self._ahead.read, self, epoch)
        noise_of = partial(self._noise, epoch, receiver=self.plan.rank)
        exchange = PostedExchange(message_layouts, transfer, receive, direct_peers, headers, sampled_in, noise_of, read)
        return PendingReceive(exchange, out, self.place, self._codec, self.selection, self._phases, self._received)

    def prepost(self, epoch: int) -> bool:
        """Prepost the receives of this epoch's exchange; return True if they were posted.

        Needs layouts that are valid in ``epoch``, and headers, whose tags keep earlier messages from the receive.
        """
        message_layouts = self._message_layouts
        if message_layouts is None or self._run is None:
            return False
        if message_layouts.plan is not self.plan or message_layouts.version != self._bits.version(epoch):
            return False
        empty_output = torch.empty(0, message_layouts.columns)
        # A codec that receives directly into the output cannot prepost: the output does not exist yet.
        if not (self.plan.accumulate or self._codec.receive_view(empty_output) is None):
            return False
        self._expected[epoch] = self._expect(message_layouts, empty_output, epoch, self._device)
        return self._expected[epoch][0] is not None

    def _expect(
        self, message_layouts: MessageLayouts, out: Tensor | torch.Size, epoch: int, device: torch.device
    ) -> tuple[Expected | None, set[int]]:
        """Prepost the receives, if the transport can; return them, and the peers received directly into ``out``.

        Messages that may be shorter than their buffer are not preposted.
        """
        prepost = getattr(self._transport, "prepost", None)
        if prepost is None or self.selection.bounded or self.plan.host_copies is not None:
            return _NOTHING
        receive, direct_peers = self._receive_buffers(message_layouts, out, device)
        return prepost(receive, message_layouts.headers(self.place, self._run, epoch)), direct_peers

    def use_plan(self, plan: Plan, run: int) -> None:
        """Use another plan and run number from the next ``post`` on; byte buffers are kept."""
        self.plan, self._run = plan, run

    def as_received(self, x: Tensor) -> None:
        """Overwrite the sent rows of ``x`` with the values that receivers decode; call it before the next ``post``."""
        with self._phases("decode"):
            for route in self.plan.send:
                # Rows that are float32 on the wire need no decoding: they already equal the receiver's.
                layout, decoded_rows = self.layouts["send", route.peer], self.selection.receives_as(route)
                if decoded_rows is not None:
                    x.index_copy_(0, route.rows, decoded_rows)
                elif layout.num_bytes and layout.rows_of(EXACT) < layout.num_rows:
                    segment = self._buffer("send", route.peer, layout.num_bytes, x.device)
                    rows, ids = layout.to_wire_order(route.rows), layout.to_wire_order(route.ids)
                    noise = self._noise(self._epoch, self.plan.rank, route.peer)
                    # The same bytes and the same noise as at the receiver give the same float32 values.
                    self._codec.decode(segment, layout, x, rows, accumulate=False, ids=ids, noise=noise)

    def _noise(self, epoch: int, sender: int, receiver: int) -> Noise:
        """Return the noise key of a message, the same at both ends."""
        plan, forward = self.plan, self.direction == "forward" or self.plan.from_owners
        # Gradients and partial sums of one node come from several senders: the sender's rank keeps their errors
        # independent. An embedding has one sender but several receivers, distinguished by their distance in the ring.
        sender_key = 0 if forward and not plan.parts else sender + 1
        stream_id = stream(self.direction, self.layer, sender_key, self.round)
        distance = (receiver - sender - 1) % plan.workers if forward and not (plan.to_all or plan.parts) else 0
        return Noise(self._seed, epoch, stream_id, distance)

    def _outgoing(
        self, x: Tensor, route: Route, message_layouts: MessageLayouts, epoch: int, *, is_still: bool
    ) -> Outgoing:
        """Return the message to one peer: a view of contiguous rows if the codec allows it, else rows to encode."""
        selection, key = self.selection, ("send", route.peer)
        layout, view = message_layouts.layouts[key], None
        if is_still and selection.in_place and route.first is not None and not self._observers.message_encoded:
            try:
                view = self._codec.send_view(x[route.first : route.first + route.num_rows])
            except NonFiniteRow as error:
                raise self._refusal(error, layout.to_wire_order(route.ids)) from error
        if view is not None:
            self.bytes_payload += view.numel()  # rows sent without a copy have no quantization parameters
            return Outgoing(x, route.rows, route.ids, None, view)
        buffer, widths = self._buffer(*key, message_layouts.lengths[key], x.device), message_layouts.widths[key]
        message = selection.outgoing(x, route, layout, buffer, epoch=epoch, widths=widths, codec=self._codec)
        self._count(message, route)
        return message

    def _count(self, message: Outgoing, route: Route) -> None:
        """Add the bytes and rows of a message to the totals."""
        layout = message.layout
        self.bytes_headers += message.head
        if layout is not None:
            self.bytes_payload += layout.payload_bytes
            self.bytes_params += layout.param_bytes
        if self.selection.counts_rows and message.head:  # an empty message has no head
            self.rows_sent += 0 if layout is None else layout.num_rows
            self.rows_offered += route.num_rows

    def _share_block(self, message: Outgoing, route: Route, first_peer: int, epoch: int) -> Tensor:
        """Return the bytes of a block for a further peer; they were encoded for the first peer."""
        self._count(message, route)
        if self._observers.message_encoded:
            self._report(message, route.peer, self._noise(epoch, self.plan.rank, first_peer))
        # The statistics are those of the encoded rows, so they are identical for every receiver.
        if first_peer in self.spreads:
            self.spreads[route.peer] = self.spreads[first_peer]
        return message.segment

    def _note(self, message: Outgoing, route: Route, spreads: Tensor | None, noise: Noise) -> None:
        """Report an encoded message, store its row statistics in plan order, and update the selection's state."""
        layout, peer = message.layout, route.peer
        assert layout is not None
        if self._observers.message_encoded:
            self._report(message, peer, noise)
        if spreads is not None:
            if layout.order is not None:  # wire order -> plan order
                spreads = torch.empty_like(spreads).index_copy_(0, layout.order, spreads)
            if message.places is None:
                self.spreads[peer] = spreads
            else:  # rows that were skipped keep the statistics of their last message
                shape = route.num_rows, *spreads.shape[1:]
                if peer not in self.spreads or self.spreads[peer].shape != shape:
                    self.spreads[peer] = spreads.new_zeros(shape)
                self.spreads[peer][message.places] = spreads
        self.selection.encoded(message, route, self._codec, noise)

    def _report(self, message: Outgoing, peer: int, noise: Noise) -> None:
        """Emit the event of an encoded message; a block emits one event per receiver."""
        layout, offered_route = message.layout, self.plan.to_peer(peer)
        if layout is not None and offered_route.num_rows:
            ids, values = layout.to_wire_order(message.ids), message.x[layout.to_wire_order(message.rows)]
            body = message.segment[message.head :]
            event = Sent(self.place, self.plan.rank, peer, ids, self._codec, layout, body, noise)
            report_encoded(self._observers, event, values=values, offered_ids=offered_route.ids)

    def _receive_buffers(
        self, message_layouts: MessageLayouts, out: Tensor | torch.Size, device: torch.device
    ) -> tuple[dict[int, Tensor], set[int]]:
        """Return the receive buffer of each peer, and the peers received directly into ``out``."""
        receive, direct_peers, plan = {}, set(), message_layouts.plan
        # Receive directly only rows that replace others: sums need the old value, caches decode into a copy.
        replaces_rows = not plan.accumulate and self.selection.in_place
        for route in plan.receive:
            target = None
            if replaces_rows and route.first is not None and route.num_rows and isinstance(out, Tensor):
                target = self._codec.receive_view(out[route.first : route.first + route.num_rows])
            if target is not None:
                direct_peers.add(route.peer)
            else:
                target = self._buffer("receive", route.peer, message_layouts.lengths["receive", route.peer], device)
            receive[route.peer] = target
        return receive, direct_peers

    def _refusal(self, error: NonFiniteRow, ids: Tensor) -> NonFiniteMessage:
        node = int(ids[error.position])
        return NonFiniteMessage(rank=self.plan.rank, layer=self.layer, direction=self.direction, node=node)

    def _lay_out(self, plan: Plan, columns: int, epoch: int) -> MessageLayouts:
        message_layouts, version = self._message_layouts, self._bits.version(epoch)
        new_widths = message_layouts is None or message_layouts.version != version
        if message_layouts is not None and not new_widths and message_layouts.plan is plan:
            if message_layouts.columns == columns:
                return message_layouts
        # Time the set-up of new bit-widths as its own phase, but only for policies that choose between several.
        with self._phases("assign") if new_widths and len(self._bits.choices) > 1 else nullcontext():
            if message_layouts is None or new_widths:
                widths = widths_in_force(self.place, self.plan, self._bits, seed=self._seed, epoch=epoch)
            else:
                # A new sample, or another D: the bit-widths of all rows are still those in force.
                widths = message_layouts.widths
            layouts = lay_out_messages(plan, widths, columns, self._codec, self._known)
            if self._run is not None:
                for layout in layouts.values():
                    _ = layout.digest  # cached here, because headers need it in every epoch
        lengths = {key: self.selection.length(layout) for key, layout in layouts.items()}
        self._message_layouts = MessageLayouts(plan, columns, version, widths, layouts, lengths)
        return self._message_layouts

    def _buffer(self, side: str, peer: int, size: int, device: torch.device) -> Tensor:
        """Return a byte buffer: reused from epoch to epoch, so that its pages stay mapped, or a new one."""
        if not self._keeps_buffers:
            return torch.empty(size, dtype=torch.uint8, device=device)
        # Backward the sides are swapped: the gradients of sent rows are received into the buffer of these rows.
        key = side if self.direction == "forward" else _OTHER[side], peer
        if self._slot is not None:  # a block is encoded once, so one send buffer serves all peers
            key = side, self._slot if side == "receive" else 0
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < size or buffer.device != device:
            buffer = self._buffers[key] = torch.empty(size, dtype=torch.uint8, device=device)
        return buffer[:size]  # (size,) uint8, a view of a buffer that only grows
