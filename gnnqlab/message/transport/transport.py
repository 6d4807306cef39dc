"""Transports over ``torch.distributed``: direct, ring and all-to-all.

A transport sends and receives one uint8 tensor per peer, each with an optional header. Both sides derive the sizes, or
upper bounds, so these need not be sent. Receives are posted before sends, always from a specified rank. A header is
checked before waiting for its body.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.by_name import did_you_mean
from gnnqlab.errors import MissingMessage
from gnnqlab.message.transport.header import TAG, Headers
from gnnqlab.message.transport.preposted_receives import Expected
from gnnqlab.message.transport.staging import Buffers, HostBuffers, Staged

__all__ = ["TRANSPORTS", "AllToAll", "Direct", "Ring", "Transfer", "Transport", "make_transport"]


class Transfer(ABC):
    """A posted exchange, to wait for."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.seconds: dict[int, float] = {}
        """Peer -> seconds from the post until its message was received."""
        self.wire_s = 0.0
        """Seconds from the post until all messages were received and sent."""

    def wait(self) -> None:
        """Wait until all messages are received and all send buffers may be reused.

        Raises:
            UnexpectedMessage: if a header is not the expected one.
        """
        self.start()
        self._finish()
        # Point-to-point transfers measure it themselves, when the last message is complete.
        self.wire_s = self.wire_s or time.perf_counter() - self.started

    def start(self) -> None:  # noqa: B027  # most transfers start when they are created
        """Wait until the bytes to send are in host memory, then send them; ``wait`` does so at the latest.

        After a post from device memory, call it once other work is queued on the device.
        """

    @abstractmethod
    def _finish(self) -> None:
        """Wait; write the seconds of each peer whose message is received."""


class Transport(Protocol):
    """Interface that sends one message to, and receives one from, every peer."""

    def post(
        self, send: Buffers, receive: Buffers, headers: Headers | None = None, *, bounded: bool = False
    ) -> Transfer:
        """Start an exchange; the buffers must live until its ``wait`` returns.

        Args:
            bounded: True if messages may be shorter than their receive buffers; equal on all workers.
        """


class _OverGroup:
    """Common part of the transports: rank and group, time limit of a message (by default the group's), buffers."""

    def __init__(
        self,
        rank: int,
        workers: int,
        group: dist.ProcessGroup | None = None,
        timeout: timedelta | None = None,
        *,
        times_messages: bool = True,
    ) -> None:
        self.rank, self.workers, self.group, self._timeout = rank, workers, group, timeout
        # Its thread starts at the first use.
        self._watcher = ThreadPoolExecutor(1, thread_name_prefix="transport") if times_messages else None
        self._host = HostBuffers()


class Direct(_OverGroup):
    """Point-to-point transport that posts all receives, then all sends. Receives may be preposted.

    On the CPU a thread waits for the messages, if the transport times them, before ``wait`` is called.
    """

    def prepost(self, receive: Buffers, headers: Headers | None = None) -> Expected | None:
        """Prepost the receives of an exchange's bodies; pass the result to its ``post``. ``None``: not on the host.

        Headers are not preposted: they share one tag, while the tag of a body matches this exchange only.

        Args:
            receive, headers: receive buffers and headers of the exchange.
        """
        expected_receives, group = Expected(receive, headers), self.group or dist.group.WORLD
        assert group is not None, "only members of a group have peers"
        for peer, buffer in receive.items():
            if buffer.is_cuda:
                return None
            if buffer.numel():
                tag = 0 if headers is None else headers.expected[peer].tag  # matches the body of this exchange only
                expected_receives.works[peer] = group.recv([buffer], peer, tag)
        return expected_receives

    def post(
        self,
        send: Buffers,
        receive: Buffers,
        headers: Headers | None = None,
        *,
        bounded: bool = False,
        expected: Expected | None = None,
    ) -> Transfer:
        staging = Staged(send, receive, headers, self._host, self.group)
        rounds = [_Round(tuple(staging.receive), tuple(staging.send))]  # a single round: all peers at once
        # A wait on NCCL only queues on a stream, so a thread would measure nothing.
        watcher = self._watcher if staging.on_host else None
        transfer = _PeerTransfer(staging, rounds, watcher=watcher, expected=expected, timeout=self._timeout)
        if bounded:
            staging.learn_sizes(self.workers)
        if not staging.copies:  # else `start` posts, after the copies to host memory
            transfer.post_round()
        return transfer


class Ring(_OverGroup):
    """Transport in P − 1 rounds (AdaQP Fig. 8): in round k, rank r sends to r + k and receives from r − k, mod P."""

    def post(
        self, send: Buffers, receive: Buffers, headers: Headers | None = None, *, bounded: bool = False
    ) -> Transfer:
        staging = Staged(send, receive, headers, self._host, self.group)
        rounds = [self._round(k, staging) for k in range(1, self.workers)]
        transfer = _PeerTransfer(staging, rounds, timeout=self._timeout)
        if bounded:
            staging.learn_sizes(self.workers)
        if not staging.copies:
            transfer.post_round()
        return transfer

    def _round(self, k: int, staging: Staged) -> _Round:
        source, target = (self.rank - k) % self.workers, (self.rank + k) % self.workers
        return _Round(
            (source,) if source in staging.receive else (),
            (target,) if target in staging.send else (),
        )


