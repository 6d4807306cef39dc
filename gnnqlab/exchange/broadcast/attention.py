"""Attention over blocks that are broadcast in turn (GAT).

Forward, blocks are received round by round and concatenated until all terms of a softmax are present; they are saved
for backward. Gradients of the rows of a block are sent to its owner, which adds them: an outer product, as in CAGNET
without rows of the transpose, because the gradient of an edge depends on both of its ends.

Letters: N local rows, K heads, F features of a head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnnqlab.compute.saved import save_operands, saved_operands
from gnnqlab.exchange.broadcast.blocks import BlockAggregation
from gnnqlab.exchange.halo.attention import AttendBackward, AttendForward
from gnnqlab.exchange.halo.boundary import LayerPlan
from gnnqlab.exchange.schedules.schedule import PendingRows

__all__ = ["Attend"]


class _Forward(AttendForward):
    """Forward step: collect all blocks in the halo, then attend as under an edge-cut."""

    def __init__(
        self,
        aggregation: BlockAggregation,
        layer: LayerPlan,
        z: Tensor,
        a_source: Tensor,
        a_target: Tensor,
        slope: float,
    ) -> None:
        super().__init__(layer, z, a_source, a_target, slope)
        self._aggregation = aggregation
        # A whole halo, unlike for sums: a softmax and its backward pass need the rows of all blocks at once.
        self.halo = layer.boundary.report_buffer(z.new_empty(layer.boundary.num_halo, *z.shape[1:]))  # (H, K, F)

    @property
    def rounds(self) -> int:  # type: ignore[override]
        return len(self._aggregation.blocks.stages)

    def post(self, round: int) -> PendingRows:  # type: ignore[override]
        z = self.z.flatten(1)  # (N, K, F) -> (N, K F)
        block = self._aggregation.blocks.buffer(round, z.shape[1], z.device)
        return self._aggregation.channel("forward", round).post(z, block, epoch=self._aggregation.context.epoch)

    def wait(self, round: int, pending: PendingRows) -> None:
        self._block = pending.decode()

    def dependent(self, round: int) -> None:
        shard, block = self._aggregation.blocks.shard, self._aggregation.blocks.stages[round]
        if block != shard.row:
            # Halo columns follow the own block's columns, in the order of blocks, not of rounds.
            first, last = (end - shard.block.numel() for end in shard.columns_of(block))
            # Copied, because the receive buffer of the block is used again two rounds later.
            self.halo[first:last] = self.layer.count_rounded(self._block).view(-1, *self.halo.shape[1:])
        if round + 1 == self.rounds:  # a softmax needs all blocks
            super().dependent(round)


class Attend(torch.autograd.Function):
    """Compute attention by the schedule of the aggregation; see the module docstring."""

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        a_source: Tensor,
        a_target: Tensor,
        aggregation: BlockAggregation,
        layer: LayerPlan,
        slope: float,
    ) -> Tensor:
        step = _Forward(aggregation, layer, z.contiguous(), a_source, a_target, slope)
        layer.schedule.run(step, layer.places["forward"])
        ctx.layer, ctx.slope = layer, slope
        z, halo = layer.products.operand(step.z), layer.products.operand(step.halo)
        operands = (step.source, step.target, halo, step.halo_source, step.out, torch.cat(step.stats))
        save_operands(ctx, z, a_source, a_target, *operands)
        return step.out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        # One exchange of gradients by row, not one per block: each worker has the gradients of all halo rows.
        step = AttendBackward(ctx.layer, ctx.slope, saved_operands(ctx), gradients[0].contiguous(), None)
        ctx.layer.schedule.run(step, ctx.layer.places["backward"])
        return step.out, step.d_a_source, step.d_a_target, None, None, None
