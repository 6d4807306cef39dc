"""Attention over an edge-cut: the five verbs with softmax-weighted sums in place of sums (GAT).

Letters: N owned, H halo, K heads, F features of a head. What travels is ``z = h W``, ``(K F)`` wide; the logits are
linear in it, ``s_u = <a_source, z_u>``, so a receiver computes those of halo rows itself and a message needs no room
for them. Backward, each halo row's ``∂z``, which holds what came through its logit too, goes home.

Under a sampler, a neighbour that was kept counts w times in the softmax: ``a_vu = w exp(e_vu) / sum``, and one that
was left out has no row and no edge. As w is a factor of a, the backward pass of halo columns is the plain one with w
times the reciprocal sum.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnnqlab.exchange.arrivals import AddedRows, PlacedRows
from gnnqlab.exchange.attention_parts import attend_halves
from gnnqlab.exchange.halo import Call, HaloExchange
from gnnqlab.exchange.sampling import Sampling
from gnnqlab.exchange.schedule import Came
from gnnqlab.kernels.adjacency import Adjacency
from gnnqlab.kernels.attention import attend_columns, attend_rows, pack_rows, segment_sum

__all__ = ["attend"]

_RECIPROCAL = 2
"""Place of the reciprocal sum in what :func:`pack_rows` makes."""


def _weight(sampling: Sampling) -> float:
    """Return how many times a neighbour that was kept counts in the softmax."""
    return sampling.factor if sampling.attention == "weights" else 1.0


def attend(
    exchange: HaloExchange,
    adjacency: Adjacency,
    z: Tensor,
    a_source: Tensor,
    a_target: Tensor,
    *,
    slope: float,
    layer: int,
    epoch: int,
    exact: bool,
) -> Tensor:
    """Return attention-weighted sums of ``[z; halo(z)]`` for owned rows, differentiable in z and both vectors.

    ``e_vu = leaky(<a_target, z_v> + <a_source, z_u>)``, ``out_v = sum over u of softmax_u(e_vu) z_u``
    (GAT, Velickovic et al. 2018, Eq. 2 to 4).

    Args:
        exchange: of this worker.
        adjacency: ``(N, N + H)``, central rows first; weights are not used.
        z: projected rows of owned nodes, float32 ``(N, K, F)``.
        a_source, a_target: the two halves of the attention vector, ``(K, F)``.
        slope: of the leaky rectifier.
        layer, epoch, exact: as for :meth:`HaloExchange.aggregate`.

    Returns:
        float32 ``(N, K, F)``.
    """
    call = Call(exchange, adjacency, layer, epoch, exact, static=False)
    result: Tensor = _Attend.apply(z, a_source, a_target, call, slope)
    return result


class _Forward:
    def __init__(self, call: Call, z: Tensor, a_source: Tensor, a_target: Tensor, slope: float) -> None:
        assert call.adjacency is not None
        self.call, self.adjacency, self.z, self.slope = call, call.adjacency, z, slope
        self.a_source = a_source
        self.source, self.target = (z * a_source).sum(-1), (z * a_target).sum(-1)
        num_rows = call.exchange.sampling.num_rows(call.sample)
        halo = z.new_empty(num_rows, *z.shape[1:])  # kept for the backward pass
        self.came = PlacedRows(halo, sampled_in=call.sample)
        self.sampled_in: int | None = None
        self.out = torch.empty_like(z)
        self.stats: list[Tensor] = []

    def prepare(self) -> None:
        pass

    def post(self) -> None:
        call, halo = self.call, self.came.into.flatten(1)
        self.came.pending = call.exchange.post(call, "forward", self.z.flatten(1), halo, call.sample)

    def independent(self) -> None:
        with self.call.exchange.timeline("central"):
            self._rows(0, self.call.exchange.num_central)

    def wait(self) -> None:
        self.take(self.came)

    def take(self, came: Came, rows: Tensor | None = None) -> None:
        self.halo, self.sampled_in = came.finish() if rows is None else rows, came.sampled_in

    def dependent(self) -> None:
        exchange = self.call.exchange
        with exchange.timeline("marginal"):
            if self.sampled_in is not None:
                self._sampled(self.sampled_in)
                return
            self.halo_source = (self.halo * self.a_source).sum(-1)
            self._rows(exchange.num_central, exchange.num_owned)

    def _sampled(self, epoch: int) -> None:
        exchange = self.call.exchange
        sampling, central = exchange.sampling, exchange.num_central
        if sampling.attention == "input":
            self.halo = self.halo * sampling.factor
        self.halo_source = (self.halo * self.a_source).sum(-1)
        self.out[central:], stats = attend_halves(
            (sampling.owned(self.adjacency), sampling.kept(self.adjacency, epoch)),
            (self.z, self.halo),
            (self.source, self.halo_source),
            self.target[central:],
            weight=_weight(sampling),
            slope=self.slope,
        )
        self.stats.append(stats)

    def _rows(self, first: int, last: int) -> None:
        halo = (self.halo, self.halo_source) if last > self.call.exchange.num_central else (None, None)
        _, stats = attend_rows(
            self.adjacency,
            self.z,
            self.source,
            self.target,
            *halo,
            slope=self.slope,
            rows=(first, last),
            out=self.out[first:last],
        )
        self.stats.append(stats)


class _Backward:
    def __init__(
        self, call: Call, slope: float, saved: tuple[Tensor, ...], gradient: Tensor, sampled_in: int | None
    ) -> None:
        assert call.adjacency is not None
        self.call, self.adjacency, self.slope, self.sampled_in = call, call.adjacency, slope, sampled_in
        self.z, self.a_source, self.a_target, self.source, target, self.halo, halo_source, out, stats = saved
        self.halo_source, self.gradient = halo_source, gradient
        self.packed = pack_rows(target, stats, gradient, out)
        shape = (call.adjacency.num_edges, self.source.shape[1])
        self.edge_gradients = gradient.new_empty(shape) if sampled_in is None else gradient.new_zeros(shape)
        self.out = torch.empty_like(self.z)
        self.came = AddedRows(self.out.flatten(1).shape, self.out.device)

    def prepare(self) -> None:
        exchange = self.call.exchange
        with exchange.timeline("marginal"):
            if self.sampled_in is None:
                columns = (exchange.num_owned, exchange.num_owned + exchange.num_halo)
                self.halo_gradient, d_source = self._columns(self.halo, self.halo_source, columns)
            else:
                self.halo_gradient, d_source = self._sampled(self.sampled_in)
            self.d_a_source = (d_source.unsqueeze(-1) * self.halo).sum(0)
            self.halo_gradient += d_source.unsqueeze(-1) * self.a_source
            if self.sampled_in is not None and exchange.sampling.attention == "input":
                self.halo_gradient *= exchange.sampling.factor

    def post(self) -> None:
        call, gradient = self.call, self.halo_gradient.flatten(1)
        self.came.pending = call.exchange.post(call, "backward", gradient, None, self.sampled_in)

    def independent(self) -> None:
        with self.call.exchange.timeline("central"):
            d_z, d_source = self._columns(self.z, self.source, (0, self.call.exchange.num_owned))
            d_target = segment_sum(self.adjacency, self.edge_gradients)
            if self.sampled_in is not None:
                d_target[self.call.exchange.num_central :] += self.through_halo
            self.d_a_source += (d_source.unsqueeze(-1) * self.z).sum(0)
            self.d_a_target = (d_target.unsqueeze(-1) * self.z).sum(0)
            torch.add(d_z, d_source.unsqueeze(-1) * self.a_source, out=self.out)
            self.out += d_target.unsqueeze(-1) * self.a_target

    def wait(self) -> None:
        self.take(self.came)

    def take(self, came: Came, rows: Tensor | None = None) -> None:
        assert isinstance(came, AddedRows)
        came.arrive()
        self.taken = (came, rows)

    def dependent(self) -> None:
        came, rows = self.taken
        came.add_to(self.out.flatten(1), rows)

    def _sampled(self, epoch: int) -> tuple[Tensor, Tensor]:
        exchange, sampling = self.call.exchange, self.call.exchange.sampling
        kept, central = sampling.kept(self.adjacency, epoch), exchange.num_central
        packed = self.packed[central:].clone()
        packed[:, _RECIPROCAL] *= _weight(sampling)
        edge_gradients = self.gradient.new_empty(kept.num_edges, self.source.shape[1])
        gradients = attend_columns(
            kept,
            self.halo,
            self.halo_source,
            packed,
            self.gradient[central:],
            edge_gradients,
            columns=(0, kept.num_columns),
            slope=self.slope,
        )
        self.through_halo = segment_sum(kept, edge_gradients)
        """Gradient of the target logits of marginal rows, through their halo neighbours."""
        return gradients

    def _columns(self, values: Tensor, logits: Tensor, columns: tuple[int, int]) -> tuple[Tensor, Tensor]:
        return attend_columns(
            self.adjacency,
            values,
            logits,
            self.packed,
            self.gradient,
            self.edge_gradients,
            columns=columns,
            slope=self.slope,
        )


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, a_source: Tensor, a_target: Tensor, call: Call, slope: float) -> Tensor:
        step = _Forward(call, z.contiguous(), a_source, a_target, slope)
        call.exchange.run(step, call, "forward")
        ctx.call, ctx.slope, ctx.sampled_in = call, slope, step.sampled_in
        ctx.save_for_backward(
            step.z,
            a_source,
            a_target,
            step.source,
            step.target,
            step.halo,
            step.halo_source,
            step.out,
            torch.cat(step.stats),
        )
        return step.out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        step = _Backward(ctx.call, ctx.slope, ctx.saved_tensors, gradients[0].contiguous(), ctx.sampled_in)
        ctx.call.exchange.run(step, ctx.call, "backward")
        return step.out, step.d_a_source, step.d_a_target, None, None
