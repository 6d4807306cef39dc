"""The axis ``exchange``: rows that workers send each other for one aggregation."""

from gnnqlab.exchange.broadcast.exchange import Broadcast
from gnnqlab.exchange.columns.exchange import Columns
from gnnqlab.exchange.halo.exchange import Halo
from gnnqlab.exchange.protocol import ExchangePart
from gnnqlab.exchange.vertex_cut.exchange import Replicas

__all__ = ["Broadcast", "Columns", "ExchangePart", "Halo", "Replicas"]


def __dir__() -> list[str]:
    return list(__all__)
