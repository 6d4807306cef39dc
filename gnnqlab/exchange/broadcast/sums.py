"""Sums over blocks that are broadcast in turn, forward and backward (CAGNET 1-D and 1.5-D).

``y = sum over blocks q of A_q x_q``: each round one owner sends its block to all, who multiply it by their columns of
it and let it go. Gradients take the same rounds over the rows of A's transpose: ``dx = sum over q of (A^T)_q dy_q``. A
whole layer ``Y = A X W`` broadcasts X forward and, backward, dY, of width O: ``dX = (A^T dY) W^T`` and
``dW = X^T (A^T dY)``, so that sums need not be kept. Where blocks stay home, dW is that of the rows here as they are,
not of those that the forward pass used elsewhere.

Letters: N rows here, D columns in, O columns out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnnqlab.compute.saved import save_operands, saved_operands
from gnnqlab.exchange.broadcast.blocks import BlockAggregation
from gnnqlab.exchange.schedules.schedule import PendingRows

__all__ = ["Aggregate", "BlockSum", "Convolve", "RowSum", "summed"]

_TOTALS = 1
"""The round of a :class:`RowSum` in which totals travel."""


class BlockSum:
    """The rounds of one sum.

    Args:
        look: which look at neighbours this is.
        direction: ``forward``, over A, or ``backward``, over its transpose.
        x: what is summed of the own block, ``(N, D)``.
        travels: what is broadcast of it, if that is not x: rows before dropout.
    """

    chained = False

    def __init__(self, look: BlockAggregation, direction: str, x: Tensor, travels: Tensor | None = None) -> None:
        self.look, self.direction, self.x = look, direction, x
        self._travels = x if travels is None else travels
        self._drop = look.context.drop if travels is not None else None
        self._matrices = look.blocks.matrices(look.adjacency, direction)
        self.out = x.new_empty(look.blocks.num_rows, x.shape[1])

    @property
    def rounds(self) -> int:
        return len(self.look.blocks.stages)

    def prepare(self) -> None:
        pass

    def post(self, round: int) -> PendingRows:
        blocks, columns = self.look.blocks, self.x.shape[1]
        block = blocks.buffer(round, columns, self.x.device)
        return self.look.channel(self.direction, round).post(self._travels, block, epoch=self.look.context.epoch)

    def independent(self) -> None:
        blocks, products = self.look.blocks, self.look.products
        with self.look.part("central", self.direction):
            if blocks.shard.row in blocks.stages:
                own = self._matrices[blocks.stages.index(blocks.shard.row)]
                products.spmm(own, products.operand(self.x), out=self.out)
            else:
                self.out.zero_()

    def wait(self, round: int, came: PendingRows) -> None:
        self._block = came.decode()

    def dependent(self, round: int) -> None:
        blocks = self.look.blocks
        if blocks.stages[round] == blocks.shard.row:
            return
        with self.look.part("marginal", self.direction, round):
            if self.direction == "forward" and self.look.context.training and not self.look.keeps:
                if blocks.wires.rounds("forward"):
                    self.look.products.note_requantized(self._block.numel())
            block = self._block if self._drop is None else self._drop.rows(self._block, blocks.ids[round])
            self.look.products.spmm(self._matrices[round], block, out=self.out, accumulate=True)


class RowSum:
    """The two rounds in which those who compute the same block add their parts of its rows up (1.5-D).

    Parts of a node go to its master, totals from it to the others: what an all-reduce moves, ``2 (c - 1) / c`` rows a
    worker.

    Args:
        rows: each worker's part ``(N, D)``, replaced by the totals.
    """

    rounds, chained = 2, True

    def __init__(self, look: BlockAggregation, direction: str, rows: Tensor) -> None:
        self.look, self.direction, self.rows = look, direction, rows

    def prepare(self) -> None:
        pass

    def post(self, round: int) -> PendingRows:
        channel = self.look.channel(self.direction, self.look.blocks.first_row_round + round)
        came = channel.post(self.rows, self.rows, epoch=self.look.context.epoch)
        if round == _TOTALS:
            channel.as_received(self.rows)  # a master's total is what the others decode
        return came

    def independent(self) -> None:
        pass

    def wait(self, round: int, came: PendingRows) -> None:
        self._came = came
        came.wait()

    def dependent(self, round: int) -> None:
        self._came.decode()


def summed(look: BlockAggregation, direction: str, x: Tensor, travels: Tensor | None = None) -> Tensor:
    """Return the sums of all blocks, by the schedule of the look.

    Under replication a worker sums a share of the columns. Forward, parts become totals afterwards. The transpose does
    it the other way round: gradients, of which each worker has a part, are added up first, and what is returned are
    parts, whose sum over the workers of a block is the gradient; those of weights are summed over all workers anyway.
    """
    place, replicated = look.place(direction), bool(look.blocks.rows_plans)
    if replicated and direction == "backward":
        x = x.clone()
        look.schedule.run(RowSum(look, direction, x), place)
    step = BlockSum(look, direction, x, travels)
    look.schedule.run(step, place)
    if replicated and direction == "forward":
        look.schedule.run(RowSum(look, direction, step.out), place)
    return step.out


def _forward(look: BlockAggregation, x: Tensor, before: Tensor | None) -> Tensor:
    """Return ``A x``, which of static rows is found once."""
    layer = look.context.layer
    if look.keeps and layer in look.blocks.sums:
        return look.blocks.sums[layer].clone()
    sums = summed(look, "forward", x, before)
    if look.keeps:
        look.blocks.sums[layer] = sums.clone()
    return sums


class Aggregate(torch.autograd.Function):
    """``A x``, rounds by the schedule of the look."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, before: Tensor | None, look: BlockAggregation) -> Tensor:
        ctx.look = look
        return _forward(look, x, before)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return summed(ctx.look, "backward", gradients[0].contiguous()), None, None


class Convolve(torch.autograd.Function):
    """``A x W + x W_self + b``; see the head of this file."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        before: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        self_weight: Tensor | None,
        look: BlockAggregation,
    ) -> Tensor:
        products, ctx.look = look.products, look
        sums = _forward(look, x, before)
        y = products.addmm(bias, products.operand(sums), products.operand(weight))
        if self_weight is not None:
            y = products.addmm(y, products.operand(x), products.operand(self_weight), out=y)
        of_self = None if self_weight is None else products.operand(self_weight)
        save_operands(ctx, products.operand(x), products.operand(weight), of_self, sums if look.keeps else None)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        look: BlockAggregation = ctx.look
        products, gradient = look.products, gradients[0].contiguous()
        x, weight, self_weight, sums = saved_operands(ctx)
        of_y = products.operand(gradient)
        of_self = None if self_weight is None else products.mm(x, of_y, transposed="a")
        if sums is not None:
            return None, None, products.mm(sums, of_y, transposed="a"), gradient.sum(0), of_self, None
        returned = summed(look, "backward", gradient)
        operand = products.operand(returned)
        of_weight = products.mm(x, operand, transposed="a")
        if not ctx.needs_input_grad[0]:
            return None, None, of_weight, gradient.sum(0), of_self, None
        of_x = products.mm(operand, weight, transposed="b")
        if self_weight is not None:
            of_x = products.addmm(of_x, of_y, self_weight, transposed="b", out=of_x)
        return of_x, None, of_weight, gradient.sum(0), of_self, None
