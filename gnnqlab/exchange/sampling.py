"""What a sampler does to one worker's exchange: the plans of an epoch, and matrices that rescale what they bring.

Letters: N owned rows, H halo rows.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gnnqlab.kernels.adjacency import Adjacency
from gnnqlab.message.plan import Plan, Route
from gnnqlab.message.sampler import Sampler

__all__ = ["Sampling", "split_columns"]

_EPOCHS = 2
"""Epochs whose plans are kept: pipelined rows are used one epoch after they were drawn."""


class Sampling:
    """The samples of one worker, each drawn once an epoch for all layers and both directions.

    Args:
        sampler: recipe part.
        plans: by direction, with all rows.
        num_owned: N; columns of a matrix from N on are halo rows.
        seed: of the run.
    """

    def __init__(self, sampler: Sampler, plans: dict[str, Plan], *, num_owned: int, seed: int) -> None:
        self.active = sampler.p < 1.0
        """Whether any row may be left out."""
        self.factor = sampler.rescale
        """What a kept row counts."""
        self.attention = sampler.attention
        self._sampler, self._whole, self._num_owned, self._seed = sampler, plans, num_owned, seed
        self._plans: dict[tuple[str, int], Plan] = {}
        self._rescaled: dict[int, tuple[Adjacency, Adjacency]] = {}
        self._split: dict[int, tuple[Adjacency, tuple[Adjacency, Adjacency]]] = {}

    def plan(self, direction: str, epoch: int) -> Plan:
        """Return the plan of a direction with the rows of an epoch's sample only."""
        key = (direction, epoch)
        if key not in self._plans:
            self._plans = {old: plan for old, plan in self._plans.items() if old[1] > epoch - _EPOCHS}
            whole = self._whole[direction]
            forward = direction == "forward"
            self._plans[key] = replace(
                whole,
                send=tuple(self._kept(route, route.peer if forward else whole.rank, epoch) for route in whole.send),
                receive=tuple(
                    self._kept(route, whole.rank if forward else route.peer, epoch) for route in whole.receive
                ),
            )
        return self._plans[key]

    def dropped(self, num_halo: int, epoch: int) -> Tensor:
        """Return which halo rows an epoch's sample leaves out, bool ``(H,)``."""
        routes = self.plan("forward", epoch).receive
        dropped = torch.ones(num_halo, dtype=torch.bool, device=routes[0].rows.device if routes else None)
        for route in routes:
            dropped[route.rows] = False
        return dropped

    def rescaled(self, adjacency: Adjacency) -> Adjacency:
        """Return a matrix whose halo columns weigh 1/p times as much; made once."""
        known = self._rescaled.get(id(adjacency))
        if known is None:
            weights = adjacency.weights
            if weights is None:
                weights = torch.ones(adjacency.num_edges, device=adjacency.device)
            weights = torch.where(adjacency.indices >= self._num_owned, weights * self.factor, weights)
            matrix = Adjacency.of_checked(
                adjacency.indptr, adjacency.indices, weights, num_columns=adjacency.num_columns
            )
            known = self._rescaled[id(adjacency)] = (adjacency, matrix)  # the first is held, so that its id stays its
        return known[1]

    def split(self, adjacency: Adjacency, first_row: int) -> tuple[Adjacency, Adjacency]:
        """Return the rows from ``first_row`` on as two matrices, of owned columns and of halo columns; made once."""
        known = self._split.get(id(adjacency))
        if known is None:
            known = (adjacency, split_columns(adjacency, first_row, self._num_owned))
            self._split[id(adjacency)] = known
        return known[1]

    def _kept(self, route: Route, holder: int, epoch: int) -> Route:
        kept = self._sampler.kept(route.ids, holder=holder, seed=self._seed, epoch=epoch)
        return replace(route, rows=route.rows[kept], ids=route.ids[kept], first=None, kept=kept)


def split_columns(adjacency: Adjacency, first_row: int, num_left: int) -> tuple[Adjacency, Adjacency]:
    """Return rows from ``first_row`` on, the columns below ``num_left`` and those from there on, counted anew.

    Example:
        >>> matrix = Adjacency(torch.tensor([0, 1, 3]), torch.tensor([0, 2, 1], dtype=torch.int32), num_columns=3)
        >>> left, right = split_columns(matrix, 1, 2)
        >>> left.indices.tolist(), right.indices.tolist(), right.indptr.tolist()
        ([1], [0], [0, 1])
    """
    begin = int(adjacency.indptr[first_row])
    indices = adjacency.indices[begin:]
    right = indices >= num_left
    parts = []
    for chosen, shift, columns in ((~right, 0, num_left), (right, num_left, adjacency.num_columns - num_left)):
        counted = torch.zeros(indices.numel() + 1, dtype=torch.int64, device=indices.device)
        torch.cumsum(chosen, 0, out=counted[1:])
        indptr = counted[adjacency.indptr[first_row:] - begin]
        parts.append(Adjacency.of_checked(indptr, indices[chosen] - shift, num_columns=columns))
    return parts[0], parts[1]
