"""A system at work on one worker: the one place where its parts become what runs."""

from __future__ import annotations

from typing import Any

import torch

from gnnqlab.exchange.protocol import Exchange
from gnnqlab.message.caches.cache import at_work
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.codecs.entropy import Counting
from gnnqlab.message.exchange_key import Phases, no_phases
from gnnqlab.message.transport.transport import Transport
from gnnqlab.observe import NO_OBSERVERS, Observers
from gnnqlab.partition.shard import Shard
from gnnqlab.systems.system import System

__all__ = ["join"]


def join(
    system: System,
    shard: Shard,
    *,
    bits: Any,
    cache: Any = None,
    transport: Transport,
    seed: int,
    exact_transport: Transport | None = None,
    run: int | None = None,
    keep_static: bool = False,
    device: torch.device | str = "cpu",
    phases: Phases = no_phases,
    counting: Counting | None = None,
    observers: Observers = NO_OBSERVERS,
) -> Exchange:
    """Return the exchange of one worker.

    Args:
        system: how training is distributed.
        shard: the worker's share of the graph.
        bits: widths in force on this worker, one policy or one by direction.
        cache: what runs of the system's cache here; by default what runs of it without anybody who adapts.
        transport, exact_transport, seed, run, keep_static: as for :class:`ChannelFactory`.
        device: where it trains.
        phases: the epoch's clock.
        counting: says whether the codes of messages that come are counted; by default they are not.
        observers: receive events of its messages.
    """
    counting = counting or Counting()
    counting.observers = observers
    wires = ChannelFactory(
        codec=system.codec,
        bits=bits,
        cache=at_work(system.cache) if cache is None else cache,
        sampler=system.sampler,
        transport=transport,
        exact_transport=exact_transport,
        seed=seed,
        run=run,
        keep_static=keep_static,
        counting=counting,
    )
    exchange: Exchange = system.exchange.join(
        shard, wires, system.schedule, system.compute.build(device), device=device, phases=phases
    )
    return exchange
