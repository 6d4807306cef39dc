"""Emulated link between hosts: delay messages until they would be received at a given rate.

For machines that cannot emulate hosts by other means. Messages use the real connection between workers, but count as
received only when the emulated link would have delivered them. Each worker has an equal share of its host's link, each
way. All workers run on one machine, so they share a clock and a small memory-mapped file: the sender writes the time at
which the last byte of a message is sent, the receiver reads it. ::

    left(n)  = max(now, left(n - 1)) + bytes / share
    come(n)  = max(left(n), come(n - 1) + bytes / share)
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from gnnqlab.message.transport.header import Headers
from gnnqlab.message.transport.preposted_receives import Expected
from gnnqlab.message.transport.transport import Transfer, Transport
from gnnqlab.partition.cut import check_host_count

__all__ = ["Paced", "Pacer"]

_SLOTS = 64
"""Maximum number of messages in flight between a pair of workers."""
_SLOT = struct.Struct("<dq")
"""Time at which the last byte of a message is sent, and number of bytes."""


class Pacer:
    """One worker's share of its host's emulated link, and the send times shared with other workers.

    Args:
        rank: this worker.
        workers: P; consecutive ranks share a host.
        hosts: number of hosts.
        bytes_per_s: rate of each host's link, each way.
        board: file shared by all workers; the first one creates it.

    Raises:
        ValueError: if workers is not a multiple of hosts, or the rate is not positive.
    """

    def __init__(self, rank: int, workers: int, *, hosts: int, bytes_per_s: float, board: Path) -> None:
        check_host_count(workers, hosts)
        if not bytes_per_s > 0:
            raise ValueError(f"bytes_per_s must be positive, got {bytes_per_s}")
        self.rank, self.workers = rank, workers
        self._a_host = workers // hosts
        self.bytes_per_s = bytes_per_s / self._a_host
        size = workers * workers * _SLOTS * _SLOT.size  # (sender, receiver, slot), 16 bytes each
        with open(board, "a+b") as file:
            file.truncate(size)  # fills a new file with zeros; an existing one of this size is unchanged
            self._board = mmap.mmap(file.fileno(), size)
        # Times at which the outgoing and the incoming link are free again.
        self._left_s = self._come_s = 0.0
        self._sent = [0] * workers
        self._received = [0] * workers

    def slow(self, peer: int) -> bool:
        """Return True if a peer is on another host."""
        return peer // self._a_host != self.rank // self._a_host

    def leave(self, sizes: Mapping[int, int]) -> float:
        """Record messages sent now; return the time at which the last byte is sent.

        Args:
            sizes: peer -> bytes of its message.
        """
        for peer, size in sizes.items():
            # left(n): the link sends one message after another, so this one waits for the previous one.
            self._left_s = max(time.monotonic(), self._left_s) + size / self.bytes_per_s
            offset = self._slot(self.rank, peer, self._sent[peer])
            self._sent[peer] += 1
            _SLOT.pack_into(self._board, offset, self._left_s, size)
        return self._left_s if sizes else 0.0

    def prepost(self, peer: int) -> int:
        """Return the sequence number of the next message from a peer; call once per message, in order."""
        number = self._received[peer]
        self._received[peer] += 1
        return number

    def come(self, peer: int, number: int) -> float:
        """Return the time at which a message counts as received; call after its bytes were received."""
        left_s, size = _SLOT.unpack_from(self._board, self._slot(peer, self.rank, number))
        # come(n): limited by the sender's link or by the share of the receiver's link.
        self._come_s = max(left_s, self._come_s + size / self.bytes_per_s)
        return self._come_s

    def _slot(self, sender: int, receiver: int, number: int) -> int:
        # A ring of slots per pair: a slot is used again after _SLOTS messages.
        return ((sender * self.workers + receiver) * _SLOTS + number % _SLOTS) * _SLOT.size


class Paced:
    """Wrapper that slows a transport down to the rate of an emulated link."""

    def __init__(self, transport: Transport, pacer: Pacer) -> None:
        self._transport, self._pacer = transport, pacer

    def prepost(self, receive: Mapping[int, Tensor], headers: Headers | None = None) -> Expected | None:
        """Prepost the receives of an exchange, if the wrapped transport can."""
        prepost = getattr(self._transport, "prepost", None)
        expected_receives: Expected | None = None if prepost is None else prepost(receive, headers)
        return expected_receives

    def post(
        self,
        send: Mapping[int, Tensor],
        receive: Mapping[int, Tensor],
        headers: Headers | None = None,
        **how: Any,
    ) -> Transfer:
        pacer, began_s = self._pacer, time.monotonic()
        # Record the send times before the real post, so that a receiver that has the bytes can read them.
        left_s = pacer.leave({peer: body.nbytes for peer, body in send.items() if body.numel() and pacer.slow(peer)})
        numbers = {peer: pacer.prepost(peer) for peer, body in receive.items() if body.numel() and pacer.slow(peer)}
        transfer = self._transport.post(send, receive, headers, **how)
        return _PacedTransfer(transfer, pacer, began_s, left_s, numbers)


class _PacedTransfer(Transfer):
    def __init__(
        self, transfer: Transfer, pacer: Pacer, began_s: float, left_s: float, numbers: Mapping[int, int]
    ) -> None:
        super().__init__()
        self.started = transfer.started
        self._transfer, self._pacer = transfer, pacer
        self._began_s, self._left_s, self._numbers = began_s, left_s, numbers

    def start(self) -> None:
        self._transfer.start()

    def _finish(self) -> None:
        self._transfer.wait()
        self.seconds = self._transfer.seconds
        until_s = self._left_s
        for peer, number in self._numbers.items():  # the link is shared: messages are received one after another
            come_s = self._pacer.come(peer, number)
            self.seconds[peer] = max(self.seconds.get(peer, 0.0), come_s - self._began_s)
            until_s = max(until_s, come_s)
        self.wire_s = max(self._transfer.wire_s, until_s - self._began_s)
        time.sleep(max(0.0, until_s - time.monotonic()))  # the rest of the time that the emulated link takes
