"""How bytes move between workers: ring, direct and all-to-all over ``torch.distributed``.

A transport takes one uint8 tensor per peer each way, and a header for each if there are headers. Sizes are known on
both sides, so nothing but these bytes travels. Receives are posted before sends, and are from named ranks only. A
header is checked before anybody waits for its body.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.message.header import TAG, Headers
from gnnqlab.message.staging import Buffers, HostBuffers, Staged

__all__ = ["TRANSPORTS", "AllToAll", "Direct", "Ring", "Transfer", "Transport", "make_transport"]


class Transfer(ABC):
    """An exchange under way."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.seconds: dict[int, float] = {}
        """Seconds from the post until the bytes of each peer had come."""
        self.wire_s = 0.0
        """Seconds from the post until everything had come and gone."""

    def wait(self) -> None:
        """Return when every byte has come and every send buffer may be used again.

        Raises:
            UnexpectedMessage: if a header is not the expected one.
        """
        self.start()
        self._finish()
        self.wire_s = self.wire_s or time.perf_counter() - self.started

    def start(self) -> None:  # noqa: B027  # most have started when they are made
        """Wait until the device has brought what is to be sent, then send it; ``wait`` does so at the latest.

        Whoever posts from a device calls it when the device has work for the meantime.
        """

    @abstractmethod
    def _finish(self) -> None:
        """Wait; call :meth:`_arrived` for each peer whose message has come."""

    def _arrived(self, peer: int) -> None:
        self.seconds[peer] = time.perf_counter() - self.started


class Transport(Protocol):
    """Moves one message to, and one from, every peer."""

    def post(self, send: Buffers, receive: Buffers, headers: Headers | None = None) -> Transfer:
        """Start an exchange; the buffers must live until its ``wait`` returns."""


class Direct:
    """Every receive, then every send, posted at once; one message a peer.

    On the CPU a thread waits for the bytes, so that their time is known even if nobody waits for them.
    """

    def __init__(self, rank: int, workers: int) -> None:
        self.rank, self.workers = rank, workers
        self._watcher = ThreadPoolExecutor(1, thread_name_prefix="transport")
        self._host = HostBuffers()

    def post(self, send: Buffers, receive: Buffers, headers: Headers | None = None) -> Transfer:
        return _DirectTransfer(self._watcher, Staged(send, receive, headers, self._host))


