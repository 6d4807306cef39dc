"""A random vertex-cut, for tests of workers that hold one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from gnnqlab.graph import Graph
from gnnqlab.partition.vertex_cut import VertexCut


@dataclass(frozen=True, kw_only=True)
class EdgesAtRandom:
    """Assign each pair of nodes to a random worker, its two directions together; masters are random replicas."""

    cuts: ClassVar[str] = "edges"

    seed: int = 0
    idle: int = 0
    """Number of the last workers that get no edges."""

    def cut(self, graph: Graph, workers: int) -> VertexCut:
        generator = torch.Generator().manual_seed(self.seed)
        nodes, source = graph.num_nodes, graph.indices.long()
        target = torch.repeat_interleave(torch.arange(nodes), graph.in_degrees)
        pairs, place = (torch.minimum(source, target) * nodes + torch.maximum(source, target)).unique(
            return_inverse=True
        )
        part = torch.randint(max(1, workers - self.idle), (pairs.numel(),), generator=generator)[place]
        owner = torch.randint(workers - self.idle, (nodes,), generator=generator)
        proper = source != target
        for ends in (source, target):
            owner[ends[proper]] = part[proper]  # the last replica that was named
        part[~proper] = owner[source[~proper]]
        return VertexCut(part=part.to(torch.int32), owner=owner, workers=workers)
