"""Buffers as the backend can take them: Gloo moves host memory, so those of a GPU pass through it.

Host memory is page-locked, so that copies run beside other work of the GPU, and used again from exchange to exchange.
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
"""Peer -> bytes to or from it, uint8."""


class HostBuffers:
    """Host memory of one transport; a buffer is free again once the device has copied from it."""

    def __init__(self) -> None:
        self._free: list[tuple[Tensor, Any]] = []

    def take(self, num_bytes: int) -> Tensor:
        """Return the smallest free buffer of at least so many bytes, or a new one."""
        fitting = [index for index, (buffer, _) in enumerate(self._free) if buffer.numel() >= num_bytes]
        if not fitting:
            return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=torch.cuda.is_available())
        buffer, copied = self._free.pop(min(fitting, key=lambda index: self._free[index][0].numel()))
        if copied is not None:
            copied.synchronize()
        return buffer

    def give(self, buffer: Tensor, copied: Any = None) -> None:
        """Take a buffer back; ``copied`` is the event after which it may be written to."""
        self._free.append((buffer, copied))


class Staged:
    """The buffers of one exchange, in host memory if the backend needs that."""

    def __init__(
        self,
        send: Buffers,
        receive: Buffers,
        headers: Headers | None,
        host: HostBuffers,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        send = {peer: buffer for peer, buffer in send.items() if buffer.numel()}
        receive = {peer: buffer for peer, buffer in receive.items() if buffer.numel()}
        self.headers, self.group = headers, group
        self.send, self.receive = send, dict(receive)
        self._host, self._targets, self._taken = host, receive, list[Tensor]()
        device = self.device = _device(send, receive)
        self.copies = through_host(device, group)
        """Whether the bytes pass through host memory."""
        self.on_host = self.copies or device.type == "cpu"
        """Whether the backend moves host memory."""
        if self.copies:
            self.send = {peer: self._like(buffer) for peer, buffer in send.items()}
            self.receive = {peer: self._like(buffer) for peer, buffer in receive.items()}
            for peer, buffer in send.items():
                self.send[peer].copy_(buffer, non_blocking=True)
            self._brought = _event(device)
        elif not self.on_host and headers is not None:
            headers.receive_on(device)

    @property
    def backend(self) -> str:
        """What moves the bytes of the group."""
        return dist.get_backend(self.group)

    def ready(self) -> None:
        """Return when the bytes to send are there; until then only the device knows them."""
        if self.copies and self._brought is not None:
            self._brought.synchronize()

    def land(self) -> None:
        """Copy what came to where it belongs, if it passed through host memory, behind the stream in use."""
        if not self.copies:
            return
        for peer, target in self._targets.items():
            came = self.receive[peer]  # shorter than its place, where its length was learnt
            target[: came.numel()].copy_(came, non_blocking=True)
        copied = _event(_device(self._targets))
        for buffer in self._taken:
            self._host.give(buffer, copied)
        self._taken = []

    def _like(self, buffer: Tensor) -> Tensor:
        whole = self._host.take(buffer.numel())
        self._taken.append(whole)
        return whole[: buffer.numel()]


def through_host(device: torch.device, group: dist.ProcessGroup | None) -> bool:
    """Whether the backend of a group cannot move the memory of a device."""
    return device.type == "cuda" and dist.get_backend(group) == "gloo"


def _device(*buffers: Buffers) -> torch.device:
    """Where the buffers lie: all of an exchange on one device."""
    return next((buffer.device for several in buffers for buffer in several.values()), torch.device("cpu"))


def _event(device: torch.device) -> Any:
    """Return an event behind what the device has been told so far; ``None`` on the CPU, which does it at once."""
    if device.type != "cuda":
        return None
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(device))
    return event
