"""Attention over an edge-cut with the rows of one worker at a time (SAR, Mostafa, MLSys 2022, its case 2).

Letters: N owned, M marginal, H_k halo rows of one owner, E edges, K heads, F features of a head. Forward, the partial
softmax of each owner's rows is merged into that of marginal nodes with a running maximum of the logits, as in
:mod:`gnnqlab.exchange.vertex_cut.attention_parts`; neither rows nor coefficients are saved. Backward, the rows are
fetched again in identical bytes, so that a quantized row is the same both times; coefficients are recomputed from two
numbers per row and head, and each owner's gradients are posted before the next owner's rows are used. Gradients
overwrite the rows they belong to, piece by piece, because a row is not needed after its gradient is computed: a turn
stores one matrix ``(H_k, K F)``, not two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from gnnqlab.compute.products import Operand
from gnnqlab.compute.saved import save_operands, saved_operands
from gnnqlab.exchange.halo.boundary import LayerPlan
from gnnqlab.exchange.halo.peer_schedule import PeerSchedule
from gnnqlab.exchange.schedules.schedule import PendingRows
from gnnqlab.exchange.vertex_cut.attention_parts import attended, finished, merged
from gnnqlab.kernels.sparse.attention import pack_rows, segment_sum
from gnnqlab.message.channels.incoming import PendingReceive

__all__ = ["AttendInTurn"]

PIECES = 8
"""Number of pieces in which a turn's gradients are computed, on every worker; one piece is the extra memory needed."""


class _Forward:
    """Forward step of attention in turns."""

    chained = False

    def __init__(self, layer: LayerPlan, z: Tensor, a_source: Tensor, a_target: Tensor, slope: float) -> None:
        assert layer.adjacency is not None
        self.layer, self.adjacency, self.z, self.slope = layer, layer.adjacency, z, slope
        self.turns, self.rounds = _turns(layer), layer.rounds
        self.a_source = a_source
        self.source, self.target = (z * a_source).sum(-1), (z * a_target).sum(-1)  # (N, K, F) -> (N, K)
        self.out = torch.empty_like(z)

    def prepare(self) -> None:
        pass

    def post(self, round: int) -> PendingReceive:
        return _fetch(self.layer, self.z, round)

    def independent(self) -> None:
        num_central, products = self.layer.boundary.num_central, self.layer.products
        values = products.operand(self.z)
        with self.layer.parts["forward"]("central"):
            _, self.central_stats = products.attend_rows(
                self.adjacency,
                values,
                self.source,
                self.target,
                slope=self.slope,
                rows=(0, num_central),
                out=self.out[:num_central],
            )
        with self.layer.parts["forward"]("marginal"):  # start of the running softmax of marginal rows
            matrix = self.turns.owned(self.adjacency)
            target = self.target[num_central:]  # (M, K)
            self.partial_softmax = attended(matrix, values, self.source, target, slope=self.slope, products=products)

    def wait(self, round: int, pending: PendingRows) -> None:
        rows = self.layer.count_rounded(pending.decode())
        self.halo = rows.view(rows.shape[0], *self.z.shape[1:])  # (H_k, K F) -> (H_k, K, F)

    def dependent(self, round: int) -> None:
        num_central, products = self.layer.boundary.num_central, self.layer.products
        with self.layer.parts["forward"]("marginal"):
            block, target = self.turns.block(self.adjacency, round), self.target[num_central:]
            logits = _logits(self.halo, self.a_source)  # (H_k, K)
            # Sums (M, K, F) and statistics (M, 2, K) over the edges from this owner's rows.
            part = attended(block, self.halo, logits, target, slope=self.slope, products=products)
            self.partial_softmax = merged(self.partial_softmax, part)
            del self.halo  # frees its memory for the next round
            # The softmax of marginal rows is complete only after the rows of the last owner.
            if round + 1 == self.rounds:
                self.out[num_central:], stats = finished(self.partial_softmax)
                self.stats = torch.cat((self.central_stats, stats))  # (N, 2, K)
                del self.partial_softmax


