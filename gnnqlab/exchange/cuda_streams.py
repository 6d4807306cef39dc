"""On which CUDA stream each part of a layer's exchange runs, and what waits for what.

AdaQP's three stages (section 3.2, Fig. 7) keep what needs the processors of a GPU apart: messages are encoded; they
travel while central rows are multiplied; they are decoded, and marginal rows are multiplied. Encoding, copies to and
from host memory, waiting and decoding have a stream of their own, so that a message that comes, or has to pass through
host memory, holds up no product. On the CPU every part runs where it is called.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

__all__ = ["CudaStages", "Stages", "stages_on"]

ASIDE = ("encode", "post", "wait", "decode")
"""Parts that run on the stream of messages; the others run where they are called."""
APART = ("encode", "decode")
"""Parts beside which nothing runs: they begin when products before them have ended, and products after them wait."""


class Stages:
    """The stages of a worker on the CPU: each part runs where it is called."""

    on_device = False
    """Whether parts run on a device, behind the host."""

    def part(self, what: str) -> AbstractContextManager[None]:
        """Run a part, one of ``timeline.WHATS``, on its stream."""
        return nullcontext()

    def mark(self) -> Callable[[], float]:
        """Note the time on the stream in use; what is returned tells it, in seconds of ``time.perf_counter``."""
        now = time.perf_counter()
        return lambda: now

    def after_launch(self, start: Callable[[], None]) -> None:
        """Call ``start``, which may wait for the device, once the next product has been launched."""
        start()


class CudaStages(Stages):
    """The stages of a worker on a CUDA device.

    Args:
        side: the stream of messages.
        current: returns the stream in use, on which products run.
        use: makes a stream the one in use.
        event: makes an event that notes its time.
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
            waiting, self._waiting = self._waiting, []
            for start in waiting:
                start()
            return
        products = self._current()
        if what in APART:
            self._side.wait_stream(products)
        with self._use(self._side):
            yield
        if what in APART:
            products.wait_stream(self._side)

    def mark(self) -> Callable[[], float]:
        if self._zero is None:  # one event whose time on the host is known, for all that follow
            zero = self._event()
            zero.record(self._current())
            zero.synchronize()
            self._zero = zero, time.perf_counter()
        event = self._event()
        event.record(self._current())
        return lambda: self._seconds(event)

    def after_launch(self, start: Callable[[], None]) -> None:
        self._waiting.append(start)

    def _seconds(self, event: Any) -> float:
        assert self._zero is not None
        zero, known = self._zero
        event.synchronize()
        return float(known + zero.elapsed_time(event) / 1e3)


def stages_on(device: torch.device | str) -> Stages:
    """Return the stages of a worker that trains on a device."""
    device = torch.device(device)
    if device.type != "cuda":
        return Stages()
    return CudaStages(
        torch.cuda.Stream(device),
        lambda: torch.cuda.current_stream(device),
        torch.cuda.stream,
        lambda: torch.cuda.Event(enable_timing=True),
    )
