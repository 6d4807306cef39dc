"""A halo one owner at a time: whose rows come, whose go, and the columns of a matrix that they fill.

Letters: N owned rows, M marginal rows, H halo rows, H_k halo rows of one owner, P workers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from gnnqlab.exchange.halo.sampled_matrices import first_columns, kept_columns
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.partition.plan import Plan, Route

__all__ = ["PeerTurn", "PeerSchedule"]


@dataclass(frozen=True, eq=False)
class PeerTurn:
    """PeerTurn k of P - 1: rows come from worker r - k and go to r + k, mod P; their gradients go the other way."""

    first: int
    """Where the rows of this turn begin in the halo."""
    stop: int
    """Where they end."""
    plans: dict[str, Plan]
    """By direction, the rows of this turn alone; halo rows are counted from 0."""

    @property
    def num_rows(self) -> int:
        """H_k."""
        return self.stop - self.first


class PeerSchedule:
    """The turns of one worker, and the parts of its matrices that they fill.

    Args:
        plans: by direction, with all rows.
        num_owned: N; columns of a matrix from N on are halo rows.
        num_central: rows before the marginal ones.
    """

    def __init__(self, plans: dict[str, Plan], *, num_owned: int, num_central: int) -> None:
        self._num_owned, self._num_central = num_owned, num_central
        self.turns = tuple(_turn(plans, k) for k in range(1, plans["forward"].workers))
        """In the order in which they run."""
        self._blocks: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self._owned: WeakIdKeyDictionary = WeakIdKeyDictionary()

    def __len__(self) -> int:
        return len(self.turns)

    def __getitem__(self, k: int) -> PeerTurn:
        return self.turns[k]

    def owned(self, adjacency: Adjacency) -> Adjacency:
        """Return what a matrix does without any halo row for marginal rows, ``(M, N)``; made once."""
        if adjacency not in self._owned:
            self._owned[adjacency] = first_columns(adjacency, self._num_central, self._num_owned)
        return self._owned[adjacency]

    def block(self, adjacency: Adjacency, k: int) -> Adjacency:
        """Return what it does with the rows of a turn, ``(M, H_k)``; made once, and without its transpose."""
        if adjacency not in self._blocks:
            self._blocks[adjacency] = tuple(self._cut(adjacency, turn) for turn in self.turns)
        block: Adjacency = self._blocks[adjacency][k]
        return block

    def _cut(self, adjacency: Adjacency, turn: PeerTurn) -> Adjacency:
        columns = torch.arange(self._num_owned + turn.first, self._num_owned + turn.stop)
        block = kept_columns(adjacency, self._num_central, columns, 1.0)
        return Adjacency.of_checked(*block.csr, num_columns=turn.num_rows)


def _turn(plans: dict[str, Plan], k: int) -> PeerTurn:
    forward, backward = plans["forward"], plans["backward"]
    source, target = (forward.rank - k) % forward.workers, (forward.rank + k) % forward.workers
    route = forward.from_peer(source)
    assert route.first is not None, "a halo is grouped by owner"
    came = _from_zero(route)
    return PeerTurn(
        first=route.first,
        stop=route.first + route.num_rows,
        plans={
            "forward": replace(forward, send=(forward.to_peer(target),), receive=(came,)),
            "backward": replace(backward, send=(came,), receive=(backward.from_peer(target),)),
        },
    )


def _from_zero(route: Route) -> Route:
    counted: Tensor = torch.arange(route.num_rows, device=route.rows.device)
    return replace(route, rows=counted, first=0)
