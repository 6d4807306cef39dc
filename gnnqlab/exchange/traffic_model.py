"""Rows that an exchange moves in one look at neighbours, by formula: all workers together.

Letters: n nodes, P workers, c replication, D columns in, O columns out, K heads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from gnnqlab.partition.block_shard import BlockShard

__all__ = ["AggregationCall", "MessageVolumes", "PartitionSizes"]

MessageVolumes = list[tuple[str, int, int]]
"""``(direction, rows, columns)`` of each kind of message."""


@dataclass(frozen=True, kw_only=True)
class AggregationCall:
    """One look at neighbours of a model."""

    kind: str
    """``aggregate``, ``convolve`` or ``attend``."""
    columns: int
    """D; of attention ``K F``."""
    out: int
    """O; D where nothing is projected in the look."""
    heads: int = 0
    """K of attention."""
    needs_gradient: bool = True
    """Whether the rows that are looked at learn: raw features do not."""


@dataclass(frozen=True, kw_only=True)
class PartitionSizes:
    """What of a cut a formula needs."""

    num_nodes: int
    """n."""
    workers: int
    """P."""
    copies: int = 0
    """Rows that are copies of another worker's, over all workers: halo rows Ω, or mirrors."""
    replication: int = 1
    """c."""

    @classmethod
    def of(cls, shards: Iterable[Any]) -> Self:
        """Return those of a cut, from all of its shards."""
        shards = list(shards)
        return cls(
            num_nodes=shards[0].num_global_nodes,
            workers=shards[0].workers,
            copies=sum(shard.num_halo for shard in shards),
            replication=shards[0].replication if isinstance(shards[0], BlockShard) else 1,
        )
