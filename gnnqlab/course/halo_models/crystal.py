"""Crystal model: energy and forces of a periodic crystal, whose neighbour list and halo plan change in every step.

A potential as MACE (Batatia et al., NeurIPS 2022) in small: messages of scalars and vectors, products of their sums,
and forces as the gradient of the energy; training on forces differentiates the exchange twice. An embedded-atom
potential generates the forces. Differs: no spherical harmonics beyond vectors.

Letters: N own atoms, H halo atoms, E pairs of neighbours whose second atom is own, C channels, D = 4 C columns.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gnnqlab import halo
from gnnqlab.course.halo_models.worked_model import HaloExchange, WorkedModel, mlp, number_of_ranks, stripes

__all__ = ["Crystal", "neighbours"]

_CUTOFF = 1.3
"""Largest distance of neighbours; the lattice constant is 1."""
_WAVES = 6
_SHAKE = 0.06
"""Standard deviation of an atom's position."""


class Crystal(WorkedModel):
    """Potential with one exchange of positions, and one of rows before each layer but the first.

    Args:
        width: C.
        layers: number of layers.
        cells: number of cubic cells along each axis, of two atoms each (caesium chloride).
    """

    def __init__(self, width: int = 8, layers: int = 3, cells: tuple[int, int, int] = (8, 3, 3)) -> None:
        super().__init__()
        corners = torch.cartesian_prod(*(torch.arange(float(count)) for count in cells))
        self.sites, self.box = torch.cat([corners, corners + 0.5]), torch.tensor(cells, dtype=torch.float32)
        self.species = torch.arange(len(self.sites)) // len(corners)

        # All that a model for one process lacks: owners, and a plan, which each step updates.
        owner = stripes(self.sites[:, 0], number_of_ranks())
        self.plan = halo.HaloPlan.from_edges(neighbours(self.sites, self.box), owner, name="neighbours")
        self.plans = (self.plan,)
        self.own = self.plan.edges.own_ids

        self.embedding = nn.Embedding(2, width)
        self.layers = nn.ModuleList(CrystalLayer(width) for _ in range(layers))

    def energy(self, positions: Tensor, exchange: HaloExchange) -> Tensor:
        """Return the energy of this rank's own atoms; ``positions`` ``(N, 3)``."""
        source, target = self.plan.edges.edge_index
        # Positions are exchanged in float32: their differences are small.
        all_positions = torch.cat([positions, exchange(positions, self.plan, 0, bits=32)])  # (N + H, 3)
        vectors = nearest_image(all_positions[source] - positions[target], self.box)
        lengths = vectors.norm(dim=1, keepdim=True)  # (E, 1)
        pairs = source, target, radial_waves(lengths), vectors / lengths
        # Rows of the first layer depend on species alone, which every rank knows.
        rows = self.embedding(self.species[torch.cat([self.own, self.plan.halo_ids])])
        rows = torch.cat([rows, rows.new_zeros(len(rows), 3 * rows.shape[1])], dim=1)  # (N + H, D)
        x, energy = rows[: len(positions)], positions.new_zeros(())
        for layer, update in enumerate(self.layers):
            if layer > 0:
                rows = torch.cat([x, exchange(x, self.plan, layer)])  # (N, D) -> (N + H, D): the only new line
            x, site_energy = update(x, rows, *pairs)
            energy = energy + site_energy.sum()
        return energy

    def forces(self, positions: Tensor, exchange: HaloExchange) -> Tensor:
        """Return the forces on this rank's own atoms, also from atoms of other ranks, ``(N, 3)``."""
        positions = positions.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.energy(positions, exchange), positions, create_graph=True)
        return -gradient

    def loss(self, sample: int, exchange: HaloExchange) -> Tensor:
        """Return this rank's share of the squared error of the forces, relative to the squared forces."""
        positions = shaken(self.sites, sample)
        pairs = neighbours(positions, self.box)
        reference = reference_forces(positions, self.species, pairs, self.box)
        self.plan.update(pairs)
        error = self.forces(positions[self.own], exchange) - reference[self.own]
        return error.square().sum() / reference.square().sum()


