"""Receives posted before their message is due, so that no sender waits for its receiver.

Gloo sends nothing before the receiver has said where the bytes go: of two workers the one that comes to an exchange
first waits for the other, though what it sends is ready, and the link is idle meanwhile. So the receives of an exchange
are posted when those of the one before it have been read: a worker that is late by what it computes in between holds
up nobody. Which exchange follows is what followed in the epoch before.
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

__all__ = ["PrepostedReceives", "Expected", "PrepostingChannel", "prepost"]


@dataclass(frozen=True, eq=False)
class Expected:
    """Bodies that may come before this worker posts their exchange."""

    receive: Buffers
    """Peer -> where its body goes, as in ``post``."""
    headers: Headers | None
    """Of that exchange."""
    works: dict[int, dist.Work] = field(default_factory=dict)
    """Peer -> the receive of its body."""
    since: float = field(default_factory=time.perf_counter)
    """When the receives were posted."""


def prepost(receive: Buffers, headers: Headers | None, group: dist.ProcessGroup | None) -> Expected | None:
    """Post the receives of an exchange; ``None`` where the backend does not take them so.

    Bodies alone: their tags are of this exchange, so none of another one lands here. Headers have one tag for all.

    Args:
        receive: peer -> bytes from it; must live until the exchange has been waited for.
        headers: of that exchange.
        group: whose members exchange.
    """
    if any(buffer.is_cuda for buffer in receive.values()) or dist.get_backend(group) != "gloo":
        return None
    expected = Expected(receive, headers)
    for peer, buffer in receive.items():
        if buffer.numel():
            tag = 0 if headers is None else headers.expected[peer].tag
            work = dist.irecv(buffer, group=group, group_src=peer, tag=tag)
            if work is not None:
                expected.works[peer] = work
    return expected


class PrepostingChannel(Protocol):
    """A channel whose receives can be posted ahead."""

    def prepost(self, epoch: int) -> bool:
        """Post the receives of this epoch's message; return whether it did."""


class PrepostedReceives:
    """Learns in which order the channels of one worker post, and lets each prepost its message in time.

    Args:
        buffers: memory of their messages, of which no two are under way at once.
    """

    def __init__(self, buffers: MutableMapping[tuple[str, int], Tensor]) -> None:
        self._buffers = buffers
        self._follows: dict[PrepostingChannel, PrepostingChannel] = {}
        self._latest: tuple[PrepostingChannel, int] | None = None
        self._expecting: PrepostingChannel | None = None
        self._right = True

    def posts(self, channel: PrepostingChannel, epoch: int) -> None:
        """Note that a channel posts, before it takes memory."""
        self.leave(channel)
        if self._latest is not None and self._latest[1] == epoch:
            self._follows[self._latest[0]] = channel
        self._latest = channel, epoch

    def read(self, channel: PrepostingChannel, epoch: int) -> None:
        """Let the next channel prepost its message: the memory of this one's is free."""
        follows = self._follows.get(channel)
        if follows is not None and self._right and self._latest == (channel, epoch) and follows.prepost(epoch):
            self._expecting = follows

    def leave(self, channel: PrepostingChannel | None = None) -> None:
        """Make sure that a channel, or who is none of them, finds no memory that another one's message may come to.

        Where the order has changed that memory stays with the message, and nothing is foreseen any more.
        """
        if self._expecting is not None and self._expecting is not channel:
            self._buffers.clear()
            self._right = False
        self._expecting = None
