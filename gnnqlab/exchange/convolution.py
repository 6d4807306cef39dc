"""A whole convolution over an edge-cut: the products with weights run under the wire too, not the neighbour sums alone.

``Y = A [X; halo] W + X W_self + b``. AdaQP computes everything of central nodes while marginal rows travel (section
3.2): with the sums alone, which are the smaller part of an epoch, the wire would outlast what hides it. Backward, the
gradients of halo rows need ``dY W^T`` of marginal rows only, so all other products wait until those have left.

Letters: N owned, C central, H halo, D columns in, O columns out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gnnqlab.exchange.halo import Call, HaloExchange, SumBackward, SumForward
from gnnqlab.kernels.aggregate import Adjacency

__all__ = ["convolve"]


def convolve(
    exchange: HaloExchange,
    adjacency: Adjacency,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    self_weight: Tensor | None,
    *,
    layer: int,
    epoch: int,
    exact: bool,
    static: bool,
) -> Tensor:
    """Return ``A [x; halo(x)] weight + x self_weight + bias`` for owned rows, differentiable in all tensors.

    Args:
        exchange: of this worker.
        adjacency: ``(N, N + H)``, central rows first.
        x: rows of owned nodes, float32 ``(N, D)``.
        weight: ``(D, O)``; ``self_weight`` the same, or ``None`` for no such term; ``bias`` ``(O,)``.
        layer, epoch, exact, static: as for :meth:`HaloExchange.aggregate`.

    Returns:
        float32 ``(N, O)``.
    """
    if not exact:
        exchange.adjacencies[layer] = adjacency
    call = Call(exchange, adjacency, layer, epoch, exact, static)
    result: Tensor = _Convolve.apply(x, weight, bias, self_weight, call)
    return result


class _Forward(SumForward):
    def __init__(self, call: Call, x: Tensor, weight: Tensor, bias: Tensor, self_weight: Tensor | None) -> None:
        super().__init__(call, x)
        self._weight, self._bias, self._self_weight = weight, bias, self_weight
        self.y = x.new_empty(x.shape[0], weight.shape[1])

    def independent(self) -> None:
        super().independent()
        self._project("central", 0, self.call.exchange.num_central)

    def dependent(self) -> None:
        super().dependent()
        self._project("marginal", self.call.exchange.num_central, self.call.exchange.num_owned)

    def _project(self, phase: str, first: int, last: int) -> None:
        with self.call.exchange.timeline(phase):
            y = self.y[first:last]
            torch.addmm(self._bias, self.out[first:last], self._weight, out=y)
            if self._self_weight is not None:
                y.addmm_(self.x[first:last], self._self_weight)


class _Backward(SumBackward):
    def __init__(self, call: Call, gradient: Tensor, sampled_in: int | None, saved: tuple[Tensor, ...]) -> None:
        sums, self._weight, self._self_weight, self._x = saved
        super().__init__(call, torch.empty_like(sums), sampled_in)
        self._sums, self._y_gradient = sums, gradient

    def prepare(self) -> None:
        with self.call.exchange.timeline("marginal"):
            self._sums_gradient(self.call.exchange.num_central, self.call.exchange.num_owned)
        super().prepare()

    def independent(self) -> None:
        with self.call.exchange.timeline("central"):
            self._sums_gradient(0, self.call.exchange.num_central)
        super().independent()
        with self.call.exchange.timeline("central"):
            if self._self_weight is not None:
                self.out.addmm_(self._y_gradient, self._self_weight.t())
            self.of_weights = of_weights(self._y_gradient, self._sums, self._x)

    def _sums_gradient(self, first: int, last: int) -> None:
        torch.mm(self._y_gradient[first:last], self._weight.t(), out=self.gradient[first:last])


def of_weights(gradient: Tensor, sums: Tensor, x: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the gradients of weight, bias and, where there is one, self weight."""
    return sums.t() @ gradient, gradient.sum(0), None if x is None else x.t() @ gradient


class _Convolve(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, self_weight: Tensor | None, call: Call) -> Tensor:
        step = _Forward(call, x, weight, bias, self_weight)
        call.exchange.run(step, call, "forward")
        ctx.call, ctx.sampled_in = call, step.sampled_in
        ctx.save_for_backward(step.out, weight, self_weight, None if self_weight is None else x)
        return step.y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, saved = gradients[0].contiguous(), ctx.saved_tensors
        if not ctx.needs_input_grad[0]:  # raw features: nobody needs the gradients of their halo rows
            with ctx.call.exchange.timeline("central"):
                return None, *of_weights(gradient, saved[0], saved[3]), None
        step = _Backward(ctx.call, gradient, ctx.sampled_in, saved)
        ctx.call.exchange.run(step, ctx.call, "backward")
        return step.out, *step.of_weights, None