@dataclass(frozen=True)
class _Round:
    """Peers whose messages are posted together."""

    sources: tuple[int, ...]
    targets: tuple[int, ...]


class _PeerTransfer(Transfer):
    """Point-to-point messages, posted round by round.

    The transport posts the first round immediately, unless the bytes must first be copied from a device.

    Args:
        staged: buffers and headers.
        rounds: peers to receive from and to send to, in order.
        bodies: False exchanges headers only.
        watcher: thread that waits in the background, to measure times before ``wait`` is called.
        expected: preposted receives.
        timeout: time limit of each message; by default that of the process group.
    """

    def __init__(
        self,
        staging: Staged,
        rounds: Sequence[_Round],
        *,
        bodies: bool = True,
        watcher: ThreadPoolExecutor | None = None,
        expected: Expected | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        super().__init__()
        self._timeout = timeout
        self._expected = {} if expected is None else expected.works
        self._staged, self._rounds, self._bodies, self._watcher = staging, rounds, bodies, watcher
        self._joint = not staging.on_host and staging.backend == "nccl"
        self._next = 0
        self._works: list[tuple[dist.Work, int, str]] = []
        self._joint_works: list[dist.Work] = []
        self._watched: Future[None] | None = None

    def start(self) -> None:
        # Only the first round is started here; the others are posted while the transfer is waited for.
        if self._next == 0 and self._rounds:
            self._staged.ready()
            self.post_round()

    def post_round(self) -> None:
        """Post the next round: receives, then bodies, then headers of the sent messages."""
        round_, staging, headers = self._rounds[self._next], self._staged, self._staged.headers
        self._next += 1
        if self._joint:
            self._joint_works = self._posted_jointly(round_)
            return
        self._works = works = list[tuple[dist.Work, int, str]]()  # what: "header", "body", or "sent" for either
        # Methods of the group: `dist.isend` and `dist.irecv` check its state in ten more calls of each message.
        group = staging.group or dist.group.WORLD
        assert group is not None, "only members of a group have peers"
        # Receives first: Gloo sends nothing before the receiver has posted.
        for peer in round_.sources:
            if headers is not None:
                works.append((group.recv([headers.receive[peer]], peer, TAG), peer, "header"))
            if self._bodies:
                tag = 0 if headers is None else headers.expected[peer].tag
                works.append((self._expected.get(peer) or group.recv([staging.receive[peer]], peer, tag), peer, "body"))
        for peer in round_.targets if self._bodies else ():
            tag = 0 if headers is None else headers.sent[peer].tag
            works.append((group.send([staging.send[peer]], peer, tag), peer, "sent"))
        for peer in round_.targets if headers is not None else ():
            assert headers is not None
            header = headers.seal(peer, staging.send[peer])  # compute the checksum while the body is being sent
            works.append((group.send([header], peer, TAG), peer, "sent"))
        if self._watcher is not None:
            self._watched = self._watcher.submit(self.finish_rounds)

    def _posted_jointly(self, round_: _Round) -> list[dist.Work]:
        """Post a round as one NCCL group; separate NCCL sends and receives could deadlock."""
        staging, headers = self._staged, self._staged.headers
        operations = []

        def post(verb: Callable[..., object], buffer: Tensor, peer: int, tag: int = 0) -> None:
            operations.append(dist.P2POp(verb, buffer, group=staging.group, tag=tag, group_peer=peer))

        # NCCL ignores tags and matches by order: header before body, at both ends.
        for peer in round_.sources:
            if headers is not None:
                post(dist.irecv, headers.receive[peer], peer, TAG)
            if self._bodies:
                post(dist.irecv, staging.receive[peer], peer)
        for peer in round_.targets:
            body = staging.send[peer]
            if headers is not None:
                post(dist.isend, headers.seal(peer, body, body.device), peer, TAG)
            if self._bodies:
                post(dist.isend, body, peer)
        works: list[dist.Work] = dist.batch_isend_irecv(operations) if operations else []
        return works

    def _finish(self) -> None:
        # A thread that has not begun is not waited for: this one waits for the messages itself, one switch fewer.
        if self._watched is None or self._watched.cancel():
            self.finish_rounds()
        else:
            self._watched.result()  # also raises an error of the thread, such as a header that was not expected
        if self._staged.copies:
            self._staged.land()
        # A cancelled call refers to this transfer until the thread takes it from its queue: it must hold no rows.
        self._works, self._expected, self._staged.send, self._staged.receive = [], {}, {}, {}

    def finish_rounds(self) -> None:
        """Wait for the posted round, then post and wait for each remaining one.

        Raises:
            UnexpectedMessage: if a header is not the expected one; does not wait for its body.
            MissingMessage: if a message is not received, with its sender.
        """
        headers, timeout = self._staged.headers, () if self._timeout is None else (self._timeout,)
        for round_ in self._rounds:
            for work in self._joint_works:
                work.wait()
            for work, peer, what in self._works:  # in the order of posting
                try:
                    work.wait(*timeout)
                except RuntimeError as error:
                    raise MissingMessage(peer, str(error), is_sent=what == "sent") from error
                if what == "header" and headers is not None:
                    headers.check_received(peer)  # raises before waiting for a body that may never match
                elif what == "body":
                    self.seconds[peer] = time.perf_counter() - self.started
            for peer in round_.sources if self._joint else ():
                if headers is not None:
                    headers.check_received(peer)
                if self._bodies:
                    self.seconds[peer] = time.perf_counter() - self.started
            if self._next < len(self._rounds):
                self.post_round()
        self.wire_s = time.perf_counter() - self.started


class AllToAll(_OverGroup):
    """Transport by one ``all_to_all_single`` with uneven parts; concatenates and splits the buffers by copying.

    A collective has no tags, so headers are exchanged and checked before it is posted; the time limit is for these.
    """

    def post(
        self, send: Buffers, receive: Buffers, headers: Headers | None = None, *, bounded: bool = False
    ) -> Transfer:
        staging = Staged(send, receive, headers, self._host, self.group)
        transfer = _AllToAllTransfer(self.workers, staging, is_bounded=bounded, timeout=self._timeout)
        if not staging.copies:
            transfer.start()
        return transfer


class _AllToAllTransfer(Transfer):
    def __init__(self, workers: int, staging: Staged, *, is_bounded: bool, timeout: timedelta | None) -> None:
        super().__init__()
        self._timeout = timeout
        self._workers, self._staged, self._bounded = workers, staging, is_bounded
        self._is_started = False

    def start(self) -> None:
        if self._is_started:
            return
        self._is_started = True
        staging = self._staged
        staging.ready()
        if staging.headers is not None:
            # Headers first, point-to-point: a collective has no tags, and must not be posted with sizes that differ.
            rounds = [_Round(tuple(staging.receive), tuple(staging.send))]
            headers = _PeerTransfer(staging, rounds, bodies=False, timeout=self._timeout)
            headers.post_round()
            headers.finish_rounds()
        if self._bounded:
            staging.learn_sizes(self._workers, collective=True)
        empty_part = torch.empty(0, dtype=torch.uint8)  # this worker, and peers without rows, have empty parts
        parts = [staging.send.get(peer, empty_part) for peer in range(self._workers)]
        device = next(iter(staging.send.values()), empty_part).device
        self._sizes = [staging.receive[peer].numel() if peer in staging.receive else 0 for peer in range(self._workers)]
        self._joined = torch.cat([part.to(device) for part in parts])  # (bytes to all peers,) uint8, in rank order
        self._received = torch.empty(sum(self._sizes), dtype=torch.uint8, device=device)
        sent_sizes = [part.numel() for part in parts]
        self._work = dist.all_to_all_single(
            self._received, self._joined, self._sizes, sent_sizes, group=staging.group, async_op=True
        )

    def _finish(self) -> None:
        self._work.wait()
        for peer, part in enumerate(self._received.split(self._sizes)):
            if part.numel():
                self._staged.receive[peer].copy_(part)
                self.seconds[peer] = time.perf_counter() - self.started
        if self._staged.copies:
            self._staged.land()


class Alone:
    """Transport of a single worker: no peers, no process group."""

    def post(
        self, send: Buffers, receive: Buffers, headers: Headers | None = None, *, bounded: bool = False
    ) -> Transfer:
        assert not send and not receive, "one worker has no peers"
        return _Nothing()


class _Nothing(Transfer):
    def _finish(self) -> None:
        pass


TRANSPORTS: dict[str, Callable[..., Transport]] = {"direct": Direct, "ring": Ring, "all-to-all": AllToAll}


def make_transport(
    name: str,
    rank: int,
    workers: int,
    group: dist.ProcessGroup | None = None,
    timeout: timedelta | None = None,
    *,
    times_messages: bool = True,
) -> Transport:
    """Create a transport by name; a single worker gets one that sends nothing.

    Args:
        rank, workers: rank in the group, and its size.
        group: process group to exchange in; by default all processes.
        timeout: time limit of a message; by default that of the group.
        times_messages: False saves the thread of ``direct`` that measures the times of messages.

    Raises:
        ValueError: if the name is unknown; the message lists the known ones.
    """
    if name not in TRANSPORTS:
        raise ValueError(f"transport must be one of {sorted(TRANSPORTS)}, got {name!r}{did_you_mean(name, TRANSPORTS)}")
    return Alone() if workers == 1 else TRANSPORTS[name](rank, workers, group, timeout, times_messages=times_messages)
