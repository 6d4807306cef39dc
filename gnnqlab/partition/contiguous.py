"""Contiguous blocks of rows: the partition of CAGNET and SANCUS, which needs no graph partitioner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import torch

from gnnqlab.partition.block_shard import BlockShard, block_sizes, build_block_shard
from gnnqlab.partition.cut import NodeCut, Partitioner, check_workers
from gnnqlab.settings import Range, check

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["BlockCut", "Contiguous"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockCut(NodeCut):
    """Node owners in ascending order, which form contiguous blocks of rows."""

    kind: ClassVar[str] = "blocks"

    replication: int = 1
    """Number of workers that compute the rows of one block, c."""

    def shard(self, graph: Graph, rank: int) -> BlockShard:
        return build_block_shard(graph, self.owner, rank, self.workers, self.replication)


@dataclass(frozen=True, kw_only=True)
class Contiguous(Partitioner):
    """Nodes in the order of their ids, in equal blocks, the first few one node longer.

    With replication c (CAGNET's 1.5-D algorithm) there are ``P / c`` blocks, each of which c workers compute together;
    ``c^2`` must divide P, so that each column of workers sums whole blocks.

    Example:
        >>> import gnnqlab as gq
        >>> Contiguous().cut(gq.load("sbm:10,2,3"), 4).owner.tolist()
        [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    """

    cuts: ClassVar[str] = "blocks"

    replication: Annotated[int, Range(1)] = 1
    """Number of workers that compute the rows of one block, each from a share of the columns, c."""

    def __post_init__(self) -> None:
        check(self)

    def cut(self, graph: Graph, workers: int) -> BlockCut:
        """Assign every node to a worker.

        Raises:
            ValueError: if there are more workers than nodes, or workers are not a multiple of the squared replication.
        """
        check_workers(graph, workers)
        c = self.replication
        if workers % c**2:
            raise ValueError(
                f"workers must be a multiple of the squared replication, {c**2}, got {workers}; choose other workers "
                "or replication=1"
            )
        blocks = block_sizes(graph.num_nodes, workers // c)  # (Q,) rows of each block
        # The c workers of a block are the masters of equal shares of its rows.
        parts = [size for block in blocks.tolist() for size in block_sizes(block, c).tolist()]
        owner = torch.repeat_interleave(torch.arange(workers), torch.tensor(parts))  # (N,) int64, ascending
        return BlockCut(owner=owner, workers=workers, replication=c)
