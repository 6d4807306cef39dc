"""CAGNET (Tripathy, Yelick and Buluç, SC 2020): blocks of rows are broadcast one after another."""

from __future__ import annotations

from gnnqlab.exchange.broadcast.exchange import Broadcast
from gnnqlab.partition.contiguous import Contiguous
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["cagnet"]


@register_system
def cagnet(*, replication: int = 1) -> System:
    """CAGNET's 1-D algorithm, or with replication c its 1.5-D one: float32 blocks, without a graph partitioner.

    Example:
        >>> cagnet().partition
        Contiguous(replication=1)
    """
    return System(name="cagnet", partition=Contiguous(replication=replication), exchange=Broadcast())
