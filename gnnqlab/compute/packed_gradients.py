"""Differentiable functions with bitwise float32 results, whose inputs are saved in few bits.

``dw = x^T dy`` is linear in ``x``, whose noise is independent of ``dy``: unbiased. A ReLU needs only signs, which are
exact. LayerNorm's ``dx`` is quadratic in its normalised rows n: if each is rounded with variance v, the expected error
is ``-dy v / D`` times the reciprocal deviation, and v is at most a quarter of a squared step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.compute.products import Operand, Products
from gnnqlab.compute.saved import save_operands, saved_operands
from gnnqlab.kernels.rowwise.signs import pack_positive, unpack_positive

__all__ = ["PackedAffine", "LayerNorm", "Rectifier"]


class PackedAffine(torch.autograd.Function):
    """``y = beta base + alpha x w``; ``dx = alpha dy w.T``, ``dw = alpha x.T dy``; x is saved as codes."""

    @staticmethod
    def forward(
        ctx: Any, base: Tensor, x: Tensor, weight: Tensor, beta: float, alpha: float, products: Products
    ) -> Tensor:
        ctx.products, ctx.beta, ctx.alpha, ctx.base_shape = products, beta, alpha, base.shape
        save_operands(ctx, products.saved(x), weight)
        return torch.addmm(base, x, weight, beta=beta, alpha=alpha)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), products, needs_grad = saved_operands(ctx), ctx.products, ctx.needs_input_grad
        gradient = gradients[0]
        # (N, O) -> the base's shape: a row is broadcast forward, so its gradient is a sum.
        d_base = (ctx.beta * gradient).sum_to_size(ctx.base_shape) if needs_grad[0] else None
        scaled_gradient = gradient if ctx.alpha == 1.0 else ctx.alpha * gradient
        dx = products.mm(scaled_gradient, weight, transposed="b") if needs_grad[1] else None
        return d_base, dx, products.mm(x, scaled_gradient, transposed="a") if needs_grad[2] else None, None, None, None


class LayerNorm(torch.autograd.Function):
    """LayerNorm over the last dimension of ``(N, D)``; saves codes of x, and mean and reciprocal deviation per row."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        products: Products,
        saved: Callable[[Tensor], Operand],
    ) -> Tensor:
        out, mean, reciprocal = torch.native_layer_norm(x, x.shape[1:], weight, bias, eps)  # (N, D), (N, 1), (N, 1)
        ctx.products = products
        save_operands(ctx, saved(x), mean, reciprocal, weight, bias)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, mean, reciprocal, weight, bias = saved_operands(ctx)
        x, needs_grad = ctx.products.dense(x), list(ctx.needs_input_grad[:3])  # decoded, (N, D)
        gradient = gradients[0].contiguous()
        input_gradients = torch.ops.aten.native_layer_norm_backward(
            gradient, x, x.shape[1:], mean, reciprocal, weight, bias, needs_grad
        )
        return *input_gradients, None, None, None


class Rectifier(torch.autograd.Function):
    """``max(x, 0)``; saves one bit per element."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, inplace: bool) -> Tensor:
        if inplace:
            ctx.mark_dirty(x)  # required by autograd for an input that is overwritten
        out = torch.relu_(x) if inplace else torch.relu(x)
        ctx.shape = x.shape
        ctx.save_for_backward(pack_positive(out))  # float32 -> one bit per element
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * unpack_positive(ctx.saved_tensors[0], ctx.shape), None
