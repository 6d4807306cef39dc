"""Attention over an edge-cut: the five operations of a step with softmax-weighted sums (GAT).

Letters: N owned, M marginal, H halo, E edges, K heads, F features of a head. The rows sent are ``z = h W``, of
dimension ``K F``; the logits are linear in them, ``s_u = <a_source, z_u>``, so a receiver computes those of halo rows
itself and they are not sent. Backward, ``∂z`` of each halo row, which includes the gradient through its logit, is sent
to its owner.

With a sampler, a sampled neighbour counts w times in the softmax, ``a_vu = w exp(e_vu) / sum``; other halo neighbours
have no row and no edge. As w is a factor of a, the backward pass of halo columns is the usual one with w times the
reciprocal sum.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnnqlab.compute.gradients import rounded
from gnnqlab.compute.products import Operand
from gnnqlab.compute.saved import save_operands, saved_operands
from gnnqlab.exchange.halo.boundary import LayerPlan
from gnnqlab.exchange.halo.sampling import Sampling
from gnnqlab.exchange.schedules.schedule import PendingRows
from gnnqlab.exchange.vertex_cut.attention_parts import attend_halves
from gnnqlab.kernels.sparse.attention import pack_rows, segment_sum
from gnnqlab.message.channels.incoming import PendingReceive

__all__ = ["Attend", "AttendBackward", "AttendForward"]

_RECIPROCAL = 2
"""Index of the reciprocal sum in the result of :func:`pack_rows`."""


def _weight(sampling: Sampling) -> float:
    """Return the weight of a sampled neighbour in the softmax."""
    return sampling.factor if sampling.attention == "weights" else 1.0


class AttendForward:
    """Forward step of attention; see the module docstring."""

    rounds, chained = 1, False

    def __init__(self, layer: LayerPlan, z: Tensor, a_source: Tensor, a_target: Tensor, slope: float) -> None:
        assert layer.adjacency is not None
        self.layer, self.adjacency, self.z, self.slope = layer, layer.adjacency, z, slope
        self.a_source = a_source
        products = layer.products
        self._source_operand = products.of_logits.operand((z * a_source).sum(-1))  # (N, K, F) -> (N, K)
        self.source = products.of_logits.dense(self._source_operand)
        self.target = rounded(products, (z * a_target).sum(-1))  # (N, K)
        self.sampled_in: int | None = None
        self.out = torch.empty_like(z)
        self.stats: list[Tensor] = []  # (rows, 2, K) of each range: largest logit, reciprocal sum
        self._halo_operand: Operand | None = None

    def prepare(self) -> None:
        pass

    def post(self, round: int) -> PendingReceive:
        layer, context, z = self.layer, self.layer.context, self.z.flatten(1)  # (N, K F)
        # Not a shared halo buffer: these rows are saved for backward.
        halo = z.new_empty(layer.boundary.sampling.num_rows(layer.sample), z.shape[1])
        layer.boundary.report_buffer(halo)
        channel, plan = layer.boundary.channel(context, "forward"), layer.plan("forward", layer.sample)
        return channel.post(z, halo, epoch=context.epoch, plan=plan, sampled_in=layer.sample)

    def independent(self) -> None:
        # Central nodes have no remote neighbours: their softmax is complete before halo rows are received.
        with self.layer.parts["forward"]("central"):
            self._rows(0, self.layer.boundary.num_central)

    def wait(self, round: int, pending: PendingRows) -> None:
        halo, self.sampled_in = self.layer.count_rounded(pending.decode()), pending.sampled_in
        self.halo = halo.view(halo.shape[0], *self.z.shape[1:])  # (H, K F) -> (H, K, F)

    def dependent(self, round: int) -> None:
        boundary = self.layer.boundary
        with self.layer.parts["forward"]("marginal"):
            if self.sampled_in is not None:
                self._sampled(self.sampled_in)
                return
            self.halo_source = self._halo_logits()
            # Central rows come first in the matrix, so the statistics of both ranges concatenate to those of all rows.
            self._rows(boundary.num_central, boundary.num_owned)

    def halo_operand(self) -> Operand:
        """Return the received rows as an operand of products; cached."""
        if self._halo_operand is None:
            products, boundary = self.layer.products, self.layer.boundary
            ids = boundary.halo_ids(self.sampled_in)
            self._halo_operand = products.halo(self.halo, products.operand(self.z), ids)
        return self._halo_operand

    def _halo_logits(self) -> Tensor:
        """Return the source halves of the logits of received rows ``(H, K)``, rounded as their owners round them."""
        logits, ids = self.layer.products.of_logits, self.layer.boundary.halo_ids(self.sampled_in)
        return logits.dense(logits.halo((self.halo * self.a_source).sum(-1), self._source_operand, ids))

    def _sampled(self, epoch: int) -> None:
        boundary, products = self.layer.boundary, self.layer.products
        sampling, num_central = boundary.sampling, boundary.num_central
        if sampling.attention == "input":  # before the logits, which change too
            self.halo = self.halo * sampling.factor
        self.halo_source = self._halo_logits()
        # The two halves have different weights: owned neighbours count once, sampled ones w times.
        self.out[num_central:], stats = attend_halves(
            (sampling.owned_columns(self.adjacency), sampling.sampled_columns(self.adjacency, epoch)),
            (products.operand(self.z), self.halo_operand()),
            (self.source, self.halo_source),
            self.target[num_central:],  # (M, K)
            weight=_weight(sampling),
            slope=self.slope,
            products=products,
        )
        self.stats.append(stats)

    def _rows(self, first: int, last: int) -> None:
        # Central rows have no halo neighbours, so they can run before halo rows are received.
        products, needs_halo = self.layer.products, last > self.layer.boundary.num_central
        halo = (self.halo_operand(), self.halo_source) if needs_halo else (None, None)
        _, stats = products.attend_rows(
            self.adjacency,
            products.operand(self.z),
            self.source,
            self.target,
            *halo,
            slope=self.slope,
            rows=(first, last),
            out=self.out[first:last],
        )
        self.stats.append(stats)


class AttendBackward:
    """Backward step of attention; see the module docstring."""

    rounds, chained = 1, False

    def __init__(
        self, layer: LayerPlan, slope: float, saved: tuple[Operand, ...], gradient: Tensor, sampled_in: int | None
    ) -> None:
        assert layer.adjacency is not None
        self.layer, self.adjacency, self.slope, self.sampled_in = layer, layer.adjacency, slope, sampled_in
        self.z, self.a_source, self.a_target, self.source, target, self.halo, halo_source, out, stats = saved
        products = layer.products
        self.halo_source, self.gradient = halo_source, products.operand(gradient)
        self.packed = pack_rows(target, stats, products.dense(self.gradient), products.dense(out))  # (N, 4, K)
        shape = (layer.adjacency.num_edges, self.source.shape[1])  # (E, K)
        # Zeros with a sampler: edges from halo rows that were not sampled are never written.
        self.edge_gradients = stats.new_empty(shape) if sampled_in is None else stats.new_zeros(shape)
        self.out = torch.empty_like(gradient)  # (N, K, F)

    def prepare(self) -> None:
        boundary = self.layer.boundary
        with self.layer.parts["backward"]("marginal"):
            if self.sampled_in is None:
                # Halo columns first, so that their gradients are in flight while those of owned columns are computed.
                columns = (boundary.num_owned, boundary.num_owned + boundary.num_halo)
                self.halo_gradient, d_source = self._columns(self.halo, self.halo_source, columns)
            else:
                self.halo_gradient, d_source = self._sampled(self.sampled_in)
            boundary.report_buffer(self.halo_gradient)
            self.d_a_source = (d_source.unsqueeze(-1) * self.layer.products.dense(self.halo)).sum(0)  # (K, F)
            self.halo_gradient += d_source.unsqueeze(-1) * self.a_source  # through the logit <a_source, z_u>
            if self.sampled_in is not None and boundary.sampling.attention == "input":
                # The forward pass multiplied the rows themselves by 1/p.
                self.halo_gradient *= boundary.sampling.factor

    def post(self, round: int) -> PendingReceive:
        layer, context = self.layer, self.layer.context
        plan, channel = layer.plan("backward", self.sampled_in), layer.boundary.channel(context, "backward")
        gradient, size = self.halo_gradient.flatten(1), self.out.flatten(1).shape  # (H, K F) to send
        # ``still``: the gradient is a tensor of this step, which nothing else modifies.
        options: dict[str, Any] = {"plan": plan, "sampled_in": self.sampled_in, "still": True}
        return channel.post(gradient, size, epoch=context.epoch, **options)

    def independent(self) -> None:
        with self.layer.parts["backward"]("central"):
            # Gradients through three paths: the values z, the source logits and the target logits.
            d_z, d_source = self._columns(self.z, self.source, (0, self.layer.boundary.num_owned))  # (N, K, F), (N, K)
            d_target = segment_sum(self.adjacency, self.edge_gradients)  # (E, K) -> (N, K)
            if self.sampled_in is not None:
                # Edges of the sampled matrix are numbered on their own, so ``edge_gradients`` does not hold them.
                d_target[self.layer.boundary.num_central :] += self.through_halo
            z = self.layer.products.dense(self.z)
            self.d_a_source += (d_source.unsqueeze(-1) * z).sum(0)
            self.d_a_target = (d_target.unsqueeze(-1) * z).sum(0)  # (N, K, F) -> (K, F)
            torch.add(d_z, d_source.unsqueeze(-1) * self.a_source, out=self.out)
            self.out += d_target.unsqueeze(-1) * self.a_target

    def wait(self, round: int, pending: PendingRows) -> None:
        pending.wait()
        self.pending = pending

    def dependent(self, round: int) -> None:
        # The flattened output is a view, so received gradients are added to ``out`` itself.
        self.pending.decode(self.out.flatten(1))

    def _sampled(self, epoch: int) -> tuple[Tensor, Tensor]:
        boundary, sampling = self.layer.boundary, self.layer.boundary.sampling
        sampled_matrix, num_central = sampling.sampled_columns(self.adjacency, epoch), boundary.num_central
        rows = self.packed[num_central:].clone()  # (M, 4, K), a copy: the own columns need the unweighted reciprocal
        rows[:, _RECIPROCAL] *= _weight(sampling)  # w as a factor of the attention coefficients
        edge_gradients = self.source.new_empty(sampled_matrix.num_edges, self.source.shape[1])  # (E of the sample, K)
        gradients = self.layer.products.attend_columns(
            sampled_matrix,
            self.halo,
            self.halo_source,
            rows,
            self.layer.products.part(self.gradient, (num_central, boundary.num_owned)),
            edge_gradients,
            columns=(0, sampled_matrix.num_columns),
            slope=self.slope,
        )
        self.through_halo = segment_sum(sampled_matrix, edge_gradients)  # (E of the sample, K) -> (M, K)
        """Gradient of the target logits of marginal rows, through their halo neighbours."""
        return gradients

    def _columns(self, values: Tensor, logits: Tensor, columns: tuple[int, int]) -> tuple[Tensor, Tensor]:
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


class Attend(torch.autograd.Function):
    """Compute attention by the schedule of the plan; see the module docstring."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, a_source: Tensor, a_target: Tensor, layer: LayerPlan, slope: float) -> Tensor:
        step = AttendForward(layer, z.contiguous(), a_source, a_target, slope)
        layer.schedule.run(step, layer.places["forward"])
        ctx.layer, ctx.slope, ctx.sampled_in = layer, slope, step.sampled_in
        products = layer.products
        z, ids = products.saved(products.operand(step.z)), layer.boundary.halo_ids(step.sampled_in)
        # The noise of saved rows is keyed by the node, so a node has the same saved codes on every worker.
        halo = products.saved(step.halo_operand(), ids, like=z)
        out = products.saved(step.out)
        operands = (step.source, step.target, halo, step.halo_source, out, torch.cat(step.stats))
        save_operands(ctx, z, a_source, a_target, *operands)
        return step.out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        step = AttendBackward(ctx.layer, ctx.slope, saved_operands(ctx), gradients[0].contiguous(), ctx.sampled_in)
        ctx.layer.schedule.run(step, ctx.layer.places["backward"])
        return step.out, step.d_a_source, step.d_a_target, None, None
