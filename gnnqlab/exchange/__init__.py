"""Exchanges and schedules: which rows workers exchange for an aggregation, and in which order."""

from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.broadcast.exchange import Broadcast, BroadcastExchange
from gnnqlab.exchange.halo.exchange import Halo, HaloExchange
from gnnqlab.exchange.protocol import Exchange
from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline, Pipelined
from gnnqlab.exchange.schedules.schedule import Overlapped, Schedule, Synchronous
from gnnqlab.exchange.schedules.sequential import Sequential
from gnnqlab.exchange.vertex_cut.exchange import ReplicaExchange, Replicas
from gnnqlab.halo.halo_plan import HaloPlan
from gnnqlab.halo.halo_rows import exchange_rows

__all__ = [
    "AdaptivePipeline",
    "Broadcast",
    "BroadcastExchange",
    "Exchange",
    "Halo",
    "HaloExchange",
    "HaloPlan",
    "AggregationContext",
    "Overlapped",
    "Pipelined",
    "ReplicaExchange",
    "Replicas",
    "Schedule",
    "Sequential",
    "Synchronous",
    "exchange_rows",
]
