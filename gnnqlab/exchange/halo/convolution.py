"""Convolution over an edge-cut: dense products overlap with communication too, not only aggregation.

``Y = A [X; halo] W + X W_self + b``. AdaQP computes everything of central nodes while marginal rows are sent (section
3.2); aggregation alone, the smaller part of an epoch, would be too short to hide the transfers. Backward, the gradients
of halo rows need ``dY W^T`` of marginal rows only, so all other products run after these were sent.

Letters: N owned, C central, H halo, n rows of a block, D columns in, O columns out.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnnqlab.compute.products import Operand, Products
from gnnqlab.compute.saved import save_operands, saved_operands
from gnnqlab.exchange.halo.boundary import LayerPlan
from gnnqlab.exchange.halo.sums import SumBackward, SumForward

__all__ = ["Convolve"]


class _Forward(SumForward):
    """Forward step: sums as in the base class, then products by blocks of rows."""

    def __init__(
        self,
        layer: LayerPlan,
        x: Tensor,
        before: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        self_weight: Tensor | None,
    ) -> None:
        super().__init__(layer, x, before)
        self._weight, self._bias, self._self_weight = weight, bias, self_weight
        self.y = self.out.new_empty(x.shape[0], weight.shape[1])  # (N, O)

    def independent(self) -> None:
        super().independent()
        if self.layer.products.by_rows:  # False if an operand needs all rows at once, as with a common scale
            self._project("central", 0, self.layer.boundary.num_central)

    def dependent(self, round: int) -> None:
        super().dependent(round)
        if round + 1 < self.rounds:  # the sums of marginal rows are complete after the last round
            return
        first = self.layer.boundary.num_central if self.layer.products.by_rows else 0
        self._project("marginal", first, self.layer.boundary.num_owned)

    def _project(self, part: str, first: int, last: int) -> None:
        products, rows, y = self.layer.products, (first, last), self.y[first:last]
        with self.layer.parts["forward"](part):
            sums = products.part(products.operand(self.out, rows), rows)
            # Y = sums W + b, then + X W_self in place.
            products.addmm(self._bias, sums, products.weight(self._weight), out=y)  # (n, D) -> (n, O)
            if self._self_weight is not None:
                x = products.part(products.operand(self.x), rows)
                products.addmm(y, x, products.weight(self._self_weight), out=y)


class _Backward(SumBackward):
    """Backward step: the gradient of the sums of marginal rows first, then the base class, then weights."""

    def __init__(
        self, layer: LayerPlan, gradient: Tensor, sampled_in: int | None, operands: tuple[Operand, ...]
    ) -> None:
        self._sums, self._weight, self._self_weight, self._x = operands
        # The gradient of the sums, dY W^T, is filled by blocks of rows: marginal ones first.
        super().__init__(layer, gradient.new_empty(self._sums.shape), sampled_in)  # (N, D)
        self._y_gradient = gradient

    def prepare(self) -> None:
        with self.layer.parts["backward"]("marginal"):
            first = self.layer.boundary.num_central if self.layer.products.by_rows else 0
            # Only marginal rows have edges from halo nodes, so their gradients suffice for those of halo rows.
            self._sums_gradient(first, self.layer.boundary.num_owned)
        super().prepare()

    def independent(self) -> None:
        if self.layer.products.by_rows:
            with self.layer.parts["backward"]("central"):
                self._sums_gradient(0, self.layer.boundary.num_central)
        super().independent()
        products = self.layer.products
        with self.layer.parts["backward"]("central"):
            if self._self_weight is not None:
                gradient = products.operand(self._y_gradient)
                # dX += dY W_self^T
                products.addmm(self.out, gradient, self._self_weight, transposed="b", out=self.out)
            # Last, while gradients of halo rows are in flight: the backward pass of other layers does not need them.
            self.weight_gradients = weight_gradients(products, self._y_gradient, self._sums, self._x)

    def _sums_gradient(self, first: int, last: int) -> None:
        products, rows = self.layer.products, (first, last)
        y_gradient = products.part(products.operand(self._y_gradient), rows)
        products.mm(y_gradient, self._weight, transposed="b", out=self.gradient[first:last])  # (n, O) -> (n, D)
        self._gradient = products.operand(self.gradient, rows)

    def _operand(self) -> Operand:
        return self._gradient


def weight_gradients(
    products: Products, gradient: Tensor, sums: Operand, x: Operand | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute the gradients of weight, bias and self weight (``None`` without one)."""
    operand = products.operand(gradient)
    self_gradient = None if x is None else products.mm(x, operand, transposed="a")
    return products.mm(sums, operand, transposed="a"), gradient.sum(0), self_gradient  # (D, O), (O,), (D, O)


def _projected(
    layer: LayerPlan, sums: Tensor, weight: Tensor, bias: Tensor, x: Tensor | None, self_weight: Tensor | None
) -> Tensor:
    """Recompute the products from saved sums, by the same blocks of rows, so that results are identical."""
    y, products = sums.new_empty(sums.shape[0], weight.shape[1]), layer.products
    num_central = layer.boundary.num_central if products.by_rows else 0
    for block in (slice(0, num_central), slice(num_central, layer.boundary.num_owned)):
        products.addmm(bias, sums[block], weight, out=y[block])
        if x is not None and self_weight is not None:
            products.addmm(y[block], x[block], self_weight, out=y[block])
    return y


class Convolve(torch.autograd.Function):
    """Compute the whole convolution by the schedule of the plan; see the module docstring."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        before: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        self_weight: Tensor | None,
        layer: LayerPlan,
    ) -> Tensor:
        step = _Forward(layer, x, before, weight, bias, self_weight)
        layer.schedule.run(step, layer.places["forward"])
        ctx.layer, ctx.sampled_in = layer, step.sampled_in
        products, with_self = layer.products, self_weight is not None
        sums = products.saved(products.operand(step.out))
        self_operands = (
            (products.weight(self_weight), products.saved(products.operand(x))) if with_self else (None, None)
        )
        save_operands(ctx, sums, products.weight(weight), *self_operands)
        if layer.context.remakes is not None:
            step.register_recompute(layer.context.remakes)
            own_rows = x if with_self else None
            if own_rows is not None:
                layer.context.remakes.fix(own_rows)
            layer.context.remakes.register(
                step.y, partial(_projected, layer), step.out, weight, bias, own_rows, self_weight
            )
        return step.y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, operands = gradients[0].contiguous(), saved_operands(ctx)
        if not ctx.needs_input_grad[0]:  # input features: gradients of halo rows are not needed
            with ctx.layer.boundary.timeline("central"):  # no exchange, so no exchange key
                return None, None, *weight_gradients(ctx.layer.products, gradient, operands[0], operands[3]), None
        step = _Backward(ctx.layer, gradient, ctx.sampled_in, operands)
        ctx.layer.schedule.run(step, ctx.layer.places["backward"])
        return step.out, step.home, *step.weight_gradients, None
