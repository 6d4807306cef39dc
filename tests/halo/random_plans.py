"""Random graphs and owners for the halo exchange: asymmetric, with empty ranks, duplicates, and few nodes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Case", "edge_weights", "energy", "random_case"]

COLUMNS = 3


class Case(NamedTuple):
    """One graph, its owners, and its rows."""

    edges: Tensor
    """``(2, E)``, with duplicates and self-loops."""
    owner: Tensor
    target_owner: Tensor | None
    """Owner of each target of a graph with two kinds of nodes."""
    x: Tensor
    """Rows of all source nodes, float64 ``(V, D)``, numbers that float32 holds, because messages are float32."""
    hops: int


def random_case(seed: int, workers: int) -> Case:
    """Return case ``seed``, the same on all ranks."""
    generator = torch.Generator().manual_seed(seed)

    def draw(high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=generator)

    num_nodes = (1, 2, workers, 7, 12)[seed % 5]  # also fewer nodes than ranks
    num_targets = 1 + int(draw(6, 1)) if seed % 4 == 3 else num_nodes
    num_edges = int(draw(4 * num_nodes + 1, 1))
    edges = torch.stack([draw(num_nodes, num_edges), draw(num_targets, num_edges)])
    edges = torch.cat([edges, edges[:, : num_edges // 3]], dim=1)  # duplicates
    num_owners = 1 + seed % workers  # some ranks own nothing
    owner = draw(num_owners, num_nodes)
    if seed % 3 == 0:  # neighbours on other ranks in one direction only
        edges = edges[:, owner[edges[0]] >= int(num_owners > 1)]
    target_owner = draw(workers, num_targets) if num_targets != num_nodes or seed % 4 == 3 else None
    hops = 1 if target_owner is not None else 1 + (seed % 7 == 1)
    x = torch.rand(num_nodes, COLUMNS, generator=generator).double() - 0.5
    return Case(edges, owner, target_owner, x, hops)


def energy(rows: Tensor, edge_index: Tensor, weights: Tensor) -> Tensor:
    """Return a sum over edges that is not linear in its sources; ``weights`` has one number per edge."""
    return (torch.tanh(rows[edge_index[0]]).prod(dim=1) * weights).sum() + (rows[edge_index[0]] ** 3).sum()


def edge_weights(edges: Tensor) -> Tensor:
    """Return a weight of each edge that depends on its ends only, so that all ways of passing edges have the same."""
    return (1 + (edges[0] + 2 * edges[1]) % 3).double()
