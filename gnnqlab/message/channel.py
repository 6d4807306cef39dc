"""One layer and direction of an exchange: rows in, messages out, rows back in.

The channel joins plan, codec, bits and transport. Sender and receiver derive widths and layouts from the
same policy, so they agree without asking each other.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gnnqlab.bits.policy import BitPolicy, Rows
from gnnqlab.errors import NonFiniteMessage, NonFiniteRow
from gnnqlab.kernels.noise import stream
from gnnqlab.message.codec import Codec, Noise
from gnnqlab.message.header import Header, Headers
from gnnqlab.message.plan import Plan, Route
from gnnqlab.message.transport import Transfer, Transport
from gnnqlab.message.wire import Layout

__all__ = ["Arrival", "Channel", "Pending", "Phases"]

Phases = Callable[[str], AbstractContextManager[object]]
"""Opens a named phase of the epoch's clock: ``with phases("encode"): ...``."""


def no_phases(name: str) -> AbstractContextManager[object]:
    """Measure nothing."""
    return nullcontext()


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


KnownLayouts = MutableMapping[Tensor, dict[int, Layout]]
"""Widths of every row, by identity -> columns -> layout: layers that send the same rows lay them out once."""

_Layouts = dict[tuple[str, int], Layout]
"""(``send`` or ``receive``, peer) -> layout."""


