"""Flow model: a substance that flows around a cylinder, on a mesh of triangles, with one halo plan for all layers.

MeshGraphNet (Pfaff et al., ICLR 2021) in small: nodes and edges have states, and a layer updates edges, then nodes.
An explicit upwind scheme on the same mesh generates the fields; the model predicts their change in ten of its steps.
Differs: a message is a product of the edge's state and a function of the source's row, which needs fewer training
steps.

Letters: N own nodes, H halo nodes, E edges to own nodes, V all nodes, D columns.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnnqlab import halo
from gnnqlab.course.halo_models.worked_model import HaloExchange, WorkedModel, mlp, number_of_ranks, stripes

__all__ = ["Flow", "cylinder_mesh"]

_CENTRE, _RADIUS = torch.tensor([0.75, 0.5]), 0.2
_SPACING = 1 / 16
_DIFFUSION = 0.005
_SUBSTEPS, _TIME_STEP = 10, 0.004


class Flow(WorkedModel):
    """MeshGraphNet with one exchange before each layer.

    Args:
        width: D.
        layers: number of layers.
    """

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.nodes, self.edges = cylinder_mesh()
        self.velocity = potential_flow(self.nodes)

        # All that a model for one process lacks: owners, the plan, and the edges of this rank.
        owner = stripes(self.nodes[:, 0], number_of_ranks())
        plan = halo.HaloPlan.from_edges(self.edges, owner, name="mesh")
        self.plans = (plan,)
        self.own = plan.edges.own_ids
        inward = self.edges[:, plan.edges.positions]  # (2, E)

        offsets = (self.nodes[inward[0]] - self.nodes[inward[1]]) / _SPACING
        self.edge_features = torch.cat([offsets, offsets.norm(dim=1, keepdim=True), self.velocity[inward[1]]], dim=1)
        self.read_nodes, self.read_edges = mlp(1 + 2, width, width), mlp(5, width, width)
        self.layers = nn.ModuleList(FlowLayer(plan, width, layer) for layer in range(layers))
        self.write = nn.Linear(width, 1)
        self.write.weight.data.mul_(0.1)  # the first predictions are near 0

    def forward(self, field: Tensor, exchange: HaloExchange) -> Tensor:
        """Predict the change of the field at this rank's own nodes, ``(N, 1)`` -> ``(N, 1)``."""
        x = self.read_nodes(torch.cat([field, self.velocity[self.own]], dim=1))  # (N, D)
        e = self.read_edges(self.edge_features)  # (E, D)
        for layer in self.layers:
            x, e = layer(x, e, exchange)
        change: Tensor = self.write(x)
        return change

    def loss(self, sample: int, exchange: HaloExchange) -> Tensor:
        """Return this rank's share of the squared error of the predicted change, relative to the squared change."""
        before = random_clouds(self.nodes, sample)
        change = _later(before, self.nodes, self.edges, self.velocity) - before
        error = self(before[self.own], exchange) - change[self.own]
        return error.square().sum() / change.square().sum()


class FlowLayer(nn.Module):
    """Update of the edges from both end nodes, then of the nodes from their incoming edges."""

    def __init__(self, plan: halo.HaloPlan, width: int, layer: int) -> None:
        super().__init__()
        self.plan, self.layer = plan, layer
        self.of_edges, self.of_sources = mlp(3 * width, width, width), nn.Linear(width, width)
        self.of_nodes = mlp(2 * width, width, width)

    def forward(self, x: Tensor, e: Tensor, exchange: HaloExchange) -> tuple[Tensor, Tensor]:
        rows = torch.cat([x, exchange(x, self.plan, self.layer)])  # (N, D) -> (N + H, D): the only new line
        source, target = self.plan.edges.edge_index
        e = e + self.of_edges(torch.cat([rows[source], x[target], e], dim=1))
        messages = e * self.of_sources(rows)[source]  # (E, D)
        sums = torch.zeros_like(x).index_add(0, target, messages) / 6  # most nodes have six neighbours
        return x + self.of_nodes(torch.cat([x, sums], dim=1)), e


def cylinder_mesh() -> tuple[Tensor, Tensor]:
    """Return the nodes ``(V, 2)`` of a channel without those in the cylinder, and edges in both directions.

    Example:
        >>> nodes, edges = cylinder_mesh()
        >>> nodes.shape, int((nodes - torch.tensor([0.75, 0.5])).norm(dim=1).min() * 100)
        (torch.Size([797, 2]), 20)
    """
    columns, rows = 49, 17
    x, y = torch.meshgrid(torch.arange(columns), torch.arange(rows), indexing="ij")
    number = x * rows + y  # (columns, rows)
    pairs = [(number[:-1], number[1:]), (number[:, :-1], number[:, 1:]), (number[:-1, :-1], number[1:, 1:])]
    sides = torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in pairs], dim=1)
    jitter = 0.2 * torch.rand(columns * rows, 2, generator=torch.Generator().manual_seed(0)) - 0.1
    nodes = (torch.stack([x.flatten(), y.flatten()], dim=1) + jitter) * _SPACING
    is_outside = (nodes - _CENTRE).norm(dim=1) > _RADIUS
    sides = sides[:, is_outside[sides].all(dim=0)]
    places = is_outside.cumsum(0) - 1
    edges = places[sides]
    return nodes[is_outside], torch.cat([edges, edges.flip(0)], dim=1)


def potential_flow(nodes: Tensor) -> Tensor:
    """Return the velocity of a frictionless flow around the cylinder, 1 far from it, ``(V, 2)``."""
    x, y = (nodes - _CENTRE).T
    ratio = _RADIUS**2 / (x**2 + y**2) ** 2
    return torch.stack([1 - ratio * (x**2 - y**2), -2 * ratio * x * y], dim=1)


def random_clouds(nodes: Tensor, sample: int) -> Tensor:
    """Return the concentration of a substance at the nodes, ``(V, 1)``: eight round clouds."""
    generator = torch.Generator().manual_seed(sample)
    centres = torch.rand(8, 2, generator=generator) * torch.tensor([3.0, 1.0])
    return torch.exp(-torch.cdist(nodes, centres).square() / (2 * 0.15**2)).sum(dim=1, keepdim=True)


def _later(field: Tensor, nodes: Tensor, edges: Tensor, velocity: Tensor) -> Tensor:
    """Return the field after some steps of the upwind scheme: flow and diffusion from neighbours."""
    source, target = edges
    along = nodes[target] - nodes[source]
    inflow = (velocity[target] * along).sum(1).clamp(min=0)  # 0 from neighbours downstream
    rates = ((inflow + _DIFFUSION) / along.square().sum(1))[:, None]  # (edges, 1), 1 / time
    for _ in range(_SUBSTEPS):
        change = torch.zeros_like(field).index_add(0, target, rates * (field[source] - field[target]))
        field = field + _TIME_STEP * change
    return field
