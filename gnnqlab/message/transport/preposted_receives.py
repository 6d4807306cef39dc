"""Preposted receives: post them before their exchange is due, so that no sender waits for its receiver.

Gloo sends nothing before the receiver has posted its buffer: of two workers, the first to reach an exchange waits for
the other although its message is ready, and the link is idle meanwhile. So the receives of an exchange are posted as
soon as the messages of the previous exchange are decoded; a worker that computes longer in between delays no sender.
The order of exchanges is learnt from the previous epoch.
"""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Protocol

import torch.distributed as dist
from torch import Tensor

from gnnqlab.message.transport.header import Headers
from gnnqlab.message.transport.staging import Buffers

__all__ = ["PrepostedReceives", "Expected", "PrepostingChannel"]


@dataclass(frozen=True, eq=False)
class Expected:
    """Preposted receives of the bodies of one exchange."""

    receive: Buffers
    """Peer -> buffer of its body, as in ``post``."""
    headers: Headers | None
    """Headers of the exchange."""
    works: dict[int, dist.Work] = field(default_factory=dict)
    """Peer -> pending receive of its body."""
    since: float = field(default_factory=time.perf_counter)
    """Time of posting, by ``time.perf_counter``."""


class PrepostingChannel(Protocol):
    """Interface of a channel that can prepost its receives."""

    def prepost(self, epoch: int) -> bool:
        """Prepost the receives of this epoch's exchange; return True if they were posted."""


class PrepostedReceives:
    """Scheduler of preposted receives: learns the order of one worker's channels, and calls each one's ``prepost``.

    Args:
        buffers: byte buffers shared by the channels; a buffer has at most one message in flight.
    """

    def __init__(self, buffers: MutableMapping[tuple[str, int], Tensor]) -> None:
        self._buffers = buffers
        self._follows: dict[PrepostingChannel, PrepostingChannel] = {}
        self._latest: tuple[PrepostingChannel, int] | None = None
        self._expecting: PrepostingChannel | None = None
        self._is_order_stable = True

    def posts(self, channel: PrepostingChannel, epoch: int) -> None:
        """Record that a channel posts its exchange; call it before the channel takes buffers."""
        if self._expecting is not channel:
            self.leave()
        self._expecting = None
        # Learn successors within an epoch only: between epochs, evaluation may use the buffers.
        if self._latest is not None and self._latest[1] == epoch:
            self._follows[self._latest[0]] = channel
        self._latest = channel, epoch

    def read(self, channel: PrepostingChannel, epoch: int) -> None:
        """Prepost the receives of the next channel; call it when a channel has decoded, so that buffers are free."""
        successor = self._follows.get(channel)
        # A later post since then may own the buffers: prepost only after the latest exchange.
        is_latest = self._is_order_stable and self._latest == (channel, epoch)
        if successor is not None and is_latest and successor.prepost(epoch):
            self._expecting = successor

    def leave(self) -> None:
        """Protect preposted buffers before another channel than the expected one, or code without one, takes buffers.

        Preposted receives keep the old buffers, new ones are allocated, and preposting is disabled for the rest of the
        run.
        """
        # Gloo may still write into the preposted buffers, so they must not be used for anything else.
        if self._expecting is not None:
            self._buffers.clear()
            self._is_order_stable = False
        self._expecting = None
