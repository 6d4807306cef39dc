"""Icosahedral mesh of the sphere."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["icosphere"]


def icosphere(levels: int) -> tuple[Tensor, Tensor]:
    """Return nodes ``(10 · 4^levels + 2, 3)`` on the unit sphere and edges, both directions, ``(2, 60 · 4^levels)``.

    An icosahedron whose triangles are divided into four repeatedly. The nodes of a coarser mesh come first.

    Args:
        levels: number of divisions.

    Example:
        >>> nodes, edges = icosphere(0)  # the icosahedron
        >>> nodes.shape, edges.shape
        (torch.Size([12, 3]), torch.Size([2, 60]))
    """
    golden = (1 + 5**0.5) / 2
    corners = torch.tensor([[0.0, a, b * golden] for a in (-1, 1) for b in (-1, 1)])
    nodes = torch.cat([corners.roll(turn, 1) for turn in range(3)])
    triples = torch.combinations(torch.arange(12), 3)
    lengths = (nodes[triples] - nodes[triples.roll(1, 1)]).norm(dim=2)
    faces = triples[(lengths < 2.1).all(1)]  # edges are 2 long, the next distance is 3.2
    for _ in range(levels):
        pairs, which = _sides(faces).sort(1).values.unique(dim=0, return_inverse=True)
        (a, b, c), (ab, bc, ca) = faces.T, (len(nodes) + which).view(-1, 3).T
        faces = torch.cat([torch.stack(of, 1) for of in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))])
        nodes = torch.cat([nodes, nodes[pairs].mean(1)])
    sides = _sides(faces)
    return torch.nn.functional.normalize(nodes), torch.cat([sides, sides.flip(1)]).unique(dim=0).T.contiguous()


def _sides(faces: Tensor) -> Tensor:
    return faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
