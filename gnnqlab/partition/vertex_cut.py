"""A cut of edges (a vertex-cut): every edge lies on one worker, and a node is copied wherever one of its edges lies."""

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
    """A worker for each edge, and one of a node's copies as its master, which answers for its loss and score.

    A node without edges lies with its master alone, and a self loop lies with its node's master.

    Raises:
        ValueError: if a part or a master lies outside ``[0, workers)``.
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
                found = f"from {int(values.min())} to {int(values.max())}"
                raise ValueError(f"{name} must lie in [0, {self.workers}), got values {found}")

    def shard(self, graph: Graph, rank: int) -> ReplicaShard:
        """Return a worker's edges, the copies of nodes at their ends, and who else has a copy.

        Raises:
            ValueError: if another graph was cut.
        """
        from gnnqlab.partition.replica_shard import build_replica_shard

        return build_replica_shard(graph, self, rank)
