"""An exchange that shows every sum over neighbours to somebody, for measurements that look into a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from gnnqlab.exchange.hop import Hop
from gnnqlab.exchange.protocol import Exchange
from gnnqlab.exchange.whole import convolve_in_steps
from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["Watched"]

See = Callable[[Hop, Adjacency, Tensor, Tensor], None]
"""Told ``(hop, matrix, rows that are aggregated, their sums)`` of every aggregation."""


class Watched:
    """Does what another exchange does.

    Args:
        exchange: the other one.
        see: told of each aggregation; those of convolutions too, which therefore run step by step.

    Example:
        >>> import torch
        >>> from gnnqlab.exchange.whole import WholeGraph
        >>> two = Adjacency(torch.tensor([0, 1, 1]), torch.tensor([1], dtype=torch.int32), num_columns=2)
        >>> watched = Watched(WholeGraph(), lambda hop, matrix, rows, sums: print(hop.layer, sums.tolist()))
        >>> _ = watched.aggregate(two, torch.tensor([[1.0], [2.0]]), Hop(0, epoch=0, training=True))
        0 [[2.0], [0.0]]
    """

    def __init__(self, exchange: Exchange, see: See) -> None:
        self._exchange, self._see = exchange, see
        self.keeps_rows, self.looks_first = exchange.keeps_rows, exchange.looks_first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def aggregate(self, adjacency: Adjacency, x: Tensor, hop: Hop) -> Tensor:
        sums = self._exchange.aggregate(adjacency, x, hop)
        self._see(hop, adjacency, x, sums)
        return sums

    def convolve(
        self, adjacency: Adjacency, x: Tensor, weight: Tensor, bias: Tensor, self_weight: Tensor | None, hop: Hop
    ) -> Tensor:
        return convolve_in_steps(self, adjacency, x, weight, bias, self_weight, hop)
