"""Sampled exchange of one worker: the plans and the matrices of an epoch's sample.

Rows that were not sampled take no memory: the halo rows of a sample, and their gradients, are renumbered from 0, in the
order of the whole halo. Letters: N owned rows, H halo rows, M marginal rows, K sampled halo rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from gnnqlab.exchange.halo.sampled_matrices import first_columns, select_columns
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.samplers import Sampler
from gnnqlab.partition.plan import Plan, Route

__all__ = ["Sampling"]


@dataclass(frozen=True, eq=False)
class _Sample:
    """Sample of one epoch."""

    plans: dict[str, Plan]
    """Direction -> plan of the sampled rows."""
    rows: Tensor
    """Sampled halo rows, ascending, int64 ``(K,)``."""
    matrices: dict[Adjacency, Adjacency] = field(default_factory=dict)
    """Whole matrix -> its sampled columns."""


class Sampling:
    """Samples of one worker, drawn once per epoch for all layers and both directions.

    Args:
        sampler: part of the axis ``sampler``.
        plans: direction -> plan with all rows.
        num_owned: N; columns of a matrix from N on are halo rows.
        num_central: number of rows before the marginal ones.
        num_halo: H.
        seed: seed of the run.
        lag: staleness of rows in epochs; samples are stored that long.
        edge_coverage: factors of the edges of every matrix, float32 ``(E,)``, see ``Shard.edge_coverage``.
    """

    def __init__(
        self,
        sampler: Sampler,
        plans: dict[str, Plan],
        *,
        num_owned: int,
        num_central: int,
        num_halo: int,
        seed: int,
        lag: int = 0,
        edge_coverage: Tensor | None = None,
    ) -> None:
        self.active = sampler.p < 1.0
        """True if rows may be omitted."""
        self.factor = sampler.rescale
        """Factor of a sampled row, 1/p."""
        self.attention = sampler.attention
        self._sampler, self._whole, self._seed, self._lag = sampler, plans, seed, lag
        self._num_owned, self._num_central, self._num_halo = num_owned, num_central, num_halo
        self._samples: dict[int, _Sample] = {}
        self._owned: dict[Adjacency, Adjacency] = {}
        self._edge_coverage = edge_coverage
        self._corrected: dict[Adjacency, Adjacency] = {}

    def plan(self, direction: str, epoch: int) -> Plan:
        """Return the plan of a direction with the sampled rows of an epoch; halo rows are renumbered."""
        return self._sample(epoch).plans[direction]

    def rows(self, epoch: int) -> Tensor:
        """Return the sampled halo rows of an epoch, ascending, int64 ``(K,)``."""
        return self._sample(epoch).rows

    def num_rows(self, epoch: int | None) -> int:
        """Return the number of sampled halo rows K of an epoch; H for ``None``."""
        return self._num_halo if epoch is None else self.rows(epoch).numel()

    def corrected(self, adjacency: Adjacency) -> Adjacency:
        """Return a matrix for training with its weights times the coverage of its edges, ``(N, N + H)``; cached."""
        if self._edge_coverage is None:
            return adjacency
        if adjacency not in self._corrected:
            coverage = self._edge_coverage.to(adjacency.device)
            weights = coverage if adjacency.weights is None else adjacency.weights * coverage  # (E,)
            matrix = Adjacency.of_checked(
                adjacency.indptr, adjacency.indices, weights, num_columns=adjacency.num_columns
            )
            self._corrected[adjacency] = matrix
        return self._corrected[adjacency]

    def owned_columns(self, adjacency: Adjacency) -> Adjacency:
        """Return the marginal rows of a matrix with its owned columns, ``(M, N)``; cached."""
        if adjacency not in self._owned:
            self._owned[adjacency] = first_columns(adjacency, self._num_central, self._num_owned)
        return self._owned[adjacency]

    def sampled_columns(self, adjacency: Adjacency, epoch: int) -> Adjacency:
        """Return its marginal rows with the sampled halo columns of an epoch, weights times 1/p, ``(M, K)``.

        Cached per epoch for all layers and both directions.
        """
        sample = self._sample(epoch)
        if adjacency not in sample.matrices:
            columns = sample.rows + self._num_owned  # (K,) halo columns of the matrix
            sample.matrices[adjacency] = select_columns(adjacency, self._num_central, columns, self.factor)
        return sample.matrices[adjacency]

    def _sample(self, epoch: int) -> _Sample:
        if epoch not in self._samples:
            # Stale rows, and their gradients, need the sample of the epoch in which they were sent.
            self._samples = {key: sample for key, sample in self._samples.items() if key >= epoch - self._lag}
            self._samples[epoch] = self._draw(epoch)
        return self._samples[epoch]

    def _draw(self, epoch: int) -> _Sample:
        forward, backward = self._whole["forward"], self._whole["backward"]
        # The holder of the halo rows keys the random numbers, so sender and receiver draw identical samples.
        boundary = tuple(self._sampled_route(route, route.peer, epoch) for route in forward.send)
        halo = {route.peer: self._sampled_route(route, forward.rank, epoch) for route in forward.receive}
        rows = [halo[peer].rows for peer in sorted(halo)]  # a halo is grouped by owner
        first = 0
        for peer in sorted(halo):
            end = first + halo[peer].num_rows
            # Without gaps, because rows that were not sampled take no memory.
            positions = torch.arange(first, end, device=halo[peer].rows.device)
            halo[peer], first = replace(halo[peer], rows=positions, first=first), end
        # Back in the order of the plan, which starts with the next rank, so that not all workers begin with rank 0.
        receive_routes = tuple(halo[route.peer] for route in forward.receive)
        return _Sample(
            plans={
                "forward": replace(forward, send=boundary, receive=receive_routes),
                "backward": replace(backward, send=receive_routes, receive=boundary),
            },
            rows=torch.cat(rows) if rows else torch.zeros(0, dtype=torch.int64),  # (K,) int64
        )

    def _sampled_route(self, route: Route, holder: int, epoch: int) -> Route:
        # Sampled rows are no longer consecutive in the local rows, so the route has no first row.
        positions = self._sampler.sampled_positions(route.ids, holder=holder, seed=self._seed, epoch=epoch)  # (k,)
        return replace(
            route, rows=route.rows[positions], ids=route.ids[positions], first=None, sampled_positions=positions
        )
