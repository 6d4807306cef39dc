"""Sums over blocks that are broadcast in turn, forward and backward (CAGNET 1-D and 1.5-D).

``y = sum over blocks q of A_q x_q``: in each round one owner sends its block to all, which multiply it by their columns
of A and free it. Gradients use the same rounds over the rows of A's transpose: ``dx = sum over q of (A^T)_q dy_q``. A
whole layer ``Y = A X W`` broadcasts X forward and dY, with O columns, backward: ``dX = (A^T dY) W^T`` and
``dW = X^T (A^T dY)``, so that sums need not be saved. If blocks are skipped, dW is computed from the current local
rows, not from the stale copies that other workers used in the forward pass.

Letters: N local rows, D columns in, O columns out.
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
"""Round of a :class:`RowSum` in which totals are sent."""


class BlockSum:
    """Step that aggregates one block per round.

    Args:
        aggregation: arguments of the aggregation.
        direction: ``forward``, with A, or ``backward``, with its transpose.
        x: rows of the own block to aggregate, ``(N, D)``.
        rows_to_send: rows to broadcast if they differ from x: rows before dropout.
    """

    chained = False

    def __init__(
        self, aggregation: BlockAggregation, direction: str, x: Tensor, rows_to_send: Tensor | None = None
    ) -> None:
        self.aggregation, self.direction, self.x = aggregation, direction, x
        self._rows_to_send = x if rows_to_send is None else rows_to_send
        # Rows sent without dropout may be reused in later epochs, each of which applies its own mask.
        self._drop = aggregation.context.drop if rows_to_send is not None else None
        self._matrices = aggregation.blocks.matrices(aggregation.adjacency, direction)
        self.out = x.new_empty(aggregation.blocks.num_rows, x.shape[1])  # (N, D)

    @property
    def rounds(self) -> int:
        return len(self.aggregation.blocks.stages)

    def prepare(self) -> None:
        pass

    def post(self, round: int) -> PendingRows:
        blocks, columns = self.aggregation.blocks, self.x.shape[1]
        block = blocks.buffer(round, columns, self.x.device)  # (n, D)
        return self.aggregation.channel(self.direction, round).post(
            self._rows_to_send, block, epoch=self.aggregation.context.epoch
        )

    def independent(self) -> None:
        blocks, products = self.aggregation.blocks, self.aggregation.products
        with self.aggregation.part("central", self.direction):
            if blocks.shard.row in blocks.stages:
                own_block = self._matrices[blocks.stages.index(blocks.shard.row)]
                # The own block overwrites ``out``; the others are added to it, round by round.
                products.spmm(own_block, products.operand(self.x), out=self.out)
            else:
                self.out.zero_()  # with replication the own block may be outside this worker's share of columns

    def wait(self, round: int, pending: PendingRows) -> None:
        self._block = pending.decode()

    def dependent(self, round: int) -> None:
        blocks = self.aggregation.blocks
        if blocks.stages[round] == blocks.shard.row:
            return
        with self.aggregation.part("marginal", self.direction, round):
            if self.direction == "forward" and self.aggregation.context.training and not self.aggregation.keeps:
                if blocks.wires.rounds("forward"):  # report rows that the codec rounded
                    self.aggregation.products.note_requantized(self._block.numel())
            block = self._block if self._drop is None else self._drop.rows(self._block, blocks.ids[round])
            # y += A_q x_q
            self.aggregation.products.spmm(self._matrices[round], block, out=self.out, accumulate=True)


class RowSum:
    """Two rounds in which the workers with the same block add their partial sums of its rows (1.5-D).

    Partial sums of a node are sent to its master, totals from it to the others: the volume of an all-reduce,
    ``2 (c - 1) / c`` times N rows per worker.

    Args:
        rows: this worker's partial sums ``(N, D)``, overwritten with the totals.
    """

    rounds, chained = 2, True

    def __init__(self, aggregation: BlockAggregation, direction: str, rows: Tensor) -> None:
        self.aggregation, self.direction, self.rows = aggregation, direction, rows

    def prepare(self) -> None:
        pass

    def post(self, round: int) -> PendingRows:
        channel = self.aggregation.channel(self.direction, self.aggregation.blocks.first_row_round + round)
        # In place: partial sums are added to, and totals overwrite, the rows of this worker.
        pending_rows = channel.post(self.rows, self.rows, epoch=self.aggregation.context.epoch)
        if round == _TOTALS:
            channel.as_received(self.rows)  # the master uses the decoded total too, so that all are identical
        return pending_rows

    def independent(self) -> None:
        pass

    def wait(self, round: int, pending: PendingRows) -> None:
        self._pending = pending
        pending.wait()

    def dependent(self, round: int) -> None:
        self._pending.decode()


def summed(aggregation: BlockAggregation, direction: str, x: Tensor, rows_to_send: Tensor | None = None) -> Tensor:
    """Compute the sums over all blocks, by the schedule of the aggregation.

    With replication a worker aggregates a share of the columns. Forward, partial sums are then added to totals. The
    transpose reverses the order: partial gradients are added first, and the results are partial again; their sum over
    the workers of a block is the gradient. Weight gradients are all-reduced over all workers anyway.
    """
    place, is_replicated = aggregation.place(direction), bool(aggregation.blocks.rows_plans)
    if is_replicated and direction == "backward":
        # The rounds overwrite their rows, and this gradient belongs to autograd.
        x = x.clone()
        aggregation.schedule.run(RowSum(aggregation, direction, x), place)
    step = BlockSum(aggregation, direction, x, rows_to_send)
    aggregation.schedule.run(step, place)
    if is_replicated and direction == "forward":
        aggregation.schedule.run(RowSum(aggregation, direction, step.out), place)
    return step.out


def _forward(aggregation: BlockAggregation, x: Tensor, rows_to_send: Tensor | None) -> Tensor:
    """Return ``A x``; sums of static rows are cached."""
    layer = aggregation.context.layer
    if aggregation.keeps and layer in aggregation.blocks.sums:
        # Cloned, because the caller may modify its result in place.
        return aggregation.blocks.sums[layer].clone()
    sums = summed(aggregation, "forward", x, rows_to_send)
    if aggregation.keeps:
        aggregation.blocks.sums[layer] = sums.clone()
    return sums


class Aggregate(torch.autograd.Function):
    """Compute ``A x`` by the schedule of the aggregation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, before: Tensor | None, aggregation: BlockAggregation) -> Tensor:
        ctx.aggregation = aggregation
        return _forward(aggregation, x, before)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return summed(ctx.aggregation, "backward", gradients[0].contiguous()), None, None


