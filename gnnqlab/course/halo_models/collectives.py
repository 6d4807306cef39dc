"""Float32 exchanges of programs without gnnqlab: `all_to_all_single` of the halo rows, and `all_gather` of all rows.

Letters: N own rows, H halo rows, M largest number of own rows of a rank, P ranks, D columns.
"""

from __future__ import annotations

import itertools
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab import halo
from gnnqlab.course.halo_models.worked_model import HaloExchange

__all__ = ["EXCHANGES", "AllGatherExchange", "AllToAllExchange"]


class AllToAllExchange(HaloExchange):
    """Exchange of the same halo rows by ``all_to_all_single``, in float32."""

    _bytes = 0

    def __call__(self, x: Tensor, plan: halo.HaloPlan, layer: int, *, bits: int | None = None) -> Tensor:
        """Return the rows of the halo nodes, ``(N, D)`` -> ``(H, D)``; ``layer`` and ``bits`` are not used."""
        firsts = [plan.first_row_after(rank) for rank in range(plan.workers + 1)]
        receive = [end - first for first, end in itertools.pairwise(firsts)]
        if plan.workers == 1:
            return x[:0]
        send = [rows.numel() for rows in plan.send_rows]
        received: Tensor = _AllToAll.apply(x[torch.cat(plan.send_rows)], send, receive, self)
        return received

    def count(self, num_bytes: int) -> None:
        """Add bytes that this rank sends."""
        self._bytes += num_bytes

    def sent_bytes(self, plans: tuple[halo.HaloPlan, ...]) -> int:
        """Return the bytes of rows and gradients that this rank has sent so far."""
        return self._bytes


class AllGatherExchange(AllToAllExchange):
    """Exchange of all rows of all ranks by ``all_gather``, in float32; gradients are summed by ``all_reduce``."""

    def __init__(self, bits: int = 32, step: int = 0) -> None:
        super().__init__(bits, step)
        self._places: WeakKeyDictionary[halo.HaloPlan, tuple[int, Tensor]] = WeakKeyDictionary()

    def __call__(self, x: Tensor, plan: halo.HaloPlan, layer: int, *, bits: int | None = None) -> Tensor:
        """Return the rows of the halo nodes, ``(N, D)`` -> ``(H, D)``; ``layer`` and ``bits`` are not used."""
        if plan.workers == 1:
            return x[:0]
        if plan not in self._places:
            self._places[plan] = _places(plan)
        largest, places = self._places[plan]
        padded = torch.cat([x, x.new_zeros(largest - len(x), x.shape[1])])  # (M, D)
        everything: Tensor = _Gather.apply(padded, self)  # (P M, D)
        return everything[places[plan.halo_ids]]


EXCHANGES: dict[str, type[HaloExchange]] = {
    "halo": HaloExchange,
    "all-to-all": AllToAllExchange,
    "all-gather": AllGatherExchange,
}
"""Name -> exchange; the last two are float32 at any bit-width."""


def _places(plan: halo.HaloPlan) -> tuple[int, Tensor]:
    """Return M and the row of each global id among the gathered rows."""
    own = plan.edges.own_ids
    numbers = torch.tensor([own.numel(), int(own.max()) + 1 if own.numel() else 0])
    dist.all_reduce(numbers, dist.ReduceOp.MAX)
    largest, num_ids = numbers.tolist()
    places = torch.zeros(num_ids, dtype=torch.int64)
    places[own] = plan.rank * largest + torch.arange(own.numel())
    dist.all_reduce(places)  # each id has one owner
    return largest, places


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, send: list[int], receive: list[int], exchange: AllToAllExchange) -> Tensor:
        ctx.lists = receive, send, exchange
        received = x.new_empty(sum(receive), x.shape[1])
        dist.all_to_all_single(received, x.contiguous(), receive, send)
        exchange.count(x.numel() * x.element_size())
        return received

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return _AllToAll.apply(gradients[0], *ctx.lists), None, None, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, exchange: AllToAllExchange) -> Tensor:
        ctx.exchange = exchange
        rows = x.new_empty(dist.get_world_size(), *x.shape)  # (P, M, D)
        dist.all_gather(list(rows), x.contiguous())
        exchange.count((len(rows) - 1) * x.numel() * x.element_size())
        return rows.flatten(0, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _SumSlice.apply(gradients[0], ctx.exchange), None


class _SumSlice(torch.autograd.Function):
    """Sum of the ranks' tensors, of which each rank keeps its own rows: the gradient of ``_Gather``."""

    @staticmethod
    def forward(ctx: Any, everything: Tensor, exchange: AllToAllExchange) -> Tensor:
        ctx.exchange = exchange
        ranks, total = dist.get_world_size(), everything.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        # A ring sends each part twice, to all ranks but one.
        exchange.count(2 * (ranks - 1) * (total.numel() // ranks) * total.element_size())
        return total.view(ranks, -1, total.shape[1])[dist.get_rank()].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Gather.apply(gradients[0], ctx.exchange), None
