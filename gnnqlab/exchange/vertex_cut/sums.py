"""Weighted sums over a vertex-cut as the five operations of a step, forward and backward.

Letters: R rows (masters, then mirrors), C central rows, D columns. ``y = S A x``: each worker sums over its own edges,
then ``S`` adds the partial sums of a node and sends the total to all its copies. ``S`` is symmetric, so
``dx = A^T S dy``, where ``dy`` of a copy is the gradient through its own edges and, for masters, through the loss.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnnqlab.exchange.schedules.schedule import PendingRows
from gnnqlab.exchange.vertex_cut.mirrors import MirrorAggregation

__all__ = ["Aggregate", "SumBackward", "SumForward"]


class Synchronised:
    """Base class of steps whose rounds replace the partial sums of all copies of a node by their total.

    Args:
        aggregation: arguments of the aggregation.
        direction: ``forward`` or ``backward``.
        rows: partial sums of the copies ``(R, D)``, overwritten with the totals.
    """

    chained = True

    def __init__(self, aggregation: MirrorAggregation, direction: str, rows: Tensor) -> None:
        self.aggregation, self.direction, self.rows = aggregation, direction, rows
        self.rounds = len(aggregation.mirrors.legs)

    def post(self, round: int) -> PendingRows:
        gathers = self.aggregation.mirrors.legs[round].gathers
        return (self.aggregation.gather if gathers else self.aggregation.scatter)(self.direction, self.rows, round)

    def wait(self, round: int, pending: PendingRows) -> None:
        pending.wait()
        self._pending = pending

    def dependent(self, round: int) -> None:
        self._pending.decode()
        # Earlier rounds leave partial sums in the rows.
        if round == self.aggregation.last:
            self.whole()

    def whole(self) -> None:
        """Compute everything that needs the totals."""


class SumForward(Synchronised):
    """Forward step ``y = S A x``."""

    def __init__(self, aggregation: MirrorAggregation, x: Tensor) -> None:
        # Accumulate bfloat16 rows in float32.
        sums = torch.float32 if x.dtype == torch.bfloat16 else x.dtype
        super().__init__(
            aggregation, "forward", x.new_empty(aggregation.mirrors.num_rows, x.shape[1], dtype=sums)
        )  # (R, D)
        self.x = x

    def prepare(self) -> None:
        with self.aggregation.part("marginal", "forward"):  # replicated rows, whose partial sums are sent first
            self._sum(self.aggregation.mirrors.num_central, self.aggregation.mirrors.num_rows)

    def independent(self) -> None:
        with self.aggregation.part("central", "forward"):
            self._sum(0, self.aggregation.mirrors.num_central)

    def _sum(self, first: int, last: int) -> None:
        products = self.aggregation.products
        products.spmm(
            self.aggregation.adjacency, products.operand(self.x), rows=(first, last), out=self.rows[first:last]
        )


class SumBackward(Synchronised):
    """Backward step ``dx = A^T S dy``."""

    def __init__(self, aggregation: MirrorAggregation, gradient: Tensor) -> None:
        super().__init__(aggregation, "backward", gradient)
        self.out = torch.empty_like(gradient)  # (R, D)

    def prepare(self) -> None:
        pass

    def independent(self) -> None:
        pass

    def whole(self) -> None:
        products = self.aggregation.products
        with self.aggregation.part("marginal", "backward", self.aggregation.last):
            # dx = A^T (S dy): the transpose needs the totals of all local rows.
            products.spmm(self.aggregation.adjacency, products.operand(self.rows), transposed=True, out=self.out)


class Aggregate(torch.autograd.Function):
    """Compute ``S A x`` by the schedule of the aggregation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, aggregation: MirrorAggregation) -> Tensor:
        ctx.aggregation, layer = aggregation, aggregation.context.layer
        if aggregation.keeps and layer in aggregation.mirrors.totals:  # cloned, so that callers cannot modify the cache
            return aggregation.mirrors.totals[layer].clone()
        step = SumForward(aggregation, x)
        aggregation.schedule.run(step, aggregation.place("forward"))
        if aggregation.keeps:
            aggregation.mirrors.totals[layer] = step.rows.clone()
        return step.rows

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # Cloned because the rounds overwrite it with totals.
        step = SumBackward(ctx.aggregation, gradients[0].clone(memory_format=torch.contiguous_format))
        ctx.aggregation.schedule.run(step, ctx.aggregation.place("backward"))
        return step.out, None
