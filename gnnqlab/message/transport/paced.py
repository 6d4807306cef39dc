"""A link that is not there: messages to other hosts take as long as their bytes would at its rate.

For machines that cannot emulate hosts. The bytes move over whatever joins the workers; a message only counts as come
once it would have. Each worker has an equal share of its host's link, each way. All workers are on one machine, so
they share a clock and a small file: a sender writes down when the last byte of a message has left, its receiver reads
that. ::

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

__all__ = ["Paced", "Pacer"]

_SLOTS = 64
"""Messages of a pair of workers that may be under way at once."""
_SLOT = struct.Struct("<dq")
"""When the last byte of a message has left, and how many it had."""


class Pacer:
    """One worker's share of its host's link, and the notes it exchanges with the others.

    Args:
        rank: this worker.
        workers: P; consecutive ranks share a host.
        hosts: how many hosts.
        bytes_per_s: rate of each host's link, each way.
        board: a file that all workers share; made by whoever comes first.

    Raises:
        ValueError: if the workers cannot be shared out evenly, or the rate is not positive.
    """

    def __init__(self, rank: int, workers: int, *, hosts: int, bytes_per_s: float, board: Path) -> None:
        if hosts < 1 or workers % hosts:
            raise ValueError(f"workers must be a multiple of the hosts, got {workers} workers on {hosts} hosts")
        if not bytes_per_s > 0:
            raise ValueError(f"bytes_per_s must be positive, got {bytes_per_s}")
        self.rank, self.workers = rank, workers
        self._a_host = workers // hosts
        self.bytes_per_s = bytes_per_s / self._a_host
        size = workers * workers * _SLOTS * _SLOT.size
        with open(board, "a+b") as file:
            file.truncate(size)  # a new file is all zeros, and a file of this size stays as it is
            self._board = mmap.mmap(file.fileno(), size)
        self._left_s = self._come_s = 0.0
        self._sent = [0] * workers
        self._received = [0] * workers

    def slow(self, peer: int) -> bool:
        """Whether the link lies between this worker and a peer."""
        return peer // self._a_host != self.rank // self._a_host

    def leave(self, sizes: Mapping[int, int]) -> float:
        """Note messages that are sent now, peer to bytes; return when the last of them has left."""
        for peer, size in sizes.items():
            self._left_s = max(time.monotonic(), self._left_s) + size / self.bytes_per_s
            place = self._slot(self.rank, peer, self._sent[peer])
            self._sent[peer] += 1
            _SLOT.pack_into(self._board, place, self._left_s, size)
        return self._left_s if sizes else 0.0

    def prepost(self, peer: int) -> int:
        """Return the number of the next message from a peer; asked for once for every message, in order."""
        number = self._received[peer]
        self._received[peer] += 1
        return number

    def come(self, peer: int, number: int) -> float:
        """Return when a message has come, after its bytes have."""
        left_s, size = _SLOT.unpack_from(self._board, self._slot(peer, self.rank, number))
        self._come_s = max(left_s, self._come_s + size / self.bytes_per_s)
        return self._come_s

    def _slot(self, sender: int, receiver: int, number: int) -> int:
        return ((sender * self.workers + receiver) * _SLOTS + number % _SLOTS) * _SLOT.size


class Paced:
    """Any transport, slowed down to the rate of a link."""

    def __init__(self, transport: Transport, pacer: Pacer) -> None:
        self._transport, self._pacer = transport, pacer

    def prepost(self, receive: Mapping[int, Tensor], headers: Headers | None = None) -> Expected | None:
        """Post the receives of an exchange ahead of it, where the transport does so."""
        prepost = getattr(self._transport, "prepost", None)
        expected: Expected | None = None if prepost is None else prepost(receive, headers)
        return expected

    def post(
        self,
        send: Mapping[int, Tensor],
        receive: Mapping[int, Tensor],
        headers: Headers | None = None,
        **how: Any,
    ) -> Transfer:
        pacer, began_s = self._pacer, time.monotonic()
        left_s = pacer.leave({peer: body.nbytes for peer, body in send.items() if body.numel() and pacer.slow(peer)})
        awaited = {peer: pacer.prepost(peer) for peer, body in receive.items() if body.numel() and pacer.slow(peer)}
        transfer = self._transport.post(send, receive, headers, **how)
        return _PacedTransfer(transfer, pacer, began_s, left_s, awaited)


class _PacedTransfer(Transfer):
    def __init__(
        self, transfer: Transfer, pacer: Pacer, began_s: float, left_s: float, awaited: Mapping[int, int]
    ) -> None:
        super().__init__()
        self.started = transfer.started
        self._transfer, self._pacer = transfer, pacer
        self._began_s, self._left_s, self._awaited = began_s, left_s, awaited

    def start(self) -> None:
        self._transfer.start()

    def _finish(self) -> None:
        self._transfer.wait()
        self.seconds = self._transfer.seconds
        until_s = self._left_s
        for peer, number in self._awaited.items():
            come_s = self._pacer.come(peer, number)
            self.seconds[peer] = max(self.seconds.get(peer, 0.0), come_s - self._began_s)
            until_s = max(until_s, come_s)
        self.wire_s = max(self._transfer.wire_s, until_s - self._began_s)
        time.sleep(max(0.0, until_s - time.monotonic()))
