"""The axis ``schedule``: order of communication and computation in an aggregation."""

from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline, Pipelined
from gnnqlab.exchange.schedules.schedule import Overlapped, Schedule, Synchronous
from gnnqlab.exchange.schedules.sequential import Sequential

__all__ = ["AdaptivePipeline", "Overlapped", "Pipelined", "Schedule", "Sequential", "Synchronous"]


def __dir__() -> list[str]:
    return list(__all__)