class Channel:
    """Moves the rows of one (layer, direction) between this worker and its peers."""

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
        run: int | None = None,
        phases: Phases = no_phases,
        known: KnownLayouts | None = None,
    ) -> None:
        """Open the channel.

        Args:
            run: number of the run in the headers of messages; ``None`` sends messages without headers.
            known: layouts that other channels of the same codec have made; they live as long as their widths.
        """
        self.layer, self.direction, self.plan = layer, direction, plan
        self._run = run
        self._codec, self._bits, self._transport = codec, bits, transport
        self._seed, self._phases = seed, phases
        self._known: KnownLayouts = WeakTensorKeyDictionary() if known is None else known
        sender = plan.rank + 1 if direction == "backward" else 0
        self._stream = stream(direction, layer, sender)
        self._layouts: _Layouts = {}
        self._laid_out_for: tuple[Plan, int, int] | None = None
        self._widths: dict[tuple[str, int], int | Tensor] = {}
        self._widths_of: int | None = None
        self._buffers: dict[tuple[str, int], Tensor] = {}
        self.bytes_payload = 0
        """Payload bytes sent so far, all peers."""
        self.bytes_params = 0
        """Parameter bytes sent so far, all peers."""
        self.bytes_headers = 0
        """Header bytes sent so far, all peers."""
        self.wire_s = 0.0
        """Seconds during which this channel had bytes under way."""
        self.ranges: dict[int, Tensor] = {}
        """Range (max - min) of each row in the last message to a peer, plan order: the trace of the assigner."""
        self.arrivals: list[Arrival] = []
        """Messages received since the list was last cleared."""

    @property
    def columns(self) -> int:
        """D of the last message."""
        assert self._laid_out_for is not None, "nothing was sent yet"
        return self._laid_out_for[1]

    def post(self, x: Tensor, out: Tensor | None, *, epoch: int, plan: Plan | None = None) -> Pending:
        """Encode the rows of ``x`` for every peer and start moving them.

        Args:
            x: float32 ``(n, D)``, the rows that the plan's send routes index.
            out: float32 ``(m, D)``, where the plan's receive routes put rows; must live until ``wait``. ``None``: said
                when rows land; only rows that are added can wait for that.
            epoch: enters the noise, and decides which bit-widths are in force.
            plan: those of the plan's rows that travel this time; by default all.

        Raises:
            NonFiniteMessage: if a row to send holds NaN or Inf.
        """
        plan = plan or self.plan
        layouts = self._lay_out(plan, x.shape[1], epoch)
        noise = Noise(self._seed, epoch, self._stream)
        send, receive = {}, {}
        with self._phases("encode"):
            for route in plan.send:
                layout = layouts["send", route.peer]
                segment = self._buffer("send", route.peer, layout.num_bytes, x.device)
                self._encode(x, route, layout, segment, noise)
                send[route.peer] = segment
                self.bytes_payload += layout.payload_bytes
                self.bytes_params += layout.param_bytes
            headers = self._headers(layouts, x.shape[1], epoch)
        landed = set()
        for route in plan.receive:
            layout = layouts["receive", route.peer]
            target = None
            if route.first is not None and route.num_rows and not self.plan.accumulate:
                assert out is not None
                target = self._codec.landing(out[route.first : route.first + route.num_rows])
            if target is None:
                target = self._buffer("receive", route.peer, layout.num_bytes, x.device)
            else:
                landed.add(route.peer)
            receive[route.peer] = target
        with self._phases("post"):
            transfer = self._transport.post(send, receive, headers)
        return Pending(self, transfer, receive, landed, out, headers, plan, layouts)

    def _headers(self, layouts: _Layouts, columns: int, epoch: int) -> Headers | None:
        if self._run is None:
            return None
        rank, sent, expected = self.plan.rank, {}, {}
        for (side, peer), layout in layouts.items():
            if layout.num_bytes and side == "send":
                sent[peer] = self._header(layout, rank, peer, columns, epoch)
            elif layout.num_bytes:
                expected[peer] = self._header(layout, peer, rank, columns, epoch)
        headers = Headers(sent, expected)
        self.bytes_headers += headers.num_bytes
        return headers

    def _header(self, layout: Layout, sender: int, receiver: int, columns: int, epoch: int) -> Header:
        assert self._run is not None
        return Header(
            direction=self.direction,
            run=self._run,
            epoch=epoch,
            layer=self.layer,
            sender=sender,
            receiver=receiver,
            columns=columns,
            length=layout.num_bytes,
            layout=layout.digest,
        )

    def _encode(self, x: Tensor, route: Route, layout: Layout, segment: Tensor, noise: Noise) -> None:
        rows, ids = layout.arranged(route.rows), layout.arranged(route.ids)
        try:
            ranges = self._codec.encode(x, rows, ids, layout, segment, noise)
        except NonFiniteRow as error:
            raise NonFiniteMessage(
                rank=self.plan.rank, layer=self.layer, direction=self.direction, node=int(ids[error.position])
            ) from error
        if ranges is not None:
            self.ranges[route.peer] = (
                ranges if layout.order is None else torch.empty_like(ranges).index_copy_(0, layout.order, ranges)
            )

    def _lay_out(self, plan: Plan, columns: int, epoch: int) -> _Layouts:
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

    def _layouts_of(self, plan: Plan, columns: int) -> _Layouts:
        layouts: _Layouts = {}
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
                rows = Rows(
                    layer=self.layer,
                    direction=self.direction,
                    sender=sender,
                    receiver=receiver,
                    ids=route.ids,
                    seed=self._seed,
                )
                widths[side, route.peer] = self._bits.widths(rows, epoch)
        return widths

    def _buffer(self, side: str, peer: int, size: int, device: torch.device) -> Tensor:
        """Return a byte buffer that is kept from epoch to epoch, so that its pages stay mapped."""
        kept = self._buffers.get((side, peer))
        if kept is None or kept.numel() < size or kept.device != device:
            kept = torch.empty(size, dtype=torch.uint8, device=device)
            self._buffers[side, peer] = kept
        return kept[:size]

    def _finish(self, pending: Pending) -> None:
        transfer = pending.transfer
        with self._phases("wait"):
            transfer.wait()
        self.wire_s += transfer.wire_s
        for route in pending.plan.receive:
            layout = pending.layouts["receive", route.peer]
            seconds = transfer.seconds.get(route.peer, 0.0)
            self.arrivals.append(
                Arrival(self.layer, self.direction, route.peer, self.plan.rank, layout, seconds, transfer.started)
            )

    def _decode(self, pending: Pending, out: Tensor) -> None:
        with self._phases("decode"):
            for route in sorted(pending.plan.receive, key=lambda route: route.peer):
                layout = pending.layouts["receive", route.peer]
                segment = pending.receive[route.peer]
                if pending.headers is not None and segment.numel():
                    pending.headers.verify(route.peer, segment)
                if route.peer in pending.landed:
                    continue
                rows = layout.arranged(route.rows)
                self._codec.decode(segment, layout, out, rows, accumulate=self.plan.accumulate)


class Pending:
    """Rows under way."""

    def __init__(
        self,
        channel: Channel,
        transfer: Transfer,
        receive: dict[int, Tensor],
        landed: set[int],
        out: Tensor | None,
        headers: Headers | None,
        plan: Plan,
        layouts: _Layouts,
    ) -> None:
        self._channel = channel
        self.transfer, self.receive, self.landed, self.out = transfer, receive, landed, out
        self.headers, self.plan, self.layouts = headers, plan, layouts

    def arrive(self) -> None:
        """Return when every byte has come.

        Raises:
            UnexpectedMessage: if a message has a header that does not belong here.
        """
        self._channel._finish(self)

    def land(self, out: Tensor | None = None) -> None:
        """Put the rows that came into ``out``, or add them there, peer by peer in rank order.

        Args:
            out: as in ``post``, where it was not said.

        Raises:
            UnexpectedMessage: if a message does not have the checksum of its header.
        """
        out = self.out if out is None else out
        assert out is not None, "somebody has to say where rows land"
        self._channel._decode(self, out)

    def wait(self) -> None:
        """Return when every row has come and stands in, or was added to, ``out``.

        Raises:
            UnexpectedMessage: if a message is not the expected one.
        """
        self.arrive()
        self.land()
