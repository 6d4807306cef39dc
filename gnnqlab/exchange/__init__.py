"""Which rows travel, to whom, and in which order."""

from gnnqlab.exchange.halo import Halo, HaloExchange
from gnnqlab.exchange.pipeline import AdaptivePipeline, Pipelined
from gnnqlab.exchange.schedule import Overlapped, Schedule, Synchronous

__all__ = ["AdaptivePipeline", "Halo", "HaloExchange", "Overlapped", "Pipelined", "Schedule", "Synchronous"]
