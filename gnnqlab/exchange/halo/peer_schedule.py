"""Halo exchange with one peer at a time: plans and matrix columns of each turn.

Letters: N owned rows, M marginal rows, H halo rows, H_k halo rows of one owner, P workers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from gnnqlab.exchange.halo.sampled_matrices import first_columns, select_columns
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.partition.plan import Plan, Route

__all__ = ["PeerTurn", "PeerSchedule"]


@dataclass(frozen=True, eq=False)
class PeerTurn:
    """Turn k of P - 1: rank r receives rows from r - k and sends rows to r + k, mod P; gradients in reverse."""

    first: int
    """First halo row of this turn."""
    stop: int
    """End of its halo rows, exclusive."""
    plans: dict[str, Plan]
    """Direction -> plan of this turn's rows; halo rows are numbered from 0."""

    @property
    def num_rows(self) -> int:
        """H_k."""
        return self.stop - self.first


class PeerSchedule:
    """Turns of one worker, and the blocks of its matrices that they multiply with.

    Args:
        plans: direction -> plan with all rows.
        num_owned: N; columns of a matrix from N on are halo rows.
        num_central: number of rows before the marginal ones.
    """

    def __init__(self, plans: dict[str, Plan], *, num_owned: int, num_central: int) -> None:
        self._num_owned, self._num_central = num_owned, num_central
        self.turns = tuple(_turn(plans, k) for k in range(1, plans["forward"].workers))
        """Turns in the order in which they run."""
        # Weak keys: the blocks of a matrix are freed with it.
        self._blocks: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self._owned: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def __len__(self) -> int:
        return len(self.turns)

    def __getitem__(self, k: int) -> PeerTurn:
        return self.turns[k]

    def owned(self, adjacency: Adjacency) -> Adjacency:
        """Return the marginal rows of a matrix with its owned columns, ``(M, N)``; cached."""
        if adjacency not in self._owned:
            self._owned[adjacency] = first_columns(adjacency, self._num_central, self._num_owned)
        return self._owned[adjacency]

    def block(self, adjacency: Adjacency, k: int) -> Adjacency:
        """Return its marginal rows with the halo columns of a turn, ``(M, H_k)``; cached, without its transpose."""
        if adjacency not in self._blocks:
            self._blocks[adjacency] = tuple(self._cut(adjacency, turn) for turn in self.turns)
        block: Adjacency = self._blocks[adjacency][k]
        return block

    def _cut(self, adjacency: Adjacency, turn: PeerTurn) -> Adjacency:
        columns = torch.arange(self._num_owned + turn.first, self._num_owned + turn.stop)  # (H_k,) int64
        block = select_columns(adjacency, self._num_central, columns, 1.0)
        # Drop the transpose: the backward pass multiplies with that of the whole matrix.
        return Adjacency.of_checked(*block.csr, num_columns=turn.num_rows)


def _turn(plans: dict[str, Plan], k: int) -> PeerTurn:
    forward, backward = plans["forward"], plans["backward"]
    # In one turn every worker has one sender and one receiver, all of them different.
    source, target = (forward.rank - k) % forward.workers, (forward.rank + k) % forward.workers
    route = forward.from_peer(source)
    assert route.first is not None, "a halo is grouped by owner"
    # A turn has a buffer of its own, (H_k, D), so its rows are numbered from 0.
    receive_route = _from_zero(route)
    return PeerTurn(
        first=route.first,
        stop=route.first + route.num_rows,
        plans={
            "forward": replace(forward, send=(forward.to_peer(target),), receive=(receive_route,)),
            "backward": replace(backward, send=(receive_route,), receive=(backward.from_peer(target),)),
        },
    )


def _from_zero(route: Route) -> Route:
    positions: Tensor = torch.arange(route.num_rows, device=route.rows.device)  # (H_k,) int64
    return replace(route, rows=positions, first=0)
