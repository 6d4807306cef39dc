"""What a sampler does to one worker's exchange: the plans of an epoch, and the matrices of what they bring.

Rows that were left out have no place anywhere: halo rows of a sample, and their gradients, are counted anew from 0, in
the order of the whole halo. Letters: N owned rows, H halo rows, M marginal rows, K halo rows kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from gnnqlab.exchange.halo.sampled_matrices import first_columns, kept_columns
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.sampler import Sampler
from gnnqlab.partition.plan import Plan, Route

__all__ = ["Sampling"]


@dataclass(frozen=True, eq=False)
class _Sample:
    """What was drawn for one epoch."""

    plans: dict[str, Plan]
    rows: Tensor
    """Halo rows that were kept, ascending, int64 ``(K,)``."""
    matrices: dict[Adjacency, Adjacency] = field(default_factory=dict)
    """Whole matrix -> its columns that were kept."""


class Sampling:
    """The samples of one worker, each drawn once an epoch for all layers and both directions.

    Args:
        sampler: recipe part.
        plans: by direction, with all rows.
        num_owned: N; columns of a matrix from N on are halo rows.
        num_central: rows before the marginal ones.
        num_halo: H.
        seed: of the run.
        lag: epochs between the draw of a row and its last use; so long its sample is held.
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
    ) -> None:
        self.active = sampler.p < 1.0
        """Whether any row may be left out."""
        self.factor = sampler.rescale
        """What a kept row counts."""
        self.attention = sampler.attention
        self._sampler, self._whole, self._seed, self._lag = sampler, plans, seed, lag
        self._num_owned, self._num_central, self._num_halo = num_owned, num_central, num_halo
        self._samples: dict[int, _Sample] = {}
        self._owned: dict[Adjacency, Adjacency] = {}

    def plan(self, direction: str, epoch: int) -> Plan:
        """Return the plan of a direction with the rows of an epoch's sample only, halo rows counted anew."""
        return self._sample(epoch).plans[direction]

    def rows(self, epoch: int) -> Tensor:
        """Return which halo rows an epoch's sample keeps, ascending, int64 ``(K,)``."""
        return self._sample(epoch).rows

    def num_rows(self, epoch: int | None) -> int:
        """Return K of an epoch's sample; H without one."""
        return self._num_halo if epoch is None else self.rows(epoch).numel()

    def owned(self, adjacency: Adjacency) -> Adjacency:
        """Return what a matrix does without any halo row for marginal rows, ``(M, N)``; made once."""
        if adjacency not in self._owned:
            self._owned[adjacency] = first_columns(adjacency, self._num_central, self._num_owned)
        return self._owned[adjacency]

    def kept(self, adjacency: Adjacency, epoch: int) -> Adjacency:
        """Return what it does with the halo rows of an epoch's sample, which weigh 1/p as much, ``(M, K)``.

        Made once an epoch for all layers and both directions.
        """
        sample = self._sample(epoch)
        if adjacency not in sample.matrices:
            columns = sample.rows + self._num_owned
            sample.matrices[adjacency] = kept_columns(adjacency, self._num_central, columns, self.factor)
        return sample.matrices[adjacency]

    def _sample(self, epoch: int) -> _Sample:
        if epoch not in self._samples:
            self._samples = {old: sample for old, sample in self._samples.items() if old >= epoch - self._lag}
            self._samples[epoch] = self._draw(epoch)
        return self._samples[epoch]

    def _draw(self, epoch: int) -> _Sample:
        forward, backward = self._whole["forward"], self._whole["backward"]
        boundary = tuple(self._kept(route, route.peer, epoch) for route in forward.send)
        halo = {route.peer: self._kept(route, forward.rank, epoch) for route in forward.receive}
        rows = [halo[peer].rows for peer in sorted(halo)]  # a halo is grouped by owner
        first = 0
        for peer in sorted(halo):
            end = first + halo[peer].num_rows
            counted = torch.arange(first, end, device=halo[peer].rows.device)
            halo[peer], first = replace(halo[peer], rows=counted, first=first), end
        received = tuple(halo[route.peer] for route in forward.receive)
        return _Sample(
            plans={
                "forward": replace(forward, send=boundary, receive=received),
                "backward": replace(backward, send=received, receive=boundary),
            },
            rows=torch.cat(rows) if rows else torch.zeros(0, dtype=torch.int64),
        )

    def _kept(self, route: Route, holder: int, epoch: int) -> Route:
        kept = self._sampler.kept(route.ids, holder=holder, seed=self._seed, epoch=epoch)
        return replace(route, rows=route.rows[kept], ids=route.ids[kept], first=None, kept=kept)
