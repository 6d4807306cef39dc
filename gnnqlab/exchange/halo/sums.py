"""Weighted sums over an edge-cut as the five operations of a step, forward and backward.

Letters: N owned, C central, M marginal, H halo, H_k halo of owner k, K sampled, D features. For ``y = A [x; halo]``
with rows of A split central | marginal, central rows need no halo; in the backward pass the gradients of halo rows,
``(A^T dy)[N:]``, are sent to their owners and added to ``(A^T dy)[:N]``. Both are also sums over the owners of halo
rows, so they can run one owner at a time: ``y = A_own x + sum over k of A_k halo_k``, where rows and gradients are
stored for one round only.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnnqlab.compute.products import Operand
from gnnqlab.compute.recompute import RecomputeContext
from gnnqlab.exchange.halo.boundary import LayerPlan
from gnnqlab.exchange.halo.peer_schedule import PeerTurn
from gnnqlab.exchange.schedules.schedule import PendingRows
from gnnqlab.kernels.sparse.codec_sum import CodedRows, reads_codes_faster
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.incoming import PendingReceive

__all__ = ["Aggregate", "SumBackward", "SumForward"]

_HALO_GRADIENTS, _EXACT = 2, 3
"""Indices of halo buffers next to 0 and 1, which hold the rows of two successive epochs; `_EXACT` is evaluation's."""


