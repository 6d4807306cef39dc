"""How bytes move between workers: ring, direct and all-to-all over ``torch.distributed``.

A transport takes one uint8 tensor per peer each way. Sizes are known on both sides, so nothing but the
bytes themselves travels. Receives are posted before sends, and are from named ranks only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["TRANSPORTS", "AllToAll", "Direct", "Ring", "Transfer", "Transport", "make_transport"]

Buffers = Mapping[int, Tensor]


class Transfer:
    """An exchange under way."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.seconds: dict[int, float] = {}
        """Seconds from the post until the bytes of each peer had come."""
        self.wire_s = 0.0
        """Seconds from the post until everything had come and gone."""

    def wait(self) -> None:
        """Return when every byte has come and every send buffer may be used again."""
        self._finish()
        self.wire_s = self.wire_s or time.perf_counter() - self.started

    def _finish(self) -> None:
        raise NotImplementedError

    def _arrived(self, peer: int) -> None:
        self.seconds[peer] = time.perf_counter() - self.started


class Transport(Protocol):
    """Moves one message to, and one from, every peer."""

    def post(self, send: Buffers, receive: Buffers) -> Transfer:
        """Start an exchange; the buffers must live until its ``wait`` returns."""


class Direct:
    """Every receive, then every send, posted at once; one message a peer.

    On the CPU a thread waits for the bytes, so that their time is known even if nobody waits for them.
    """

    def __init__(self, rank: int, workers: int) -> None:
        self.rank, self.workers = rank, workers
        self._watcher = ThreadPoolExecutor(1, thread_name_prefix="transport")

    def post(self, send: Buffers, receive: Buffers) -> Transfer:
        return _DirectTransfer(self._watcher, send, receive)


class _DirectTransfer(Transfer):
    def __init__(self, watcher: ThreadPoolExecutor, send: Buffers, receive: Buffers) -> None:
        super().__init__()
        self._staged = _Staged(send, receive)
        operations = [dist.P2POp(dist.irecv, buffer, peer) for peer, buffer in self._staged.receive.items()]
        operations += [dist.P2POp(dist.isend, buffer, peer) for peer, buffer in self._staged.send.items()]
        self._works = _start(operations)
        self._peers = list(self._staged.receive)
        on_host = not any(operation.tensor.is_cuda for operation in operations)
        self._watched = watcher.submit(self._watch) if on_host and operations else None

    def _watch(self) -> None:
        for index, work in enumerate(self._works):
            work.wait()
            if index < len(self._peers):
                self._arrived(self._peers[index])
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

    def post(self, send: Buffers, receive: Buffers) -> Transfer:
        return _RingTransfer(self, send, receive)


class _RingTransfer(Transfer):
    def __init__(self, ring: Ring, send: Buffers, receive: Buffers) -> None:
        super().__init__()
        self._ring = ring
        self._staged = _Staged(send, receive)
        self._works = self._start_round(1)

    def _start_round(self, k: int) -> list[dist.Work]:
        ring = self._ring
        source, target = (ring.rank - k) % ring.workers, (ring.rank + k) % ring.workers
        operations = []
        if source in self._staged.receive:
            operations.append(dist.P2POp(dist.irecv, self._staged.receive[source], source))
        if target in self._staged.send:
            operations.append(dist.P2POp(dist.isend, self._staged.send[target], target))
        return _start(operations)

    def _finish(self) -> None:
        for k in range(1, self._ring.workers):
            for work in self._works:
                work.wait()
            source = (self._ring.rank - k) % self._ring.workers
            if source in self._staged.receive:
                self._arrived(source)
            self._works = self._start_round(k + 1) if k + 1 < self._ring.workers else []
        self._staged.land()


class AllToAll:
    """One collective ``all_to_all_single`` with uneven parts; joins and splits the buffers by copying."""

    def __init__(self, rank: int, workers: int) -> None:
        self.rank, self.workers = rank, workers

    def post(self, send: Buffers, receive: Buffers) -> Transfer:
        return _AllToAllTransfer(self.workers, send, receive)


class _AllToAllTransfer(Transfer):
    def __init__(self, workers: int, send: Buffers, receive: Buffers) -> None:
        super().__init__()
        self._staged = _Staged(send, receive)
        nothing = torch.empty(0, dtype=torch.uint8)
        parts = [self._staged.send.get(peer, nothing) for peer in range(workers)]
        device = next(iter(self._staged.send.values()), nothing).device
        self._sizes = [
            self._staged.receive[peer].numel() if peer in self._staged.receive else 0 for peer in range(workers)
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


class _Staged:
    """The buffers as the backend can take them: Gloo moves host memory, so device buffers pass through it."""

    def __init__(self, send: Buffers, receive: Buffers) -> None:
        send = {peer: buffer for peer, buffer in send.items() if buffer.numel()}
        receive = {peer: buffer for peer, buffer in receive.items() if buffer.numel()}
        self._targets: Buffers = {}
        on_device = any(buffer.is_cuda for buffer in (*send.values(), *receive.values()))
        if on_device and dist.get_backend() == "gloo":
            self._targets = receive
            send = {peer: buffer.cpu() for peer, buffer in send.items()}
            receive = {peer: torch.empty_like(buffer, device="cpu") for peer, buffer in receive.items()}
        self.send, self.receive = send, receive

    def land(self) -> None:
        """Copy what came to where it belongs, if it passed through host memory."""
        for peer, target in self._targets.items():
            target.copy_(self.receive[peer])


def _start(operations: list[dist.P2POp]) -> list[dist.Work]:
    if not operations:
        return []
    if dist.get_backend() == "nccl":
        return dist.batch_isend_irecv(operations)
    return [operation.op(operation.tensor, operation.peer) for operation in operations]


TRANSPORTS: dict[str, Callable[[int, int], Transport]] = {"direct": Direct, "ring": Ring, "all-to-all": AllToAll}


def make_transport(name: str, rank: int, workers: int) -> Transport:
    """Return a transport by name.

    Raises:
        ValueError: if the name is unknown; the message lists the known ones.
    """
    if name not in TRANSPORTS:
        raise ValueError(f"transport must be one of {sorted(TRANSPORTS)}, got {name!r}")
    return TRANSPORTS[name](rank, workers)