class _Backward:
    chained = False

    def __init__(self, layer: LayerPlan, slope: float, operands: tuple[Operand, ...], gradient: Tensor) -> None:
        assert layer.adjacency is not None
        self.layer, self.adjacency, self.slope = layer, layer.adjacency, slope
        self.turns, self.rounds = _turns(layer), layer.rounds
        self.z, self.values, self.a_source, self.a_target, self.source, target, out, stats = operands
        products = layer.products
        self.gradient = products.operand(gradient)
        self.packed = pack_rows(target, stats, products.dense(self.gradient), out)  # (N, 4, K)
        self.edge_gradients = out.new_empty(layer.adjacency.num_edges, self.source.shape[1])  # (E, K), all turns
        self.out = torch.empty_like(gradient)
        self._pending_gradients: deque[PendingReceive] = deque()

    def prepare(self) -> None:
        pass

    def post(self, round: int) -> PendingReceive:
        return _fetch(self.layer, self.z, round)

    def independent(self) -> None:
        with self.layer.parts["backward"]("central"):
            d_z, d_source = self._columns(self.values, self.source, (0, self.layer.boundary.num_owned))
            self.d_a_source = (d_source.unsqueeze(-1) * self.z).sum(0)
            torch.add(d_z, d_source.unsqueeze(-1) * self.a_source, out=self.out)

    def wait(self, round: int, pending: PendingRows) -> None:
        rows = pending.decode()
        self.halo = rows.view(rows.shape[0], *self.z.shape[1:])  # (H_k, K F) -> (H_k, K, F)

    def dependent(self, round: int) -> None:
        layer, turn, first = self.layer, self.turns[round], self.layer.boundary.num_owned
        with layer.parts["backward"]("marginal"):
            # Piece by piece, so that only one piece of the gradients exists next to the rows.
            for begin, stop in _pieces(turn.num_rows):
                self._overwrite_with_gradients(self.halo[begin:stop], first + turn.first + begin)
        # In a local name, so that the matrix is freed as soon as it is encoded.
        halo_gradient = self.halo
        del self.halo
        plan, channel = turn.plans["backward"], layer.boundary.channel(layer.context, "backward")
        size, is_last_turn = self.out.flatten(1).shape, round + 1 == self.rounds
        max_turns = layer.schedule.depth
        # Earlier messages had this turn's products to overlap with: receive them first, to free their buffers.
        self._add_received(max_turns - 1)
        self._pending_gradients.append(
            channel.post(halo_gradient.flatten(1), size, epoch=layer.context.epoch, plan=plan)
        )
        del halo_gradient  # the message is an encoded copy
        self._add_received(0 if is_last_turn else max_turns)
        if is_last_turn:
            self._through_targets()

    def _add_received(self, max_turns: int) -> None:
        """Add received gradients to the output until at most ``max_turns`` turns are in flight."""
        while len(self._pending_gradients) > max(max_turns, 0):
            self._pending_gradients.popleft().decode(self.out.flatten(1))

    def _overwrite_with_gradients(self, rows: Tensor, column: int) -> None:
        """Overwrite halo rows with their gradients; the first row belongs to ``column`` of the matrix."""
        logits = (rows * self.a_source).sum(-1)  # recomputed from the fetched rows, (n, K)
        gradient, d_source = self._columns(rows, logits, (column, column + rows.shape[0]))
        self.layer.boundary.report_buffer(gradient)
        self.d_a_source += (d_source.unsqueeze(-1) * rows).sum(0)
        # ``rows`` is a view of the halo matrix, and its values are not needed any more.
        torch.add(gradient, d_source.unsqueeze(-1) * self.a_source, out=rows)

    def _through_targets(self) -> None:
        """Add the gradients through target logits, which need the edge gradients of all turns."""
        with self.layer.parts["backward"]("marginal"):
            d_target = segment_sum(self.adjacency, self.edge_gradients)  # (E, K) -> (N, K)
            self.d_a_target = (d_target.unsqueeze(-1) * self.z).sum(0)  # (N, K, F) -> (K, F)
            self.out += d_target.unsqueeze(-1) * self.a_target

    def _columns(self, values: Operand, logits: Tensor, columns: tuple[int, int]) -> tuple[Tensor, Tensor]:
        return self.layer.products.attend_columns(
            self.adjacency,
            values,
            logits,
            self.packed,
            self.gradient,
            self.edge_gradients,
            columns=columns,
            slope=self.slope,
        )


def _pieces(num_rows: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each piece of a turn's rows: equally many pieces on every worker, possibly empty."""
    for k in range(PIECES):
        yield num_rows * k // PIECES, num_rows * (k + 1) // PIECES


def _logits(rows: Tensor, vector: Tensor) -> Tensor:
    """Return the logit halves ``<vector, row>``, ``(H_k, K)``, computed in pieces to limit temporary memory."""
    out = rows.new_empty(rows.shape[:2])  # (H_k, K)
    for begin, stop in _pieces(rows.shape[0]):
        torch.sum(rows[begin:stop] * vector, -1, out=out[begin:stop])
    return out


def _turns(layer: LayerPlan) -> PeerSchedule:
    assert layer.turns is not None, "attention in turns needs a plan with turns"
    return layer.turns


def _fetch(layer: LayerPlan, z: Tensor, round: int) -> PendingReceive:
    """Post the exchange of a turn's rows; forward and backward of one epoch send identical bytes."""
    turn, rows = _turns(layer)[round], z.flatten(1)  # (N, K F)
    halo, channel = layer.boundary.turn_buffer(turn, rows), layer.boundary.channel(layer.context, "forward")
    return channel.post(rows, halo, epoch=layer.context.epoch, plan=turn.plans["forward"])


class AttendInTurn(torch.autograd.Function):
    """Compute attention with the rows of one worker at a time; see the module docstring."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, a_source: Tensor, a_target: Tensor, layer: LayerPlan, slope: float) -> Tensor:
        step = _Forward(layer, z.contiguous(), a_source, a_target, slope)
        layer.schedule.run(step, layer.places["forward"])
        ctx.layer, ctx.slope = layer, slope
        save_operands(
            ctx,
            step.z,
            layer.products.operand(step.z),
            a_source,
            a_target,
            step.source,
            step.target,
            step.out,
            step.stats,
        )
        return step.out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        step = _Backward(ctx.layer, ctx.slope, saved_operands(ctx), gradients[0].contiguous())
        ctx.layer.schedule.run(step, ctx.layer.places["backward"])
        return step.out, step.d_a_source, step.d_a_target, None, None
