"""Attention over a vertex-cut (GAT): a softmax whose terms are distributed over several workers.

Copy r of a node computes, from its own edges, the largest logit m_r, the denominator ``d_r = sum exp(e - m_r)`` and the
numerator ``n_r = sum exp(e - m_r) z``. It sends ``n_r / d_r`` and ``l_r = m_r + log d_r``, equivalent but with fewer
columns. Its master computes ``l = log sum_r exp(l_r)`` and ``out = sum_r exp(l_r - l) n_r / d_r``, and sends both to
all copies (with hierarchical aggregation a representative first joins those of its host in the same way). With l, each
copy recomputes the attention of its own edges, ``a = exp(e - l)``; this is all that the backward pass needs once the
gradients of ``out`` have been added like those of sums.

Letters: R rows (masters, then mirrors), B rows received by masters, E local edges, K heads, F features of a head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnnqlab.compute.gradients import rounded
from gnnqlab.compute.products import Operand
from gnnqlab.compute.saved import save_operands, saved_operands
from gnnqlab.exchange.schedules.schedule import PendingRows
from gnnqlab.exchange.vertex_cut.mirrors import MirrorAggregation
from gnnqlab.exchange.vertex_cut.sums import Synchronised
from gnnqlab.kernels.sparse.attention import pack_rows, segment_sum
from gnnqlab.partition.host_aggregation import Leg

__all__ = ["Attend", "joined"]


def joined(
    out: Tensor, logs: Tensor, filled: Tensor, parts: Tensor, part_logs: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """Join softmax-weighted sums over disjoint sets of terms.

    Args:
        out: sums over local terms ``(R, K, F)``.
        logs: logarithms of their denominators ``(R, K)``.
        filled: mask of the rows with local terms, bool ``(R,)``.
        parts, part_logs: sums and logarithms of remote terms, ``(B, K, F)`` and ``(B, K)``.
        rows: row that each part belongs to, int64 ``(B,)``.

    Returns:
        The sums ``(R, K, F)`` and the logarithms of the denominators ``(R, K)``; zeros for rows without terms.

    Example:
        >>> one, nothing = torch.ones(1, 1, 1), torch.zeros(1, 1)
        >>> total, log = joined(one, nothing, torch.tensor([True]), 4 * one, nothing + 2.0 ** 0.5, torch.tensor([0]))
        >>> round(total.item(), 3), round(log.item(), 3)
        (3.413, 1.632)
    """
    own_log = torch.where(filled[:, None], logs, -torch.inf)  # (R, K); a weight of exp(-inf) = 0 for rows without terms
    # Subtract the maximum before exponentials, so that they cannot overflow; 0 for rows without terms, not -inf.
    max_logs = own_log.scatter_reduce(0, rows[:, None].expand_as(part_logs), part_logs, "amax")  # (R, K)
    max_logs = torch.where(max_logs.isfinite(), max_logs, 0.0)
    weight, part_weight = (own_log - max_logs).exp(), (part_logs - max_logs[rows]).exp()  # (R, K), (B, K)
    total = weight.index_add(0, rows, part_weight)  # (R, K) sum_r exp(l_r - max)
    sums = (out * weight.unsqueeze(-1)).index_add(0, rows, parts * part_weight.unsqueeze(-1))
    has_terms = total > 0
    # Divide by 1 where there are no terms: sums are 0 there, and 0 / 0 would be NaN.
    denominator = torch.where(has_terms, total, 1.0)
    return sums / denominator.unsqueeze(-1), torch.where(has_terms, max_logs + denominator.log(), 0.0)


class _Forward(Synchronised):
    """Forward step; its rows hold sums and logarithms of denominators side by side, ``(R, K F + K)``."""

    def __init__(
        self, aggregation: MirrorAggregation, z: Tensor, a_source: Tensor, a_target: Tensor, slope: float
    ) -> None:
        heads, features = z.shape[1:]
        self.wide = heads * features
        super().__init__(aggregation, "forward", z.new_empty(z.shape[0], self.wide + heads))
        self.z, self.slope = z, slope
        halves = ((z * vector).sum(-1) for vector in (a_source, a_target))  # (R, K, F) -> (R, K)
        self.source, self.target = (rounded(aggregation.products, each) for each in halves)
        self.filled = aggregation.adjacency.indptr.diff() > 0  # (R,) bool

    @property
    def out(self) -> Tensor:
        return self.rows[:, : self.wide].unflatten(1, self.z.shape[1:])

    @property
    def logs(self) -> Tensor:
        return self.rows[:, self.wide :]

    def prepare(self) -> None:
        with self.aggregation.part("marginal", "forward"):
            # Replicated rows first, because their parts are sent to masters.
            self._attend(self.aggregation.mirrors.num_central, self.aggregation.mirrors.num_rows)

    def independent(self) -> None:
        with self.aggregation.part("central", "forward"):
            self._attend(0, self.aggregation.mirrors.num_central)

    def post(self, round: int) -> PendingRows:
        leg = self.aggregation.mirrors.legs[round]
        if not leg.gathers:
            return super().post(round)
        assert leg.joins is not None and leg.side_by_side is not None
        # Received parts must not be added, as sums would be: each is weighted by its own denominator.
        place = self.aggregation.place(self.direction, round)
        channel = self.aggregation.mirrors.channel(place, leg.side_by_side, exact=not self.aggregation.context.training)
        self.parts = self.rows.new_empty(leg.joins.numel(), self.rows.shape[1])  # (B, K F + K)
        return channel.post(self.rows, self.parts, epoch=self.aggregation.context.epoch)

    def dependent(self, round: int) -> None:
        super().dependent(round)
        leg = self.aggregation.mirrors.legs[round]
        if leg.gathers:
            with self.aggregation.part("marginal", "forward", round):
                self._join(leg)

    def _attend(self, first: int, last: int) -> None:
        products, rows = self.aggregation.products, slice(first, last)
        out, stats = products.attend_rows(
            self.aggregation.adjacency,
            products.operand(self.z),
            self.source,
            self.target,
            slope=self.slope,
            rows=(first, last),
        )
        has_terms = self.filled[rows, None]
        self.rows[rows, : self.wide] = out.flatten(1)
        # l = m + log d; ``stats`` holds the reciprocal 1/d.
        self.rows[rows, self.wide :] = torch.where(has_terms, stats[:, 0] - stats[:, 1].log(), 0.0)

    def _join(self, leg: Leg) -> None:
        assert leg.joins is not None and leg.summed is not None
        # Senders without an edge of the node sent no terms, so their parts are left out.
        parts, rows = self.parts[leg.summed], leg.joins[leg.summed]
        values = parts[:, : self.wide].unflatten(1, self.z.shape[1:])  # (B, K F) -> (B, K, F)
        out, logs = joined(self.out, self.logs, self.filled, values, parts[:, self.wide :], rows)
        self.rows[:, : self.wide], self.rows[:, self.wide :] = out.flatten(1), logs
        self.filled[rows] = True  # later legs send the joined terms on


class _Backward(Synchronised):
    """Backward step: add the gradients of all copies, then differentiate the attention of local edges."""

    def __init__(
        self, aggregation: MirrorAggregation, slope: float, operands: tuple[Operand, ...], gradient: Tensor
    ) -> None:
        # Cloned, because the rounds overwrite it with totals.
        super().__init__(aggregation, "backward", gradient.flatten(1).clone(memory_format=torch.contiguous_format))
        self.slope = slope
        self.z, self.a_source, self.a_target, self.source, self.target, self.summed, self.logs = operands

    def prepare(self) -> None:
        pass

    def independent(self) -> None:
        pass

    def whole(self) -> None:
        products, adjacency = self.aggregation.products, self.aggregation.adjacency
        with self.aggregation.part("marginal", "backward", self.aggregation.last):
            gradient = products.operand(self.rows.unflatten(1, self.summed.shape[1:]))
            stats = torch.stack((self.logs, torch.ones_like(self.logs)), 1)  # a = exp(e - l) * 1
            rows = pack_rows(self.target, stats, products.dense(gradient), products.dense(self.summed))  # (R, 4, K)
            edges = self.logs.new_empty(adjacency.num_edges, self.logs.shape[1])  # (E, K)
            columns = (0, adjacency.num_columns)
            self.out, source_gradient = products.attend_columns(
                adjacency, self.z, self.source, rows, gradient, edges, columns=columns, slope=self.slope
            )
            target_gradient, z = segment_sum(adjacency, edges), products.dense(self.z)
            # Gradients through values, source logits and target logits.
            self.out = (
                self.out + source_gradient.unsqueeze(-1) * self.a_source + target_gradient.unsqueeze(-1) * self.a_target
            )
            self.vector_gradients = tuple(
                (logit_gradient.unsqueeze(-1) * z).sum(0) for logit_gradient in (source_gradient, target_gradient)
            )


class Attend(torch.autograd.Function):
    """Compute attention by the schedule of the aggregation; see the module docstring."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, a_source: Tensor, a_target: Tensor, aggregation: MirrorAggregation, slope: float
    ) -> Tensor:
        step = _Forward(aggregation, z, a_source, a_target, slope)
        aggregation.schedule.run(step, aggregation.place("forward"))
        ctx.aggregation, ctx.slope = aggregation, slope
        out, logs, products = step.out.contiguous(), step.logs.contiguous(), aggregation.products
        rows = products.saved(products.operand(z)), a_source, a_target, step.source, step.target
        save_operands(ctx, *rows, products.saved(out), logs)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        step = _Backward(ctx.aggregation, ctx.slope, saved_operands(ctx), gradients[0])
        ctx.aggregation.schedule.run(step, ctx.aggregation.place("backward"))
        return step.out, *step.vector_gradients, None, None
