"""CUDA streams for the parts of a layer's exchange, and their synchronization.

AdaQP's three stages (section 3.2, Fig. 7) separate the work of GPU multiprocessors: messages are encoded; they are sent
while central rows are aggregated; they are decoded, and marginal rows are aggregated. Encoding, copies to and from host
memory, waiting and decoding run on a stream of their own, so that a message in transit, also through host memory,
delays no product. On the CPU every part runs immediately.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

__all__ = ["CudaStages", "Stages", "stages_on"]

ASIDE = ("encode", "post", "wait", "decode")
"""Parts that run on the message stream; the others run on the current stream."""
APART = ("encode", "decode")
"""Parts that exclude products: they wait for earlier products, and later products wait for them."""


class Stages:
    """Stages of a worker on the CPU: each part runs immediately."""

    on_device = False
    """True if parts run asynchronously on a device."""

    def part(self, what: str) -> AbstractContextManager[None]:
        """Run a part, one of ``timeline.WHATS``, on its stream."""
        return nullcontext()

    def mark(self) -> Callable[[], float]:
        """Record a time stamp on the current stream; return a function that yields it, by ``time.perf_counter``."""
        now_s = time.perf_counter()
        return lambda: now_s

    def after_launch(self, start: Callable[[], None]) -> None:
        """Call ``start``, which may wait for the device, after the next product was launched."""
        start()


class CudaStages(Stages):
    """Stages of a worker on a CUDA device.

    Args:
        side: stream for messages.
        current: returns the current stream, which runs the products.
        use: context manager that makes a stream current.
        event: creates an event with timing.
    """

    on_device = True

    def __init__(
        self,
        side: Any,
        current: Callable[[], Any],
        use: Callable[[Any], AbstractContextManager[Any]],
        event: Callable[[], Any],
    ) -> None:
        self._side, self._current, self._use, self._event = side, current, use, event
        self._waiting: list[Callable[[], None]] = []
        self._zero: tuple[Any, float] | None = None

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        if what not in ASIDE:
            yield
            # The product is queued: only now start transfers, whose host-side wait would have delayed its launch.
            waiting_starts, self._waiting = self._waiting, []
            for start in waiting_starts:
                start()
            return
        products = self._current()
        if what in APART:  # both use all multiprocessors, and encoding reads what the products wrote
            self._side.wait_stream(products)
        with self._use(self._side):
            yield
        if what in APART:
            # Decoded rows are read by the next products; sent bytes must be encoded before their rows are modified.
            products.wait_stream(self._side)

    def mark(self) -> Callable[[], float]:
        if self._zero is None:  # reference event with a known host time; later events are measured relative to it
            zero_event = self._event()
            zero_event.record(self._current())
            zero_event.synchronize()
            self._zero = zero_event, time.perf_counter()
        event = self._event()
        event.record(self._current())
        return lambda: self._seconds(event)

    def after_launch(self, start: Callable[[], None]) -> None:
        # Deferred until a product is queued: the device has work while the host waits for the encoded bytes.
        self._waiting.append(start)

    def _seconds(self, event: Any) -> float:
        assert self._zero is not None
        zero_event, host_s = self._zero
        # Called when the epoch is over, so waiting for the event delays no product.
        event.synchronize()
        return float(host_s + zero_event.elapsed_time(event) / 1e3)  # milliseconds -> seconds


def stages_on(device: torch.device | str) -> Stages:
    """Create the stages of a worker on ``device``."""
    device = torch.device(device)
    if device.type != "cuda":
        return Stages()
    return CudaStages(
        torch.cuda.Stream(device),
        lambda: torch.cuda.current_stream(device),
        torch.cuda.stream,
        lambda: torch.cuda.Event(enable_timing=True),
    )
