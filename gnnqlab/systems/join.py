"""Build a system's exchange on one worker: the only place where parts become running components."""

from __future__ import annotations

from typing import Any

import torch

from gnnqlab.exchange.protocol import Exchange
from gnnqlab.message.caches.row_cache_state import at_work
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
    codec: Any = None,
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
    """Build the exchange of one worker.

    Args:
        system: the training system.
        shard: the worker's shard of the graph.
        bits: running bit policy of this worker, or one per direction.
        cache: running state of the system's cache; by default one that is not adapted by callbacks.
        codec: running codec of this worker, or one per direction; by default the system's part, without state.
        transport, exact_transport, seed, run, keep_static: as for :class:`ChannelFactory`.
        device: device of the worker.
        phases: phase timer of the epoch.
        counting: switch for counting the codes of received messages; off by default.
        observers: observers of message events.
    """
    counting = counting or Counting()
    counting.observers = observers  # one switch for counts of codes and for events of messages
    # Message axes (codec, bits, cache, sampler) go into the channels, which the exchange creates on demand.
    wires = ChannelFactory(
        codec=system.codec if codec is None else codec,
        bits=bits,
        cache=at_work(system.cache) if cache is None else cache,  # running state, never the frozen part
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