class SumForward:
    """Forward step ``y = A [x; halo]``; with a sampler only sampled halo rows and columns of A, weights times 1/p.

    Args:
        layer: plan of this aggregation.
        x: owned rows to aggregate, ``(N, D)``.
        before: rows to send if they differ from x: rows before dropout.
    """

    chained = False

    def __init__(self, layer: LayerPlan, x: Tensor, before: Tensor | None = None) -> None:
        assert layer.adjacency is not None
        self.layer, self.x, self.adjacency = layer, x, layer.adjacency
        self.rounds = layer.rounds
        self._rows_to_send = x if before is None else before
        sums = torch.float32 if x.dtype == torch.bfloat16 else x.dtype  # accumulate bfloat16 rows in float32
        self.out = x.new_empty(layer.boundary.num_owned, x.shape[1], dtype=sums)  # (N, D)
        self.sampled_in: int | None = None
        """Epoch in which the halo rows in use were sampled."""
        self._coded: PendingReceive | None = None
        """Received rows, if they are summed as codes and not decoded first."""

    def prepare(self) -> None:
        pass

    def post(self, round: int) -> PendingRows:
        layer, context, sample = self.layer, self.layer.context, self.layer.sample
        if layer.sent_once:
            return CachedRows(layer.boundary.halo_sent_once(context.layer, self._rows_to_send, context.epoch))
        channel = layer.boundary.channel(context, "forward")
        if layer.turns is not None:
            turn = layer.turns[round]
            halo = layer.boundary.turn_buffer(turn, self.x)  # (H_k, D)
            return channel.post(self._rows_to_send, halo, epoch=context.epoch, plan=turn.plans["forward"])
        if self._sums_codes(channel):
            size = torch.Size((layer.boundary.num_halo, self.x.shape[1]))
            self._coded = channel.post(self._rows_to_send, size, epoch=context.epoch)
            return self._coded
        # Two buffers alternate: with stale rows, those of the last epoch are used while new ones are received.
        buffer = context.epoch % 2 if context.training else _EXACT
        halo, plan = layer.boundary.halo_buffer(context.layer, self.x, buffer, sample), layer.plan("forward", sample)
        return channel.post(self._rows_to_send, halo, epoch=context.epoch, plan=plan, sampled_in=sample)

    def independent(self) -> None:
        layer, boundary, products = self.layer, self.layer.boundary, self.layer.products
        num_central = boundary.num_central
        # Central rows are complete here; with a sampler or turns, marginal rows get their owned neighbours here too.
        with layer.parts["forward"]("central"):
            products.spmm(self.adjacency, products.operand(self.x), rows=(0, num_central), out=self.out[:num_central])
        if layer.sample is not None:
            with layer.parts["forward"]("marginal"):
                owned_columns = boundary.sampling.owned_columns(self.adjacency)  # (M, N)
                products.spmm(owned_columns, products.operand(self.x), out=self.out[num_central:])
                # Build the sampled matrix during the transfer.
                boundary.sampling.sampled_columns(self.adjacency, layer.sample)
        elif layer.turns is not None:
            with layer.parts["forward"]("marginal"):
                owned_columns = layer.turns.owned(self.adjacency)  # (M, N)
                products.spmm(owned_columns, products.operand(self.x), out=self.out[num_central:])

    def _sums_codes(self, channel: Channel) -> bool:
        """Return True if marginal rows should be summed from received codes."""
        layer, boundary, context = self.layer, self.layer.boundary, self.layer.context
        # A pipeline waits for other rows than those of its last post, and dropout applies to decoded rows.
        is_possible = boundary.still and context.training and context.drop is None and layer.sample is None
        rows = (boundary.num_central, boundary.num_owned)
        reads_codes = is_possible and channel.reads_in_place and layer.products.reads_codes
        return reads_codes and reads_codes_faster(self.adjacency, rows, self.x)

    def wait(self, round: int, pending: PendingRows) -> None:
        codes = None if self._coded is None else self._coded.codes()
        self.halo: Tensor | CodedRows
        if codes is not None:
            self.layer.boundary.report_buffer(codes.table)
            self.halo = codes
            return
        rows = pending.decode()
        if self.layer.products.quantized is not None:
            self.layer.count_rounded(rows)
        self.halo, self.sampled_in = rows, pending.sampled_in

    def dependent(self, round: int) -> None:
        boundary, products = self.layer.boundary, self.layer.products
        if self.layer.turns is not None:
            with self.layer.parts["forward"]("marginal"):
                block = self.layer.turns.block(self.adjacency, round)  # (M, H_k)
                products.spmm(block, self.halo, out=self.out[boundary.num_central :], accumulate=True)
            del self.halo  # frees its memory for the next round
            return
        rows, out = (boundary.num_central, boundary.num_owned), self.out[boundary.num_central :]
        with self.layer.parts["forward"]("marginal"):
            halo: Operand = self.halo
            if self.layer.context.drop is not None:
                # Rows were sent before dropout; this worker applies the mask of this epoch, the same as the owner's.
                halo = self.layer.dropped(halo, self.sampled_in)
            if self.sampled_in is None:
                x = products.operand(self.x)
                # With the scales of the owned rows: one product sums over both.
                halo = products.halo(halo, x, boundary.halo_ids(None))
                products.spmm(self.adjacency, x, halo, rows=rows, out=out)
                if self._coded is not None:
                    self._coded.release()
            else:
                sampled_matrix = boundary.sampling.sampled_columns(self.adjacency, self.sampled_in)  # (M, K)
                products.spmm(sampled_matrix, halo, out=out, accumulate=True)

    def register_recompute(self, remakes: RecomputeContext) -> None:
        """Register how to recompute the sums, if they include no remote rows."""
        if self.layer.boundary.num_halo == 0:
            remakes.register_sum(self.out, partial(self.layer.products.spmm, self.adjacency), self.x)