class CrystalLayer(nn.Module):
    """Sums of messages of scalars and vectors, their products, and an energy of each atom."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.of_lengths = mlp(_WAVES, 16, 4 * width)
        self.scalars, self.vectors = nn.Linear(3 * width, width), nn.Linear(2 * width, width, bias=False)
        self.site_energy = mlp(width, 16, 1)

    def forward(
        self, x: Tensor, rows: Tensor, source: Tensor, target: Tensor, waves: Tensor, directions: Tensor
    ) -> tuple[Tensor, Tensor]:
        s, v = split_rows(rows[source], self.width)  # (E, C), (E, C, 3)
        to_s, turned_s, to_v, turned_v = self.of_lengths(waves).split(self.width, dim=1)  # (E, C) each
        along = directions[:, None]  # (E, 1, 3)
        s_messages = to_s * s + turned_s * (v * along).sum(2)
        v_messages = (turned_v * s)[:, :, None] * along + to_v[:, :, None] * v
        messages = torch.cat([s_messages, v_messages.flatten(1)], dim=1)  # (E, D)
        sums = torch.zeros_like(x).index_add(0, target, messages) / 4
        s, v = split_rows(sums, self.width)  # (N, C), (N, C, 3)
        # Products of two sums are terms of three atoms; all are invariant, or turn with the crystal.
        s_out = self.scalars(torch.cat([s, s.square(), v.square().sum(2)], dim=1))
        v_out = self.vectors(torch.cat([v, s[:, :, None] * v], dim=1).transpose(1, 2)).transpose(1, 2)
        x = x + torch.cat([s_out, v_out.flatten(1)], dim=1)
        return x, self.site_energy(x[:, : self.width])


def split_rows(rows: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return the scalars ``(n, C)`` and the vectors ``(n, C, 3)`` of rows ``(n, 4 C)``."""
    return rows[:, :width], rows[:, width:].unflatten(1, (width, 3))


def radial_waves(lengths: Tensor) -> Tensor:
    """Return smooth functions of a distance that end at the cutoff, ``(E, 1)`` -> ``(E, 6)``."""
    waves = torch.arange(1, _WAVES + 1) * math.pi / _CUTOFF
    return (waves * lengths).sin() / lengths * _fade(lengths)


def _fade(lengths: Tensor) -> Tensor:
    return 0.5 * (1 + (math.pi / _CUTOFF * lengths).cos())


def nearest_image(vectors: Tensor, box: Tensor) -> Tensor:
    """Return the vectors to the nearest of the periodic copies."""
    return vectors - box * (vectors / box).round()


def neighbours(positions: Tensor, box: Tensor) -> Tensor:
    """Return all pairs of neighbours, in both orders, int64 ``(2, E)``.

    Example:
        >>> neighbours(torch.tensor([[0.0, 0, 0], [2.5, 0, 0]]), torch.full((3,), 3.0)).tolist()  # through the boundary
        [[0, 1], [1, 0]]
    """
    distances = nearest_image(positions[:, None] - positions, box).norm(dim=2)  # (V, V)
    return ((distances < _CUTOFF) & (distances > 0)).nonzero().T.contiguous()


def shaken(sites: Tensor, sample: int) -> Tensor:
    """Return positions of atoms that have moved from their sites at random."""
    return sites + _SHAKE * torch.randn(sites.shape, generator=torch.Generator().manual_seed(sample))


def reference_forces(positions: Tensor, species: Tensor, pairs: Tensor, box: Tensor) -> Tensor:
    """Return the forces of an embedded-atom potential: repulsion of pairs, and the root of a density."""
    source, target = pairs
    positions = positions.detach().requires_grad_()
    lengths = nearest_image(positions[source] - positions[target], box).norm(dim=1)
    # Atoms of one species repel each other more.
    strengths = torch.where(species[source] == species[target], 0.5, 0.25)
    repulsion = (strengths * torch.exp(-4 * (lengths - 0.9)) * _fade(lengths)).sum()
    shares = torch.exp(-2 * (lengths - 0.9)) * _fade(lengths)
    density = torch.zeros(len(positions)).index_add(0, target, shares)
    (gradient,) = torch.autograd.grad(repulsion - density.sqrt().sum(), positions)
    return -gradient
