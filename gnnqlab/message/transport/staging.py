"""Stage GPU buffers in host memory for backends such as Gloo that only send host memory.

Host memory is page-locked, so that copies overlap with other work of the GPU, and is reused between exchanges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.message.transport.header import Headers

__all__ = ["Buffers", "HostBuffers", "Staged"]

Buffers = Mapping[int, Tensor]
"""Peer -> bytes to send to it or to receive from it, uint8."""


_CPU = torch.device("cpu")


class HostBuffers:
    """Pool of page-locked host buffers of one transport; a buffer is free once the device has copied from it."""

    def __init__(self) -> None:
        self._free: list[tuple[Tensor, Any]] = []

    def take(self, num_bytes: int) -> Tensor:
        """Return the smallest free buffer of at least ``num_bytes`` bytes, or a new one."""
        candidates = [index for index, (buffer, _) in enumerate(self._free) if buffer.numel() >= num_bytes]
        if not candidates:
            return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=torch.cuda.is_available())
        # The smallest that fits, so that large buffers remain for large messages.
        buffer, event = self._free.pop(min(candidates, key=lambda index: self._free[index][0].numel()))
        if event is not None:
            event.synchronize()  # the device may still read what the last exchange received
        return buffer

    def give(self, buffer: Tensor, copied: Any = None) -> None:
        """Return a buffer to the pool; ``copied`` is the CUDA event after which it may be overwritten."""
        self._free.append((buffer, copied))


class Staged:
    """Buffers of one exchange, in host memory if the backend needs it."""

    def __init__(
        self,
        send: Buffers,
        receive: Buffers,
        headers: Headers | None,
        host: HostBuffers,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self.headers, self.group = headers, group
        self.send, self.receive = dict(send), dict(receive)
        device = _CPU  # the buffers of one exchange share one
        for buffers in (self.send, self.receive):
            for peer, buffer in tuple(buffers.items()):
                device = buffer.device
                if not buffer.numel():  # not exchanged; both ends derive their size from the same plan
                    del buffers[peer]
        self.device = device
        self._host, self._host_buffers = host, list[Tensor]()
        self.copies = through_host(device, group)
        """True if the bytes are copied through host memory."""
        self.on_host = self.copies or device.type == "cpu"
        """True if the backend sends host memory."""
        if self.copies:
            sources, self._targets = self.send, self.receive
            self.send = {peer: self._like(buffer) for peer, buffer in sources.items()}
            self.receive = {peer: self._like(buffer) for peer, buffer in self._targets.items()}
            for peer, buffer in sources.items():  # asynchronous, since the host memory is page-locked
                self.send[peer].copy_(buffer, non_blocking=True)
            self._copied_to_host = _event(device)
        # NCCL receives into device memory only, headers too.
        elif not self.on_host and headers is not None:
            headers.receive_on(device)

    @property
    def backend(self) -> str:
        """Name of the communication backend of the group."""
        return dist.get_backend(self.group)

    def ready(self) -> None:
        """Wait until the bytes to send are in host memory."""
        if self.copies and self._copied_to_host is not None:
            self._copied_to_host.synchronize()

    def land(self) -> None:
        """Copy received bytes, if they were copied, from host memory to the device, queued on the current stream."""
        for peer, target in self._targets.items():
            received_bytes = self.receive[peer]  # shorter than its target if the message size was exchanged
            target[: received_bytes.numel()].copy_(received_bytes, non_blocking=True)
        event = _event(self.device)  # buffers return to the pool now, but are reused only after it
        for buffer in self._host_buffers:
            self._host.give(buffer, event)
        self._host_buffers = []

    def learn_sizes(self, workers: int, *, collective: bool = False) -> None:
        """Exchange message sizes and shorten receive buffers to them, for collectives and NCCL.

        Point-to-point Gloo needs no sizes: it accepts a message shorter than its buffer.
        """
        if not collective and self.backend != "nccl":
            return
        # NCCL exchanges the sizes in device memory; reading them synchronizes the device.
        device = self.device if self.backend == "nccl" else _CPU
        sizes = [self.send[peer].numel() if peer in self.send else 0 for peer in range(workers)]
        announced_sizes = torch.empty(workers, dtype=torch.int64, device=device)  # (P,) bytes from each worker
        dist.all_to_all_single(announced_sizes, torch.tensor(sizes, device=device), group=self.group)
        for peer, size in enumerate(announced_sizes.tolist()):
            if peer in self.receive:
                self.receive[peer] = self.receive[peer][:size]  # a view, so the message is still received in place

    def _like(self, buffer: Tensor) -> Tensor:
        host_buffer = self._host.take(buffer.numel())
        self._host_buffers.append(host_buffer)
        return host_buffer[: buffer.numel()]  # (bytes,) uint8


def through_host(device: torch.device, group: dist.ProcessGroup | None) -> bool:
    """Return True if the backend of a group cannot send the memory of a device."""
    return device.type == "cuda" and dist.get_backend(group) == "gloo"


def _event(device: torch.device) -> Any:
    """Record a CUDA event after all work queued so far; ``None`` on the CPU, where copies are synchronous."""
    if device.type != "cuda":
        return None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event