class SumBackward:
    """Backward step: ``dx = (A^T dy)[:N] + gradients that other workers computed for these rows``.

    If the received gradients already include the dropout mask, they are returned separately as ``home``, the gradient
    of the rows before dropout.
    """

    chained = False

    def __init__(self, layer: LayerPlan, gradient: Tensor, sampled_in: int | None) -> None:
        assert layer.adjacency is not None
        self.layer, self.gradient, self.sampled_in = layer, gradient, sampled_in
        self.rounds = layer.rounds
        self.adjacency = layer.adjacency
        self.out = gradient.new_empty(layer.boundary.num_owned, gradient.shape[1])  # (N, D)
        self.home: Tensor | None = None

    def prepare(self) -> None:
        layer, boundary, products = self.layer, self.layer.boundary, self.layer.products
        if layer.turns is not None:
            return
        # Gradients of halo rows come first, so that they are in flight while those of owned rows are computed.
        self.halo_gradient = boundary.halo_buffer(layer.context.layer, self.gradient, _HALO_GRADIENTS, self.sampled_in)
        with layer.parts["backward"]("marginal"):
            if self.sampled_in is None:
                rows = (boundary.num_owned, boundary.num_owned + boundary.num_halo)  # (A^T dy)[N:], (H, D)
                products.spmm(self.adjacency, self._operand(), rows=rows, transposed=True, out=self.halo_gradient)
            else:
                sampled_matrix = boundary.sampling.sampled_columns(self.adjacency, self.sampled_in)  # (M, K)
                # Only marginal rows have edges from halo nodes: (N, D) -> (M, D).
                marginal_rows = products.part(self._operand(), (boundary.num_central, boundary.num_owned))
                products.spmm(sampled_matrix, marginal_rows, transposed=True, out=self.halo_gradient)
            if layer.drops_gradients:  # the owner uses the gradient one epoch later, with another mask
                self.halo_gradient = layer.dropped(self.halo_gradient, self.sampled_in)

    def post(self, round: int) -> PendingReceive:
        layer, context = self.layer, self.layer.context
        plan, channel = layer.plan("backward", self.sampled_in), layer.boundary.channel(context, "backward")
        if layer.turns is not None:
            turn = layer.turns[round]
            gradient = self._gradient_of(turn)
            return channel.post(gradient, self.out.shape, epoch=context.epoch, plan=turn.plans["backward"])
        options: dict[str, Any] = {"plan": plan, "sampled_in": self.sampled_in, "still": layer.boundary.still}
        return channel.post(self.halo_gradient, self.out.shape, epoch=context.epoch, **options)

    def independent(self) -> None:
        with self.layer.parts["backward"]("central"):
            rows = (0, self.layer.boundary.num_owned)  # (A^T dy)[:N], (N, D)
            self.layer.products.spmm(self.adjacency, self._operand(), rows=rows, transposed=True, out=self.out)

    def wait(self, round: int, pending: PendingRows) -> None:
        pending.wait()
        self.pending = pending

    def dependent(self, round: int) -> None:
        if self.layer.drops_gradients:
            # Not into ``out``: autograd applies this epoch's mask to ``out``, and these gradients have a mask already.
            self.home = self.pending.decode(torch.zeros_like(self.out))
        else:
            self.pending.decode(self.out)
        del self.pending  # frees its buffers

    def _gradient_of(self, turn: PeerTurn) -> Tensor:
        """Return the gradients of the halo rows of a turn, ``(H_k, D)``."""
        boundary, products = self.layer.boundary, self.layer.products
        out, first = boundary.turn_buffer(turn, self.gradient), boundary.num_owned
        with self.layer.parts["backward"]("marginal"):
            rows = (first + turn.first, first + turn.stop)
            return products.spmm(self.adjacency, self._operand(), rows=rows, transposed=True, out=out)

    def _operand(self) -> Operand:
        return self.layer.products.operand(self.gradient)


class CachedRows:
    """Static halo rows that were received once in the whole run."""

    sampled_in = None

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows

    def wait(self) -> None:
        pass

    def decode(self, out: Tensor | None = None) -> Tensor:
        return self._rows

    def to_store(self) -> None:
        return None


class Aggregate(torch.autograd.Function):
    """Compute ``A [x; halo(x)]`` by the schedule of the plan."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, before: Tensor | None, layer: LayerPlan) -> Tensor:
        step = SumForward(layer, x, before)
        layer.schedule.run(step, layer.places["forward"])
        ctx.layer, ctx.sampled_in = layer, step.sampled_in
        if layer.context.remakes is not None:
            step.register_recompute(layer.context.remakes)
        return step.out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        step = SumBackward(ctx.layer, gradients[0].contiguous(), ctx.sampled_in)
        ctx.layer.schedule.run(step, ctx.layer.places["backward"])
        return step.out, step.home, None
