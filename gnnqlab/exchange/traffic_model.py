"""Types for the message volume of one aggregation, over all workers.

Letters: n nodes, P workers, c replication, D columns in, O columns out, K heads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from gnnqlab.partition.block_shard import BlockShard

__all__ = ["AggregationCall", "MessageVolumes", "PartitionSizes"]

MessageVolumes = list[tuple[str, int, int]]
"""Message volume: ``(direction, rows, columns)`` of each kind of message."""


@dataclass(frozen=True, kw_only=True)
class AggregationCall:
    """One aggregation of a model."""

    kind: str
    """``aggregate``, ``convolve`` or ``attend``."""
    columns: int
    """D; for attention ``K F``."""
    out: int
    """O; D if the layer has no projection."""
    heads: int = 0
    """K, for attention."""
    needs_gradient: bool = True
    """True if the aggregated rows need a gradient; False for input features."""


@dataclass(frozen=True, kw_only=True)
class PartitionSizes:
    """Sizes of a partition, for formulas of message volume."""

    num_nodes: int
    """n."""
    workers: int
    """P."""
    copies: int = 0
    """Number of halo rows Ω, or of mirrors, over all workers."""
    replication: int = 1
    """c."""

    @classmethod
    def from_shards(cls, shards: Iterable[Any]) -> Self:
        """Collect the sizes of a partition from all of its shards."""
        shards = list(shards)
        return cls(
            num_nodes=shards[0].num_global_nodes,
            workers=shards[0].workers,
            copies=sum(shard.num_halo for shard in shards),
            replication=shards[0].replication if isinstance(shards[0], BlockShard) else 1,
        )
