"""One place of an exchange: rows in, messages out, rows back in.

A place is a layer, a direction and a round. The channel joins plan, cache, codec, bits and transport. Sender and
receiver derive widths and layouts from the same policy, so they agree without asking each other.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gnnqlab.bits.policy import BitPolicy, Rows
from gnnqlab.bits.row import EXACT
from gnnqlab.compute.products import widened
from gnnqlab.errors import NonFiniteMessage, NonFiniteRow
from gnnqlab.kernels.noise import stream
from gnnqlab.message.channels.incoming import Arrival, Incoming, Layouts, Posted, Received
from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.codecs.entropy import Counting
from gnnqlab.message.place import Phases, Place, at_once, no_phases
from gnnqlab.message.report import Sent, report_encoded
from gnnqlab.message.transport.ahead import Ahead, Expected
from gnnqlab.message.transport.header import Header, Headers
from gnnqlab.message.transport.transport import Transport
from gnnqlab.message.wire import Layout
from gnnqlab.observe import NO_OBSERVERS, Observers
from gnnqlab.partition.plan import Plan, Route

__all__ = ["ByteBuffers", "Channel", "KnownLayouts"]

ByteBuffers = dict[tuple[str, int], Tensor]
"""(which rows, peer) -> bytes of these rows, uint8: those of a forward message out are those of a backward one in."""
_OTHER = {"send": "receive", "receive": "send"}
_NOTHING: tuple[Expected | None, set[int]] = (None, set())
"""No receives are posted."""
KnownLayouts = MutableMapping[Tensor, dict[int, Layout]]
"""Widths of every row, by identity -> columns -> layout: layers that send the same rows lay them out once."""


class Channel:
    """Moves the rows of one place between this worker and its peers."""

    _encodes_rows: ClassVar[bool] = True
    """Whether what is encoded is the rows themselves, not what became of them since."""

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
        round: int = 0,
        run: int | None = None,
        phases: Phases = no_phases,
        launch: Callable[[Callable[[], None]], None] = at_once,
        known: KnownLayouts | None = None,
        keeps_buffers: bool = True,
        buffers: ByteBuffers | None = None,
        counting: Counting | None = None,
        ahead: Ahead | None = None,
        observers: Observers = NO_OBSERVERS,
    ) -> None:
        """Open the channel.

        Args:
            run: number of the run in the headers of messages; ``None`` sends messages without headers.
            launch: calls what starts a transfer when a device has work for the meantime.
            known: layouts that other channels of the same codec have made; they live as long as their widths.
            keeps_buffers: whether bytes have the same memory in every epoch, or memory that is freed after use.
            buffers: that memory, shared with channels whose messages are never under way with its own; by default new.
            counting: says whether the codes that come are counted; by default they are not.
            ahead: says when receives are posted ahead of their exchange; by default never.
            observers: receive an event for each message that is encoded or decoded.
        """
        self.layer, self.direction, self.round, self.plan = layer, direction, round, plan
        self._run = run
        self._codec, self._bits, self._transport = codec, bits, transport
        self._seed, self._phases, self._launch = seed, phases, launch
        self._known: KnownLayouts = WeakTensorKeyDictionary() if known is None else known
        self._epoch = 0
        self._layouts: Layouts = {}
        self._laid_out_for: tuple[Plan, int, int] | None = None
        self._widths: dict[tuple[str, int], int | Tensor] = {}
        self._widths_of: int | None = None
        self._keeps_buffers = keeps_buffers
        self._buffers: ByteBuffers = {} if buffers is None else buffers
        self._observers, self._received = observers, Received(counting or Counting(), observers)
        self._how: dict[str, bool] = {}
        """What else the transport is told of every message."""
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
    def place(self) -> Place:
        return Place(self.layer, self.direction, self.round)

    @property
    def arrivals(self) -> list[Arrival]:
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
        return None

    @property
    def columns(self) -> int:
        """D of the last message."""
        assert self._laid_out_for is not None, "nothing was sent yet"
        return self._laid_out_for[1]

    def taken(self, x: Tensor) -> Tensor:
        """Return rows as this channel posts them: bfloat16 where its codec writes such as they are, else float32."""
        as_they_are = self._encodes_rows and self._codec.takes_bfloat16
        return x if as_they_are else widened(x)

    def post(
        self,
        x: Tensor,
        out: Tensor | torch.Size,
        *,
        epoch: int,
        plan: Plan | None = None,
        sampled_in: int | None = None,
        still: bool = False,
    ) -> Incoming:
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
        layouts = self._lay_out(plan, x.shape[1], epoch)
        expected, landed = self._expected.pop(epoch, _NOTHING) if plan is self.plan else _NOTHING
        self._expected.clear()
        if self._ahead is not None:
            self._ahead.posts(self, epoch)
            if expected is None:
                expected, landed = self._expect(plan, layouts, out, epoch, x.device)
        with self._phases("encode"):
            send = {
                route.peer: self._sent(x, route, layouts["send", route.peer], epoch, still=still) for route in plan.send
            }
            headers = self._headers(layouts, x.shape[1], epoch) if expected is None else expected.headers
        if expected is None:
            receive, landed = self._landing(plan, layouts, out, x.device)
            how: dict[str, Any] = self._how
        else:
            receive, how = dict(expected.receive), {"expected": expected}
        self.bytes_headers += 0 if headers is None else headers.num_bytes
        with self._phases("post"):
            transfer = self._transport.post(send, receive, headers, **how)
        self._launch(transfer.start)
        self._epoch, self._device = epoch, x.device
        read = None if self._ahead is None else partial(self._ahead.read, self, epoch)
        noise = partial(self._noise_from, epoch)
        return self._incoming(Posted(plan, layouts, transfer, receive, landed, headers, sampled_in, noise, read), out)

    def expect(self, epoch: int) -> bool:
        """Post the receives of this epoch's message now, if what comes is known: all rows of the plan, in bytes.

        Without headers nothing tells messages apart, so one that comes before it would be taken for it.
        """
        if self._laid_out_for is None or self._run is None:
            return False
        nowhere = torch.empty(0, self.columns)
        known = self._laid_out_for == (self.plan, self.columns, self._bits.round(epoch))
        if not known or not (self.plan.accumulate or self._codec.landing(nowhere) is None):
            return False
        self._expected[epoch] = self._expect(self.plan, self._layouts, nowhere, epoch, self._device)
        return self._expected[epoch][0] is not None

    def _expect(
        self, plan: Plan, layouts: Layouts, out: Tensor | torch.Size, epoch: int, device: torch.device
    ) -> tuple[Expected | None, set[int]]:
        """Post the receives of a message, if the transport does so; return them, and whose rows land in their places.

        A message that may be shorter than its buffer is received when it is posted.
        """
        expect = getattr(self._transport, "expect", None)
        if expect is None or self._how:
            return _NOTHING
        receive, landed = self._landing(plan, layouts, out, device)
        assert self._laid_out_for is not None
        return expect(receive, self._headers(layouts, self._laid_out_for[1], epoch)), landed

    def as_received(self, x: Tensor) -> None:
        """Put the rows of the last message into ``x`` as their receivers decode them, before the next one is written.

        So a sender's own row is the same as its receivers', bit for bit.
        """
        with self._phases("decode"):
            for route in self.plan.send:
                layout = self._layouts["send", route.peer]
                if layout.num_bytes and layout.rows_of(EXACT) < layout.num_rows:
                    segment = self._buffer("send", route.peer, layout.num_bytes, x.device)
                    rows, ids = layout.arranged(route.rows), layout.arranged(route.ids)
                    noise = self._noise(self._epoch, self.plan.rank, route.peer)
                    self._codec.decode(segment, layout, x, rows, accumulate=False, ids=ids, noise=noise)

    def forget(self) -> None:
        """Let everything travel next time: a channel without a cache always does."""

    def _noise(self, epoch: int, sender: int, receiver: int) -> Noise:
        """Return the key of a message's noise, known to both ends; a row with its sender in it has one receiver."""
        plan, forward = self.plan, self.direction == "forward"
        named = 0 if forward and not plan.parts else sender + 1
        of = stream(self.direction, self.layer, named, self.round)
        behind = (receiver - sender - 1) % plan.workers if forward and not (plan.to_all or plan.parts) else 0
        return Noise(self._seed, epoch, of, behind)

    def _noise_from(self, epoch: int, sender: int) -> Noise:
        return self._noise(epoch, sender, self.plan.rank)

    def _sent(self, x: Tensor, route: Route, layout: Layout, epoch: int, *, still: bool) -> Tensor:
        """Return the bytes to one peer: its rows as they are in memory where possible, else encoded ones."""
        segment = self._departing(x, route, layout) if still and not self._observers.message_encoded else None
        if segment is None:
            return self._write(x, route, layout, epoch, self._noise(epoch, self.plan.rank, route.peer))
        self.bytes_payload += segment.numel()  # such rows have no parameters
        return segment

    def _departing(self, x: Tensor, route: Route, layout: Layout) -> Tensor | None:
        """Return the bytes of a route's rows if a message may be sent from where they lie."""
        if route.first is None or not route.num_rows:
            return None
        try:
            return self._codec.departing(x[route.first : route.first + route.num_rows])
        except NonFiniteRow as error:
            raise self._refusal(error, layout.arranged(route.ids)) from error

    def _write(self, x: Tensor, route: Route, layout: Layout, epoch: int, noise: Noise) -> Tensor:
        """Return the bytes to one peer."""
        segment = self._buffer("send", route.peer, layout.num_bytes, x.device)
        spreads = self._encode(x, route, layout, segment, noise)
        if spreads is not None:
            self.spreads[route.peer] = spreads
        self.bytes_payload += layout.payload_bytes
        self.bytes_params += layout.param_bytes
        return segment

    def _landing(
        self, plan: Plan, layouts: Layouts, out: Tensor | torch.Size, device: torch.device
    ) -> tuple[dict[int, Tensor], set[int]]:
        """Return where each peer's bytes arrive, and the peers whose rows then are where they belong."""
        receive, landed = {}, set()
        for route in plan.receive:
            target = None
            if route.first is not None and route.num_rows and not plan.accumulate:
                assert isinstance(out, Tensor), "rows that replace others need a place from the start"
                target = self._codec.landing(out[route.first : route.first + route.num_rows])
            if target is not None:
                landed.add(route.peer)
            else:
                target = self._buffer("receive", route.peer, layouts["receive", route.peer].num_bytes, device)
            receive[route.peer] = target
        return receive, landed

    def _incoming(self, posted: Posted, out: Tensor | torch.Size) -> Incoming:
        return Incoming(posted, out, self.place, self._codec, self._phases, self._received)

    def _headers(self, layouts: Layouts, columns: int, epoch: int) -> Headers | None:
        if self._run is None:
            return None
        rank, sent, expected = self.plan.rank, dict[int, Header](), dict[int, Header]()
        of = partial(Header, direction=self.direction, run=self._run, epoch=epoch, layer=self.layer, round=self.round)
        for (side, peer), layout in layouts.items():
            sender, receiver, headers = (rank, peer, sent) if side == "send" else (peer, rank, expected)
            if layout.num_bytes:
                of_body = partial(of, columns=columns, length=self._length(layout), layout=layout.digest)
                headers[peer] = of_body(sender=sender, receiver=receiver)
        return Headers(sent, expected)

    def _length(self, layout: Layout) -> int:
        """Bytes that a header announces for the body."""
        return layout.num_bytes

    def _encode(self, x: Tensor, route: Route, layout: Layout, segment: Tensor, noise: Noise) -> Tensor | None:
        """Write a route's rows of ``x``; return what it notes of each, in the route's order, if it does."""
        rows, ids = layout.arranged(route.rows), layout.arranged(route.ids)
        try:
            spreads = self._codec.encode(x, rows, ids, layout, segment, noise)
        except NonFiniteRow as error:
            raise self._refusal(error, ids) from error
        if self._observers.message_encoded and (offered := self.plan.to_peer(route.peer)).num_rows:
            sent = Sent(self.place, self.plan.rank, route.peer, ids, self._codec, layout, segment, noise)
            report_encoded(self._observers, sent, values=x[rows], offered_ids=offered.ids)
        if spreads is None or layout.order is None:
            return spreads
        return torch.empty_like(spreads).index_copy_(0, layout.order, spreads)

    def _refusal(self, error: NonFiniteRow, ids: Tensor) -> NonFiniteMessage:
        node = int(ids[error.position])
        return NonFiniteMessage(rank=self.plan.rank, layer=self.layer, direction=self.direction, node=node)

    def _lay_out(self, plan: Plan, columns: int, epoch: int) -> Layouts:
        number = self._bits.round(epoch)
        wanted = (plan, columns, number)
        if wanted == self._laid_out_for:
            return self._layouts
        # What a choice of widths costs the training is seen as such; a system without a choice only sets up once.
        chosen = number != self._widths_of and len(self._bits.choices) > 1
        with self._phases("assign") if chosen else nullcontext():
            if number != self._widths_of:
                self._widths, self._widths_of = self._ask(epoch), number
            self._layouts, self._laid_out_for = self._layouts_of(plan, columns), wanted
            if self._run is not None:
                for layout in self._layouts.values():
                    _ = layout.digest  # headers need it
        return self._layouts

    def _layouts_of(self, plan: Plan, columns: int) -> Layouts:
        layouts: Layouts = {}
        for side, routes in (("send", plan.send), ("receive", plan.receive)):
            for route in routes:
                widths = self._widths[side, route.peer]
                if route.kept is not None and isinstance(widths, Tensor):
                    widths = widths[route.kept]
                if route.kept is None and isinstance(widths, Tensor):
                    made = self._known.setdefault(widths, {})
                    if columns not in made:
                        made[columns] = self._codec.layout(widths, route.num_rows, columns)
                    layouts[side, route.peer] = made[columns]
                else:
                    layouts[side, route.peer] = self._codec.layout(widths, route.num_rows, columns)
        return layouts

    def _ask(self, epoch: int) -> dict[tuple[str, int], int | Tensor]:
        """Return the widths in force of all rows of the plan."""
        widths = {}
        for side, routes in (("send", self.plan.send), ("receive", self.plan.receive)):
            for route in routes:
                sender, receiver = self.plan.rank, route.peer
                if side == "receive":
                    sender, receiver = receiver, sender
                if self.plan.to_all:
                    receiver = sender
                rows = Rows(
                    layer=self.layer,
                    direction=self.direction,
                    round=self.round,
                    sender=sender,
                    receiver=receiver,
                    ids=route.ids,
                    seed=self._seed,
                )
                widths[side, route.peer] = self._bits.widths(rows, epoch)
        return widths

    def _buffer(self, side: str, peer: int, size: int, device: torch.device) -> Tensor:
        """Return a byte buffer that is kept from epoch to epoch, so that its pages stay mapped; or a new one."""
        if not self._keeps_buffers:
            return torch.empty(size, dtype=torch.uint8, device=device)
        key = side if self.direction == "forward" else _OTHER[side], peer
        kept = self._buffers.get(key)
        if kept is None or kept.numel() < size or kept.device != device:
            kept = self._buffers[key] = torch.empty(size, dtype=torch.uint8, device=device)
        return kept[:size]
