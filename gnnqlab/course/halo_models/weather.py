"""Weather model: a grid is encoded to an icosahedral mesh, processed there, and decoded; each step has its halo plan.

The encoder-processor-decoder of GraphCast (Lam et al., Science 382, 2023) and AIFS (Lang et al., arXiv:2406.01465,
2024) in small, with generated fields: one drifts eastward, one westward, and the model predicts their change.
Differs: a message is a product of functions of the offset and of the source's row, which needs fewer training steps.
Sums of messages are normalized, and the function of the offset has a linear part: without both, the model learns one
of the fields in 600 steps, with them both fields in 200.

Letters: G own grid points, M own mesh nodes, S own and T halo and own rows of a layer's sources, E edges, D columns.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gnnqlab import halo
from gnnqlab.course.halo_models.icosphere import icosphere
from gnnqlab.course.halo_models.worked_model import HaloExchange, WorkedModel, mlp, number_of_ranks, stripes

__all__ = ["Weather", "latitude_grid"]

_DRIFT = 0.15
"""Angle by which the fields drift in one time step, in radians."""
_WAVES = 6


class Weather(WorkedModel):
    """Encoder, processor and decoder with one exchange before each of their layers.

    Args:
        width: D.
        layers: number of layers on the mesh.
        levels: divisions of the icosahedron.
        latitudes: number of circles of the grid, each with twice as many points.
    """

    def __init__(self, width: int = 32, layers: int = 3, levels: int = 2, latitudes: int = 16) -> None:
        super().__init__()
        self.grid, (mesh, _) = latitude_grid(latitudes), icosphere(levels)
        # Edges of all coarser meshes, too: long edges carry information far in few layers.
        mesh_edges = torch.cat([icosphere(level)[1] for level in range(levels + 1)], dim=1)
        nearest = torch.cdist(self.grid, mesh).topk(3, largest=False).indices.flatten()
        to_mesh = torch.stack([torch.arange(len(self.grid)).repeat_interleave(3), nearest])

        # All that a model for one process lacks: owners, and one plan for each kind of edges.
        ranks = number_of_ranks()
        grid_owner, mesh_owner = (stripes(torch.atan2(nodes[:, 1], nodes[:, 0]), ranks) for nodes in (self.grid, mesh))
        encoder = halo.HaloPlan.from_edges(to_mesh, grid_owner, target_owner=mesh_owner, name="encoder")
        processor = halo.HaloPlan.from_edges(mesh_edges, mesh_owner, name="processor")
        decoder = halo.HaloPlan.from_edges(to_mesh.flip(0), mesh_owner, target_owner=grid_owner, name="decoder")
        self.plans = encoder, processor, decoder
        self.own = encoder.edges.own_ids  # own points of the grid
        self.own_mesh = mesh[processor.edges.own_ids]

        self.read_grid, self.read_mesh = mlp(2 + 3, width, width), mlp(3, width, width)
        self.encoder = MeshMessages(encoder, to_mesh, self.grid, mesh, width, layer=0)
        self.processor = nn.ModuleList(
            MeshMessages(processor, mesh_edges, mesh, mesh, width, layer=1 + layer) for layer in range(layers)
        )
        self.decoder = MeshMessages(decoder, to_mesh.flip(0), mesh, self.grid, width, layer=1 + layers)
        self.write = nn.Linear(width, 2)
        self.write.weight.data.mul_(0.1)  # the first predictions are near 0

    def forward(self, fields: Tensor, exchange: HaloExchange) -> Tensor:
        """Predict the change of both fields at this rank's own points, ``(G, 2)`` -> ``(G, 2)``."""
        grid = self.read_grid(torch.cat([fields, self.grid[self.own]], dim=1))  # (G, D)
        mesh = self.encoder(grid, self.read_mesh(self.own_mesh), exchange)  # (M, D)
        for layer in self.processor:
            mesh = layer(mesh, mesh, exchange)
        change: Tensor = self.write(self.decoder(mesh, grid, exchange))  # (G, 2)
        return change

    def loss(self, sample: int, exchange: HaloExchange) -> Tensor:
        """Return this rank's share of the squared error of the predicted change, relative to the squared change."""
        before, change = drifting_fields(self.grid, sample)
        error = self(before[self.own], exchange) - change[self.own]
        return error.square().sum() / change.square().sum()


