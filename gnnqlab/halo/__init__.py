"""Halo exchange for any model: rows of other processes' nodes, in full precision or few bits; needs torch alone."""

from gnnqlab.halo.halo_plan import HaloPlan
from gnnqlab.halo.halo_rows import all_gather_rows, exchange_rows, reduce_rows
from gnnqlab.halo.local_edges import LocalEdges
from gnnqlab.halo.pending_exchange import PendingExchange, start_exchange

__all__ = [
    "HaloPlan",
    "LocalEdges",
    "PendingExchange",
    "all_gather_rows",
    "exchange_rows",
    "reduce_rows",
    "start_exchange",
]
