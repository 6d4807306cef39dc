"""Two workers in one process that send each other the messages of a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.kernels.exchange import plan_between
from gnnqlab.message.caches.row_cache_state import at_work
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.codecs.codec import Codec
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.simulation.threaded_workers import LoopbackTransport, Mailbox

ROWS = 30
"""Rows of each worker; half of them are sent to the other."""


class Two:
    """The state of a cache on two workers, and the channel of one exchange key on each."""

    def __init__(self, cache: Any, codec: Codec, bits: Any, *, direction: str = "forward", seed: int = 1) -> None:
        mail = Mailbox(2)
        self.caches = [at_work(cache) for _ in range(2)]
        self.plans = [plan_between(rank, ROWS // 2) for rank in range(2)]
        self.channels: list[Channel] = [
            ChannelFactory(
                transport=LoopbackTransport(mail, rank), codec=codec, bits=bits, cache=self.caches[rank], seed=seed
            ).channel(ExchangeKey(0, direction), self.plans[rank])
            for rank in range(2)
        ]

    def epoch(self, rows: list[Tensor], epoch: int) -> list[Tensor]:
        """Exchange rows ``(ROWS, D)``; return the rows that each worker received."""
        halos = [torch.zeros(ROWS // 2, rows[0].shape[1]) for _ in range(2)]
        coming = [
            channel.post(own, halo, epoch=epoch) for channel, own, halo in zip(self.channels, rows, halos, strict=True)
        ]
        return [each.decode() for each in coming]

    def sent(self, rows: list[Tensor], to: int) -> Tensor:
        """Return the rows that are sent to a worker, unchanged."""
        return rows[1 - to][self.plans[1 - to].send[0].rows]


def walk(epochs: int, *, columns: int = 16, pace: float = 0.1, seed: int = 0) -> Callable[[int], list[Tensor]]:
    """Return rows of both workers by epoch: a random walk, each step ``pace`` of the first rows."""
    generator = torch.Generator().manual_seed(seed)
    steps = torch.randn(epochs, 2, ROWS, columns, generator=generator)
    steps[1:] *= pace
    return lambda epoch: list(steps[: epoch + 1].sum(0))