class MeshMessages(nn.Module):
    """Layer of messages along the edges of one plan, from sources to targets of the same or another kind."""

    def __init__(
        self, plan: halo.HaloPlan, edges: Tensor, sources: Tensor, targets: Tensor, width: int, layer: int
    ) -> None:
        super().__init__()
        self.plan, self.layer = plan, layer
        local = edges[:, plan.edges.positions]  # (2, E) global ids of the edges that this rank computes
        self.offsets = local_offsets(sources[local[0]], targets[local[1]])  # (E, 2)
        self.of_edges, self.of_sources = mlp(2, width, width), nn.Linear(width, width)
        self.slope, self.norm = nn.Linear(2, width, bias=False), nn.LayerNorm(width)
        self.of_nodes = mlp(2 * width, width, width)

    def forward(self, x: Tensor, y: Tensor, exchange: HaloExchange) -> Tensor:
        rows = torch.cat([x, exchange(x, self.plan, self.layer)])  # (S, D) -> (T, D): the only new line
        source, target = self.plan.edges.edge_index
        messages = (self.of_edges(self.offsets) + self.slope(self.offsets)) * self.of_sources(rows)[source]  # (E, D)
        sums = self.norm(torch.zeros_like(y).index_add(0, target, messages))
        updated: Tensor = y + self.of_nodes(torch.cat([y, sums], dim=1))
        return updated


def latitude_grid(latitudes: int) -> Tensor:
    """Return the points of a grid of latitudes and longitudes on the unit sphere, ``(2 * latitudes**2, 3)``.

    Example:
        >>> latitude_grid(4).shape
        torch.Size([32, 3])
    """
    latitude = (torch.arange(latitudes) + 0.5) * math.pi / latitudes - math.pi / 2  # without the poles
    longitude = torch.arange(2 * latitudes) * math.pi / latitudes
    latitude, longitude = (angle.flatten() for angle in torch.meshgrid(latitude, longitude, indexing="ij"))
    cosine = latitude.cos()
    return torch.stack([cosine * longitude.cos(), cosine * longitude.sin(), latitude.sin()], dim=1)


def local_offsets(sources: Tensor, targets: Tensor) -> Tensor:
    """Return the offsets of sources from targets, to the east and north, ``(E, 2)``, 1 for a tenth of a radian."""
    axis = torch.tensor([0.0, 0.0, 1.0]).expand_as(targets)
    # At the poles, where east is not defined, both offsets are 0.
    east = nn.functional.normalize(torch.linalg.cross(axis, targets), dim=1)
    north = torch.linalg.cross(targets, east)
    return 10 * torch.stack([(sources * east).sum(1), (sources * north).sum(1)], dim=1)


def drifting_fields(points: Tensor, sample: int) -> tuple[Tensor, Tensor]:
    """Return two random smooth fields at the points and their change in one time step, ``(V, 2)`` each."""
    generator = torch.Generator().manual_seed(sample)
    waves = 1.5 * torch.randn(2, _WAVES, 3, generator=generator)
    phases = 2 * math.pi * torch.rand(2, _WAVES, generator=generator)
    before = _fields_at((points, points), waves, phases)
    # A field that drifts eastward has the value of a point farther west.
    after = _fields_at((_turned(points, -_DRIFT), _turned(points, _DRIFT)), waves, phases)
    return before, after - before


def _fields_at(points: tuple[Tensor, Tensor], waves: Tensor, phases: Tensor) -> Tensor:
    fields = [(at @ wave.T + phase).cos().sum(1) for at, wave, phase in zip(points, waves, phases, strict=True)]
    return torch.stack(fields, dim=1) / math.sqrt(_WAVES / 2)


def _turned(points: Tensor, angle: float) -> Tensor:
    """Turn points about the axis of the poles."""
    cosine, sine = math.cos(angle), math.sin(angle)
    return points @ torch.tensor([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])
