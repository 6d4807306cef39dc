"""Transport of rows that are sent once to each other host: to their relay there, which passes their bytes on.

A row's parameters and payload are moved as they were encoded, so no row is decoded or rounded again. Both transfers
have headers of their own. The receive buffers get the same bytes as without relays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from gnnqlab.message.layout import Layout
from gnnqlab.message.transport.header import Header, Headers
from gnnqlab.message.transport.staging import Buffers
from gnnqlab.message.transport.transport import Transfer, Transport
from gnnqlab.partition.host_copies import receivers_on_host, with_relays
from gnnqlab.partition.plan import HostCopies, Plan

__all__ = ["OncePerHost", "agree_on_relays"]


def agree_on_relays(plan: Plan, hosts: int, transport: Transport) -> Plan:
    """Return a plan whose rows are sent once to each other host; collective over all workers.

    Each sender sends a mask of the workers of a host that get its rows to each receiver there: once, with one byte per
    row and worker.

    Args:
        plan: rows of one worker, which do not depend on the receiver.
        hosts: number of hosts, each with equally many consecutive workers.
        transport: transport to all peers.
    """
    per_host = plan.workers // hosts
    sent = receivers_on_host({route.peer: route.ids for route in plan.send}, plan.rank, per_host)
    received = {
        route.peer: torch.empty(route.num_rows, per_host, dtype=torch.uint8, device=route.rows.device)
        for route in plan.receive
        if route.peer // per_host != plan.rank // per_host
    }
    flat = {peer: needs.flatten() for peer, needs in sent.items()}
    transport.post(flat, {peer: needs.view(-1) for peer, needs in received.items()}).wait()
    return with_relays(plan, sent, received, per_host)


class SendingChannel(Protocol):
    """Members of a channel that :class:`OncePerHost` reads and changes."""

    bytes_payload: int
    bytes_params: int
    bytes_headers: int

    @property
    def layouts(self) -> Mapping[tuple[str, int], Layout]:
        """Layouts of the messages with all rows; one bit-width for all rows."""


class OncePerHost:
    """Transport of one exchange whose plan has :class:`~gnnqlab.partition.plan.HostCopies`.

    Args:
        transport: transport of both transfers.
        plan: the rows, with their relays.
        channel: its totals of sent bytes are corrected: for rows that others pass on, and rows passed on for others.
    """

    def __init__(self, transport: Transport, plan: Plan, channel: SendingChannel) -> None:
        assert plan.host_copies is not None, "a plan without relays"
        self._transport, self._copies, self._channel = transport, plan.host_copies, channel

    def post(
        self, send: Buffers, receive: Buffers, headers: Headers | None = None, *, bounded: bool = False
    ) -> Transfer:
        assert not bounded, "relays need messages of a known length"
        channel, layouts = self._channel, self._channel.layouts
        transfer = _RelayedTransfer(self._transport, self._copies, layouts, send, receive, headers)
        row = next((layout for layout in layouts.values() if layout.num_rows), None)
        if row is not None:
            channel.bytes_payload += self._copies.added_rows * (row.payload_bytes // row.num_rows)
            channel.bytes_params += self._copies.added_rows * (row.param_bytes // row.num_rows)
        channel.bytes_headers += transfer.added_header_bytes
        return transfer


class _RelayedTransfer(Transfer):
    """Transfer in two steps: rows to other hosts, and within hosts; then rows that are passed on within hosts."""

    def __init__(
        self,
        transport: Transport,
        copies: HostCopies,
        layouts: Mapping[tuple[str, int], Layout],
        send: Buffers,
        receive: Buffers,
        headers: Headers | None,
    ) -> None:
        super().__init__()
        self._transport, self._copies, self._layouts, self._receive = transport, copies, layouts, receive
        self._row_bytes = next((each.num_bytes // each.num_rows for each in layouts.values() if each.num_rows), 0)
        self._device = next((body.device for body in receive.values()), torch.device("cpu"))
        sent = {
            peer: self._cut("send", peer, body, copies.sent[peer]) if peer in copies.sent else body
            for peer, body in send.items()
        }
        self._arriving = {
            peer: self._buffer(copies.received[peer].numel()) if peer in copies.received else body
            for peer, body in receive.items()
        }
        self._passing, self._passed = (
            {peer: self._buffer(sum(rows.numel() for rows in by_owner.values())) for peer, by_owner in passed.items()}
            for passed in (copies.passed_on, copies.passed_here)
        )
        self._own = None if headers is None else _with_lengths(headers, sent, self._arriving)
        self._relayed = None if headers is None else _relay_headers(headers, self._passing, self._passed)
        counts = [0 if each is None else each.num_bytes for each in (self._own, self._relayed, headers)]
        self.added_header_bytes = counts[0] + counts[1] - counts[2]
        """Bytes of the headers of both steps, minus those of the whole messages."""
        self._first = transport.post(sent, self._arriving, self._own)
        self.started = self._first.started

    def start(self) -> None:
        self._first.start()

    def _finish(self) -> None:
        copies = self._copies
        self._first.wait()
        self.seconds = self._first.seconds
        for owner, body in self._arriving.items():
            _verify(self._own, owner, body)
            if owner in copies.received:
                self._put(owner, copies.received[owner], body)
        # The bytes are passed on as they were received, owner by owner in the order of ranks at both ends.
        for peer, by_owner in copies.passed_on.items():
            parts = [self._cut("receive", owner, self._receive[owner], rows) for owner, rows in by_owner.items()]
            torch.cat(parts, out=self._passing[peer])
        second = self._transport.post(self._passing, self._passed, self._relayed)
        second.wait()
        for peer, by_owner in copies.passed_here.items():
            _verify(self._relayed, peer, self._passed[peer])
            sizes = [rows.numel() * self._row_bytes for rows in by_owner.values()]
            for (owner, rows), part in zip(by_owner.items(), self._passed[peer].split(sizes), strict=True):
                self._put(owner, rows, part)
            self.seconds[peer] = second.started - self.started + second.seconds.get(peer, 0.0)
        self.wire_s = self._first.wire_s + second.wire_s

    def _buffer(self, rows: int) -> Tensor:
        return torch.empty(rows * self._row_bytes, dtype=torch.uint8, device=self._device)

    def _cut(self, side: str, peer: int, body: Tensor, rows: Tensor) -> Tensor:
        """Return the bytes of some rows of a message: parameters of all of them, then payload of all."""
        parts = _by_row(body, self._layouts[side, peer])
        return torch.cat([part.index_select(0, rows).flatten() for part in parts])

    def _put(self, owner: int, rows: Tensor, part: Tensor) -> None:
        """Write the bytes of some rows into the message of their owner."""
        layout = self._layouts["receive", owner]
        first = 0
        for target in _by_row(self._receive[owner], layout):
            size = rows.numel() * target.shape[1]
            target.index_copy_(0, rows, part[first : first + size].view(rows.numel(), target.shape[1]))
            first += size


def _by_row(body: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Return views of a message by row: parameters, uint8 ``(n, p)``, and payload ``(n, B)``."""
    count, (params, payload) = layout.num_rows, layout.split(body)
    return (
        params.view(count, layout.param_bytes // max(count, 1)),
        payload.view(count, layout.payload_bytes // max(count, 1)),
    )


def _with_lengths(headers: Headers, sent: Buffers, expected: Buffers) -> Headers:
    """Return the headers of the rows that are sent directly; a message without rows has none."""

    def resized(of_peers: Mapping[int, Header], bodies: Buffers) -> dict[int, Header]:
        sizes = {peer: bodies[peer].numel() for peer in of_peers}
        return {peer: replace(header, length=sizes[peer]) for peer, header in of_peers.items() if sizes[peer]}

    return Headers(resized(headers.sent, sent), resized(headers.expected, expected))


def _relay_headers(headers: Headers, passing: Buffers, passed: Buffers) -> Headers:
    """Return the headers of the rows that are passed on: those of the next round."""
    if not passing and not passed:
        return Headers({}, {})
    whole = next(iter(headers.expected.values()))  # passed rows belong to messages that this worker expects
    part = replace(whole, round=whole.round + 1, layout=0)
    rank = whole.receiver
    return Headers(
        {peer: replace(part, sender=rank, receiver=peer, length=body.numel()) for peer, body in passing.items()},
        {peer: replace(part, sender=peer, receiver=rank, length=body.numel()) for peer, body in passed.items()},
    )


def _verify(headers: Headers | None, peer: int, body: Tensor) -> None:
    """Compare a received part with the checksum in its header."""
    if headers is not None and body.numel():
        headers.verify(peer, body)
