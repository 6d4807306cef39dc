"""One place of an exchange: rows in, messages out, rows back in.

A place is a layer, a direction and a round. The channel joins plan, cache, codec, bits and transport. Sender and
receiver derive widths and layouts from the same policy, so they agree without asking each other.
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
from gnnqlab.compute.products import to_float32
from gnnqlab.errors import NonFiniteMessage, NonFiniteRow
from gnnqlab.kernels.noise import stream
from gnnqlab.message.channels.incoming import MessageRecord, PendingReceive, PostedExchange, ReceiveLog
from gnnqlab.message.channels.layouts import KnownLayouts, Layouts, MessageLayouts, lay_out_messages, widths_in_force
from gnnqlab.message.channels.selection import AllRowsOfRoute, Outgoing
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.codecs.entropy import Counting
from gnnqlab.message.exchange_key import ExchangeKey, Phases, at_once, no_phases
from gnnqlab.message.report import Sent, report_encoded
from gnnqlab.message.transport.preposted_receives import Expected, PrepostedReceives
from gnnqlab.message.transport.transport import Transport
from gnnqlab.observe import NO_OBSERVERS, Observers
from gnnqlab.partition.plan import Plan, Route

__all__ = ["ByteBuffers", "Channel"]

ByteBuffers = dict[tuple[str, int], Tensor]
"""(which rows, peer) -> bytes of these rows, uint8: those of a forward message out are those of a backward one in. Of
blocks, which one message brings to all peers: (``send`` or ``receive``, slot); no two messages under way share one."""
_OTHER = {"send": "receive", "receive": "send"}
_NOTHING: tuple[Expected | None, set[int]] = (None, set())
"""No receives are posted."""


class Channel:
    """Moves the rows of one place between this worker and its peers."""

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
            selection: which rows of a route are sent; by default all.
            run: number of the run in the headers of messages; ``None`` sends messages without headers.
            launch: calls what starts a transfer when a device has work for the meantime.
            known: layouts that other channels of the same codec have made; they live as long as their widths.
            keeps_buffers: whether bytes have the same memory in every epoch, or memory that is freed after use.
            buffers: that memory, shared with channels whose messages are never under way with its own; by default new.
            slot: which of the buffers receives the block of this place; its sender writes one message for all peers.
                By default each peer has a message, and buffers, of its own.
            counting: says whether the codes that come are counted; by default they are not.
            ahead: says when receives are posted ahead of their exchange; by default never.
            observers: receive an event for each message that is encoded or decoded.
        """
        self.layer, self.direction, self.round, self.plan = layer, direction, round, plan
        self.place = ExchangeKey(layer, direction, round)
        self._run = run
        self._codec, self._bits, self._transport = codec, bits, transport
        self.selection = selection or AllRowsOfRoute()
        """Which rows of a route are sent."""
        self._seed, self._phases, self._launch = seed, phases, launch
        self._known: KnownLayouts = WeakTensorKeyDictionary() if known is None else known
        self._epoch = 0
        self._laid: MessageLayouts | None = None
        self._keeps_buffers = keeps_buffers
        self._buffers: ByteBuffers = {} if buffers is None else buffers
        self._slot = slot
        self._observers, self._received = observers, ReceiveLog(counting or Counting(), observers)
        self._ahead, self._device = ahead, torch.device("cpu")
        self._expected: dict[int, tuple[Expected | None, set[int]]] = {}
        self.bytes_payload = 0
        """Payload bytes sent so far, all peers."""
        self.bytes_params = 0
        """Parameter bytes sent so far, all peers."""
        self.bytes_headers = 0
        """Header bytes sent so far, all peers."""
        self.rows_sent = self.rows_offered = 0
        """Rows that a cache has sent so far, and that there were to send, all peers; 0 without a cache."""
        self.spreads: dict[int, Tensor] = {}
        """What encoding noted of each row in the last message to a peer, plan order: the trace of the assigner."""

    @property
    def arrivals(self) -> list[MessageRecord]:
        """Messages received since the list was last cleared."""
        return self._received.arrivals

    @property
    def buffers(self) -> list[Tensor]:
        """Byte buffers that are kept from epoch to epoch."""
        return list(self._buffers.values())

    @property
    def wire_s(self) -> float:
        """Seconds during which this channel had bytes under way."""
        return self._received.wire_s

    @property
    def epsilon(self) -> float | None:
        """Threshold by which a cache chooses rows; ``None`` if none does."""
        return self.selection.epsilon

    @property
    def columns(self) -> int:
        """D of the last message."""
        assert self._laid is not None, "nothing was sent yet"
        return self._laid.columns

    @property
    def layouts(self) -> Layouts:
        """Layouts of the last messages."""
        return {} if self._laid is None else self._laid.layouts

    def taken(self, x: Tensor) -> Tensor:
        """Return rows as this channel posts them: bfloat16 where its codec writes such as they are, else float32."""
        as_they_are = self.selection.encodes_rows and self._codec.takes_bfloat16
        return x if as_they_are else to_float32(x)

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
        """Encode the rows of ``x`` for every peer and start moving them.

        Args:
            x: ``(n, D)``, float32 or as :meth:`taken` returns them, the rows that the plan's send routes index.
            out: float32 ``(m, D)``, where the plan's receive routes put rows; must live until they are there. A size:
                where is said when they are decoded; only rows that are added can wait for that.
            epoch: enters the noise, and decides which bit-widths are in force.
            plan: those of the plan's rows that travel this time; by default all.
            sampled_in: epoch whose sample these are, for who needs the rows; ``None``: no sample.
            still: whether ``x`` stays as it is until the rows have gone, so that they may be sent from where they lie.

        Raises:
            NonFiniteMessage: if a row to send holds NaN or Inf.
        """
        plan = plan or self.plan
        laid = self._lay_out(plan, x.shape[1], epoch)
        expected, landed = self._expected.pop(epoch, _NOTHING) if plan is self.plan else _NOTHING
        self._expected.clear()
        if self._ahead is not None:
            self._ahead.posts(self, epoch)
            if expected is None:
                expected, landed = self._expect(laid, out, epoch, x.device)
        send: dict[int, Tensor] = {}
        block: Outgoing | None = None
        with self._phases("encode"):
            for route in plan.send:
                if block is not None:  # written once, for its first receiver
                    send[route.peer] = self._share_block(block, route, plan.send[0].peer, epoch)
                    continue
                message = self._outgoing(x, route, laid, epoch, still=still)
                send[route.peer] = message.segment
                layout, noise = message.layout, self._noise(epoch, plan.rank, route.peer)
                if layout is not None:
                    rows, ids = layout.to_wire_order(message.rows), layout.to_wire_order(message.ids)
                    try:  # encoded here, not in a method: the way of a row to its bytes is short
                        spreads = self._codec.encode(
                            message.x, rows, ids, layout, message.segment[message.head :], noise
                        )
                    except NonFiniteRow as error:
                        raise self._refusal(error, ids) from error
                    self._note(message, route, spreads, noise)
                block = message if self._slot is not None else None
            headers = laid.headers(self.place, self._run, epoch) if expected is None else expected.headers
        how: dict[str, Any] = {"expected": expected}
        if expected is None:
            receive, landed = self._landing(laid, out, x.device)
            how = {"bounded": True} if self.selection.bounded else {}
        else:
            receive = dict(expected.receive)
        self.bytes_headers += 0 if headers is None else headers.num_bytes
        with self._phases("post"):
            transfer = self._transport.post(send, receive, headers, **how)
        self._launch(transfer.start)
        self._epoch, self._device = epoch, x.device
        read = None if self._ahead is None else partial(self._ahead.read, self, epoch)
        posted = PostedExchange(
            laid,
            transfer,
            receive,
            landed,
            headers,
            sampled_in,
            partial(self._noise, epoch, receiver=self.plan.rank),
            read,
        )
        return PendingReceive(posted, out, self.place, self._codec, self.selection, self._phases, self._received)

    def prepost(self, epoch: int) -> bool:
        """Post the receives of this epoch's message now, if what comes is known: all rows of the plan, in bytes.

        Without headers nothing tells messages apart, so one that comes before it would be taken for it.
        """
        laid = self._laid
        if laid is None or self._run is None:
            return False
        nowhere, plan = torch.empty(0, laid.columns), self.plan
        known = laid.fit(plan, laid.columns, self._bits.round(epoch))
        if not known or not (plan.accumulate or self._codec.receive_view(nowhere) is None):
            return False
        self._expected[epoch] = self._expect(laid, nowhere, epoch, self._device)
        return self._expected[epoch][0] is not None

    def _expect(
        self, laid: MessageLayouts, out: Tensor | torch.Size, epoch: int, device: torch.device
    ) -> tuple[Expected | None, set[int]]:
        """Post the receives of a message, if the transport does so; return them, and whose rows land in their places.

        A message that may be shorter than its buffer is received when it is posted.
        """
        prepost = getattr(self._transport, "prepost", None)
        if prepost is None or self.selection.bounded:
            return _NOTHING
        receive, landed = self._landing(laid, out, device)
        return prepost(receive, laid.headers(self.place, self._run, epoch)), landed

    def as_received(self, x: Tensor) -> None:
        """Put the rows of the last message into ``x`` as their receivers decode them, before the next one is written.

        So a sender's own row is the same as its receivers', bit for bit.
        """
        with self._phases("decode"):
            for route in self.plan.send:
                layout, decoded = self.layouts["send", route.peer], self.selection.receives_as(route)
                if decoded is not None:
                    x.index_copy_(0, route.rows, decoded)
                elif layout.num_bytes and layout.rows_of(EXACT) < layout.num_rows:
                    segment = self._buffer("send", route.peer, layout.num_bytes, x.device)
                    rows, ids = layout.to_wire_order(route.rows), layout.to_wire_order(route.ids)
                    noise = self._noise(self._epoch, self.plan.rank, route.peer)
                    self._codec.decode(segment, layout, x, rows, accumulate=False, ids=ids, noise=noise)

    def forget(self) -> None:
        """Send every row next time: a channel without a cache always does."""
        self.selection.forget()

    def _noise(self, epoch: int, sender: int, receiver: int) -> Noise:
        """Return the key of a message's noise, known to both ends; a row with its sender in it has one receiver."""
        plan, forward = self.plan, self.direction == "forward"
        named = 0 if forward and not plan.parts else sender + 1
        of = stream(self.direction, self.layer, named, self.round)
        behind = (receiver - sender - 1) % plan.workers if forward and not (plan.to_all or plan.parts) else 0
        return Noise(self._seed, epoch, of, behind)

    def _outgoing(self, x: Tensor, route: Route, laid: MessageLayouts, epoch: int, *, still: bool) -> Outgoing:
        """Return the message to one peer: its rows as they are in memory where possible, else what is to be encoded."""
        selection, key = self.selection, ("send", route.peer)
        layout, lying = laid.layouts[key], None
        if still and selection.in_place and route.first is not None and not self._observers.message_encoded:
            try:
                lying = self._codec.send_view(x[route.first : route.first + route.num_rows])
            except NonFiniteRow as error:
                raise self._refusal(error, layout.to_wire_order(route.ids)) from error
        if lying is not None:
            self.bytes_payload += lying.numel()  # such rows have no parameters
            return Outgoing(x, route.rows, route.ids, None, lying)
        buffer = self._buffer(*key, laid.lengths[key], x.device)
        how: dict[str, Any] = {"epoch": epoch, "widths": laid.widths[key], "codec": self._codec}
        message = selection.outgoing(x, route, layout, buffer, **how)
        self._count(message, route)
        return message

    def _count(self, message: Outgoing, route: Route) -> None:
        """Count the bytes and rows of a message."""
        layout = message.layout
        self.bytes_headers += message.head
        if layout is not None:
            self.bytes_payload += layout.payload_bytes
            self.bytes_params += layout.param_bytes
        if self.selection.counts_rows and message.head:
            self.rows_sent += 0 if layout is None else layout.num_rows
            self.rows_offered += route.num_rows

    def _share_block(self, message: Outgoing, route: Route, first: int, epoch: int) -> Tensor:
        """Return the bytes of the block that the first peer gets, for another."""
        self._count(message, route)
        if self._observers.message_encoded:
            self._report(message, route.peer, self._noise(epoch, self.plan.rank, first))
        if first in self.spreads:
            self.spreads[route.peer] = self.spreads[first]
        return message.segment

    def _note(self, message: Outgoing, route: Route, spreads: Tensor | None, noise: Noise) -> None:
        """Report a message that was encoded, keep what encoding noted of its rows, and update what receivers have."""
        layout, peer = message.layout, route.peer
        assert layout is not None
        if self._observers.message_encoded:
            self._report(message, peer, noise)
        if spreads is not None:
            if layout.order is not None:
                spreads = torch.empty_like(spreads).index_copy_(0, layout.order, spreads)
            if message.places is None:
                self.spreads[peer] = spreads
            else:
                shape = route.num_rows, *spreads.shape[1:]
                if peer not in self.spreads or self.spreads[peer].shape != shape:
                    self.spreads[peer] = spreads.new_zeros(shape)
                self.spreads[peer][message.places] = spreads
        self.selection.encoded(message, route, self._codec, noise)

    def _report(self, message: Outgoing, peer: int, noise: Noise) -> None:
        """Emit the event of an encoded message; a block has one event for each receiver."""
        layout, offered = message.layout, self.plan.to_peer(peer)
        if layout is not None and offered.num_rows:
            ids, values = layout.to_wire_order(message.ids), message.x[layout.to_wire_order(message.rows)]
            body = message.segment[message.head :]
            sent = Sent(self.place, self.plan.rank, peer, ids, self._codec, layout, body, noise)
            report_encoded(self._observers, sent, values=values, offered_ids=offered.ids)

    def _landing(
        self, laid: MessageLayouts, out: Tensor | torch.Size, device: torch.device
    ) -> tuple[dict[int, Tensor], set[int]]:
        """Return where each peer's bytes arrive, and the peers whose rows then are where they belong."""
        receive, landed, plan = {}, set(), laid.plan
        replaced = not plan.accumulate and self.selection.in_place
        for route in plan.receive:
            target = None
            if replaced and route.first is not None and route.num_rows:
                assert isinstance(out, Tensor), "rows that replace others need a place from the start"
                target = self._codec.receive_view(out[route.first : route.first + route.num_rows])
            if target is not None:
                landed.add(route.peer)
            else:
                target = self._buffer("receive", route.peer, laid.lengths["receive", route.peer], device)
            receive[route.peer] = target
        return receive, landed

    def _refusal(self, error: NonFiniteRow, ids: Tensor) -> NonFiniteMessage:
        node = int(ids[error.position])
        return NonFiniteMessage(rank=self.plan.rank, layer=self.layer, direction=self.direction, node=node)

    def _lay_out(self, plan: Plan, columns: int, epoch: int) -> MessageLayouts:
        laid, version = self._laid, self._bits.round(epoch)
        if laid is not None and laid.fit(plan, columns, version):
            return laid
        # What a choice of widths costs the training is seen as such; a system without a choice only sets up once.
        new_widths = laid is None or laid.version != version
        with self._phases("assign") if new_widths and len(self._bits.choices) > 1 else nullcontext():
            if laid is None or new_widths:
                widths = widths_in_force(self.place, self.plan, self._bits, seed=self._seed, epoch=epoch)
            else:
                widths = laid.widths
            layouts = lay_out_messages(plan, widths, columns, self._codec, self._known)
            if self._run is not None:
                for layout in layouts.values():
                    _ = layout.digest  # headers need it
        lengths = {key: self.selection.length(layout) for key, layout in layouts.items()}
        self._laid = MessageLayouts(plan, columns, version, widths, layouts, lengths)
        return self._laid

    def _buffer(self, side: str, peer: int, size: int, device: torch.device) -> Tensor:
        """Return a byte buffer that is kept from epoch to epoch, so that its pages stay mapped; or a new one."""
        if not self._keeps_buffers:
            return torch.empty(size, dtype=torch.uint8, device=device)
        key = side if self.direction == "forward" else _OTHER[side], peer
        if self._slot is not None:  # a block has one sender, and one text for all
            key = side, self._slot if side == "receive" else 0
        kept = self._buffers.get(key)
        if kept is None or kept.numel() < size or kept.device != device:
            kept = self._buffers[key] = torch.empty(size, dtype=torch.uint8, device=device)
        return kept[:size]