class Convolve(torch.autograd.Function):
    """Compute ``A x W + x W_self + b``; see the module docstring."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        before: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        self_weight: Tensor | None,
        aggregation: BlockAggregation,
    ) -> Tensor:
        products, ctx.aggregation = aggregation.products, aggregation
        sums = _forward(aggregation, x, before)  # (N, D)
        y = products.addmm(bias, products.operand(sums), products.operand(weight))  # (N, D) -> (N, O)
        if self_weight is not None:
            y = products.addmm(y, products.operand(x), products.operand(self_weight), out=y)
        self_operand = None if self_weight is None else products.operand(self_weight)
        # Sums are not saved: dW = X^T (A^T dY) needs only this worker's rows.
        save_operands(
            ctx, products.operand(x), products.operand(weight), self_operand, sums if aggregation.keeps else None
        )
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        aggregation: BlockAggregation = ctx.aggregation
        products, gradient = aggregation.products, gradients[0].contiguous()
        x, weight, self_weight, sums = saved_operands(ctx)
        y_gradient = products.operand(gradient)
        self_gradient = None if self_weight is None else products.mm(x, y_gradient, transposed="a")
        if sums is not None:  # static input: its cached sums give dW without an exchange, and it needs no gradient
            return None, None, products.mm(sums, y_gradient, transposed="a"), gradient.sum(0), self_gradient, None
        returned_gradient = summed(aggregation, "backward", gradient)  # A^T dY, (N, O)
        operand = products.operand(returned_gradient)
        weight_gradient = products.mm(x, operand, transposed="a")  # X^T (A^T dY), (D, O)
        if not ctx.needs_input_grad[0]:
            return None, None, weight_gradient, gradient.sum(0), self_gradient, None
        x_gradient = products.mm(operand, weight, transposed="b")  # (A^T dY) W^T, (N, O) -> (N, D)
        if self_weight is not None:
            x_gradient = products.addmm(x_gradient, y_gradient, self_weight, transposed="b", out=x_gradient)
        return x_gradient, None, weight_gradient, gradient.sum(0), self_gradient, None