class _StagedTransfer(Transfer):
    """Starts at once, unless a device has to bring the bytes first."""

    def __init__(self, staged: Staged) -> None:
        super().__init__()
        self._staged = staged
        self._begun = False
        if not staged.copies:
            self.start()

    def start(self) -> None:
        if not self._begun:
            self._begun = True
            self._staged.ready()
            self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Post what can be posted at once."""


class _DirectTransfer(_StagedTransfer):
    def __init__(self, watcher: ThreadPoolExecutor, staged: Staged) -> None:
        self._watcher = watcher
        super().__init__(staged)

    def _begin(self) -> None:
        self._posted = _Posted(self._staged, self._staged.receive, self._staged.send)
        self._watched = self._watcher.submit(self._watch) if self._staged.on_host else None

    def _watch(self) -> None:
        self._posted.wait(self._arrived)
        self.wire_s = time.perf_counter() - self.started

    def _finish(self) -> None:
        if self._watched is None:
            self._watch()
        else:
            self._watched.result()
        self._staged.land()


class Ring:
    """P − 1 rounds (AdaQP Fig. 8): in round k, rank r sends to r + k and receives from r − k, mod P."""

    def __init__(self, rank: int, workers: int) -> None:
        self.rank, self.workers = rank, workers
        self._host = HostBuffers()

    def post(self, send: Buffers, receive: Buffers, headers: Headers | None = None) -> Transfer:
        return _RingTransfer(self, Staged(send, receive, headers, self._host))


class _RingTransfer(_StagedTransfer):
    def __init__(self, ring: Ring, staged: Staged) -> None:
        self._ring = ring
        super().__init__(staged)

    def _begin(self) -> None:
        self._posted = self._start_round(1)

    def _start_round(self, k: int) -> _Posted:
        source, target = (self._ring.rank - k) % self._ring.workers, (self._ring.rank + k) % self._ring.workers
        sources = [source] if source in self._staged.receive else []
        targets = [target] if target in self._staged.send else []
        return _Posted(self._staged, sources, targets)

    def _finish(self) -> None:
        for k in range(1, self._ring.workers):
            self._posted.wait(self._arrived)
            if k + 1 < self._ring.workers:
                self._posted = self._start_round(k + 1)
        self._staged.land()


class AllToAll:
    """One collective ``all_to_all_single`` with uneven parts; joins and splits the buffers by copying.

    A collective has no tags, so headers are exchanged and checked before it is posted.
    """

    def __init__(self, rank: int, workers: int) -> None:
        self.rank, self.workers = rank, workers
        self._host = HostBuffers()

    def post(self, send: Buffers, receive: Buffers, headers: Headers | None = None) -> Transfer:
        return _AllToAllTransfer(self.workers, Staged(send, receive, headers, self._host))


class _AllToAllTransfer(_StagedTransfer):
    def __init__(self, workers: int, staged: Staged) -> None:
        self._workers = workers
        super().__init__(staged)

    def _begin(self) -> None:
        if self._staged.headers is not None:
            _Posted(self._staged, self._staged.receive, self._staged.send, bodies=False).wait(lambda peer: None)
        nothing = torch.empty(0, dtype=torch.uint8)
        parts = [self._staged.send.get(peer, nothing) for peer in range(self._workers)]
        device = next(iter(self._staged.send.values()), nothing).device
        self._sizes = [
            self._staged.receive[peer].numel() if peer in self._staged.receive else 0 for peer in range(self._workers)
        ]
        self._joined = torch.cat([part.to(device) for part in parts])
        self._received = torch.empty(sum(self._sizes), dtype=torch.uint8, device=device)
        self._work = dist.all_to_all_single(
            self._received, self._joined, self._sizes, [part.numel() for part in parts], async_op=True
        )

    def _finish(self) -> None:
        self._work.wait()
        for peer, part in enumerate(self._received.split(self._sizes)):
            if part.numel():
                self._staged.receive[peer].copy_(part)
                self._arrived(peer)
        self._staged.land()


class _Posted:
    """Messages under way: receives from some peers and sends to others, and the header of each."""

    def __init__(self, staged: Staged, sources: Iterable[int], targets: Iterable[int], *, bodies: bool = True) -> None:
        headers = staged.headers
        self._headers, self._bodies, self._sources, targets = headers, bodies, list(sources), list(targets)
        receives: list[_Operation] = []
        for peer in self._sources:
            if headers is not None:
                receives.append((dist.irecv, headers.receive[peer], peer, TAG))
            if bodies:
                tag = 0 if headers is None else headers.expected[peer].tag
                receives.append((dist.irecv, staged.receive[peer], peer, tag))
        sends: list[_Operation] = []
        for peer in targets if bodies else ():
            sends.append((dist.isend, staged.send[peer], peer, 0 if headers is None else headers.sent[peer].tag))
        self._joint = dist.get_backend() == "nccl"
        self._works = [] if self._joint else _start(receives + sends)
        seals: list[_Operation] = []
        for peer in targets if headers is not None else ():
            assert headers is not None
            body = staged.send[peer]  # on its way already, unless all is posted at once
            seal = headers.seal(peer, body, body.device if self._joint else "cpu")
            seals.append((dist.isend, seal, peer, TAG))
        self._works += _start_jointly(receives + seals + sends) if self._joint else _start(seals)

    def wait(self, arrived: Callable[[int], None]) -> None:
        """Return when everything has come and gone.

        Raises:
            UnexpectedMessage: if a header is not the expected one; its body is not waited for.
        """
        works = iter(self._works)
        if self._joint:  # one work for all
            for work in works:
                work.wait()
        for peer in self._sources:
            if self._headers is not None:
                _await_next(works)
                self._headers.came(peer)
            if self._bodies:
                _await_next(works)
                arrived(peer)
        for work in works:
            work.wait()


def _await_next(works: Iterator[dist.Work]) -> None:
    work = next(works, None)
    if work is not None:
        work.wait()


_Operation = tuple[Callable[..., dist.Work | None], Tensor, int, int]
"""Function, buffer, peer, tag."""


def _start(operations: Iterable[_Operation]) -> list[dist.Work]:
    works = [operate(buffer, peer, tag=tag) for operate, buffer, peer, tag in operations]
    return [work for work in works if work is not None]


def _start_jointly(operations: Iterable[_Operation]) -> list[dist.Work]:
    """Start all as NCCL needs it: in one group, which has one work for all."""
    posted = [dist.P2POp(operate, buffer, peer, tag=tag) for operate, buffer, peer, tag in operations]
    works: list[dist.Work] = dist.batch_isend_irecv(posted) if posted else []
    return works


TRANSPORTS: dict[str, Callable[[int, int], Transport]] = {"direct": Direct, "ring": Ring, "all-to-all": AllToAll}


def make_transport(name: str, rank: int, workers: int) -> Transport:
    """Return a transport by name.

    Raises:
        ValueError: if the name is unknown; the message lists the known ones.
    """
    if name not in TRANSPORTS:
        raise ValueError(f"transport must be one of {sorted(TRANSPORTS)}, got {name!r}")
    return TRANSPORTS[name](rank, workers)
