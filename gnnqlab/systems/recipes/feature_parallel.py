"""Feature parallelism (MixGCN, arXiv 2501.01951; NeutronTP, arXiv 2412.20379): columns are split for aggregations."""

from __future__ import annotations

from gnnqlab.bits.policy import Fixed
from gnnqlab.exchange.columns.exchange import Columns
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.partition.column_shard import WholeGraph
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["feature_parallel"]


@register_system
def feature_parallel(*, bits: int = 32) -> System:
    """Nodes are split for dense layers and columns for aggregations, with an all-to-all of rows between.

    Differs: the papers send float32; here messages may have ``bits`` bits, with a scale for each row
    and share of columns. Blocks of nodes are equal, attention is computed in shares of each head's features, and
    MixGCN's mixture of accelerators is left out.

    Example:
        >>> feature_parallel(bits=4).exchange
        Columns()
    """
    return System(
        name="feature-parallel", partition=WholeGraph(), exchange=Columns(), codec=Stochastic(), bits=Fixed(bits=bits)
    )
