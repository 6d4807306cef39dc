"""Which rows travel, to whom, and in which order."""

from gnnqlab.exchange.broadcast import Broadcast, BroadcastExchange
from gnnqlab.exchange.halo import Halo, HaloExchange
from gnnqlab.exchange.halo_plan import HaloPlan
from gnnqlab.exchange.halo_rows import exchange_rows
from gnnqlab.exchange.hop import Hop
from gnnqlab.exchange.pipeline import AdaptivePipeline, Pipelined
from gnnqlab.exchange.protocol import Exchange
from gnnqlab.exchange.replica import ReplicaExchange, Replicas
from gnnqlab.exchange.schedule import Overlapped, Schedule, Synchronous
from gnnqlab.exchange.sequential import Sequential

__all__ = [
    "AdaptivePipeline",
    "Broadcast",
    "BroadcastExchange",
    "Exchange",
    "Halo",
    "HaloExchange",
    "HaloPlan",
    "Hop",
    "Overlapped",
    "Pipelined",
    "ReplicaExchange",
    "Replicas",
    "Schedule",
    "Sequential",
    "Synchronous",
    "exchange_rows",
]
