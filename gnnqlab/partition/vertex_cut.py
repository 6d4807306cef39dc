"""Vertex-cut: every edge is on one worker, and a node is replicated on every worker with one of its edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from gnnqlab.partition.cut import Cut

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.replica_shard import ReplicaShard

__all__ = ["VertexCut"]


@dataclass(frozen=True, kw_only=True, eq=False)
class VertexCut(Cut):
    """A worker for each edge, and a master for each node: the replica that counts in loss and score.

    A node without edges is only on its master's worker; a self loop is on the worker of its node's master.

    Raises:
        ValueError: if a part or a master is outside ``[0, workers)``.
    """

    kind: ClassVar[str] = "edges"

    part: Tensor
    """Worker of each edge in the order of the graph's ``indices``, int32 ``(E,)``."""
    owner: Tensor
    """Master of each node, int64 ``(N,)``."""
    workers: int
    library: str | None = None

    def __post_init__(self) -> None:
        for name, values, dtype in (("part", self.part, torch.int32), ("owner", self.owner, torch.int64)):
            if values.dtype != dtype or values.dim() != 1:
                raise ValueError(f"{name} must be a vector of {dtype}, got {values.dtype} {tuple(values.shape)}")
            if values.numel() and not 0 <= int(values.min()) <= int(values.max()) < self.workers:
                bounds = f"from {int(values.min())} to {int(values.max())}"
                raise ValueError(f"{name} must lie in [0, {self.workers}), got values {bounds}")

    def shard(self, graph: Graph, rank: int) -> ReplicaShard:
        """Build one worker's shard: its edges, replicas of the nodes at their ends, and the other replicas' ranks.

        Raises:
            ValueError: if the cut is of another graph.
        """
        from gnnqlab.partition.replica_shard import build_replica_shard

        return build_replica_shard(graph, self, rank)
