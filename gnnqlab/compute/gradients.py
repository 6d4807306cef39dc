"""Differentiable products for any precision, which save their operands for backward.

The gradient of a product is that of the product as it ran, with its rounded operands. The incoming gradient is
converted to an operand too, before it is multiplied.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.compute.products import Products
from gnnqlab.compute.saved import save_operands, saved_operands
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.attention import pack_rows, segment_sum

__all__ = ["AggregateFunction", "AttendFunction", "LinearFunction", "LinearByType", "rounded"]


def rounded(products: Products, halves: Tensor) -> Tensor:
    """Return halves of logits ``(N, K)`` rounded as they enter the softmax; gradients ignore the rounding."""
    logits = products.of_logits
    return logits.dense(logits.operand(halves))


class LinearFunction(torch.autograd.Function):
    """``y = x w``; ``dx = dy w.T``, ``dw = x.T dy``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, products: Products) -> Tensor:
        a, b = products.operand(x), products.weight(weight)  # (N, I), (I, O)
        ctx.products = products
        save_operands(ctx, products.saved(a), b)
        return products.mm(a, b)  # (N, O)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (a, b), products = saved_operands(ctx), ctx.products
        gradient = products.operand(gradients[0].contiguous())  # (N, O), made once for both products
        dx = products.mm(gradient, b, transposed="b") if ctx.needs_input_grad[0] else None  # (N, I)
        return dx, products.mm(a, gradient, transposed="a") if ctx.needs_input_grad[1] else None, None


class LinearByType(torch.autograd.Function):
    """``y_t = x_t w_t`` for runs of rows, one per type; ``dx_t = dy_t w_t.T``, ``dw_t = x_t.T dy_t``.

    Rows ``(N, I)`` and their gradient become one operand each, whatever the number of types; weights ``(T, I, O)`` one
    per type.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor, lengths: tuple[int, ...], products: Products) -> Tensor:
        rows, matrices = products.operand(x), [products.weight(each) for each in weights.unbind()]
        out = x.new_empty(x.shape[0], weights.shape[2])  # (N, I) -> (N, O)
        for (start, stop), matrix in zip(_runs(lengths), matrices, strict=True):
            if start < stop:
                products.mm(products.part(rows, (start, stop)), matrix, out=out[start:stop])
        ctx.lengths, ctx.products, ctx.shape = lengths, products, weights.shape
        save_operands(ctx, products.saved(rows), *matrices)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (rows, *matrices), products = saved_operands(ctx), ctx.products
        gradient = products.operand(gradients[0].contiguous())
        dx = gradients[0].new_empty(gradients[0].shape[0], ctx.shape[1]) if ctx.needs_input_grad[0] else None
        dw = gradients[0].new_zeros(ctx.shape) if ctx.needs_input_grad[1] else None  # zeros for types without rows
        for number, (start, stop) in enumerate(_runs(ctx.lengths)):
            if start == stop:
                continue
            run_gradient = products.part(gradient, (start, stop))
            if dx is not None:
                products.mm(run_gradient, matrices[number], transposed="b", out=dx[start:stop])
            if dw is not None:
                products.mm(products.part(rows, (start, stop)), run_gradient, transposed="a", out=dw[number])
        return dx, dw, None, None


def _runs(lengths: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return start and stop of each run of rows."""
    stops = list(itertools.accumulate(lengths))
    return list(zip([0, *stops[:-1]], stops, strict=True))


class AggregateFunction(torch.autograd.Function):
    """``y = A x``; ``dx = A.T dy``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: Adjacency, products: Products) -> Tensor:
        ctx.adjacency, ctx.products = adjacency, products
        return products.spmm(adjacency, products.operand(x))  # linear in x, so nothing is saved

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = ctx.products.operand(gradients[0].contiguous())
        return ctx.products.spmm(ctx.adjacency, gradient, transposed=True), None, None


class AttendFunction(torch.autograd.Function):
    """Attention over all columns of a matrix; of ``z`` only the operand is saved, for both values and logits."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, a_source: Tensor, a_target: Tensor, adjacency: Adjacency, slope: float, products: Products
    ) -> Tensor:
        source, target = (rounded(products, (z * vector).sum(-1)) for vector in (a_source, a_target))  # (N, K)
        values = products.operand(z)  # after the logits, as in distributed runs: noise depends on the order of operands
        out, stats = products.attend_rows(adjacency, values, source, target, slope=slope)
        ctx.adjacency, ctx.slope, ctx.products = adjacency, slope, products
        save_operands(ctx, products.saved(values), a_source, a_target, source, target, products.saved(out), stats)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (values, a_source, a_target, source, target, out, stats), products = saved_operands(ctx), ctx.products
        gradient = products.operand(gradients[0].contiguous())
        edge_gradients = source.new_empty(ctx.adjacency.num_edges, source.shape[1])  # (E, K)
        # Gradients by source, (N, K, F) and (N, K); those of edges are written to the buffer, for the targets.
        d_z, d_source = products.attend_columns(
            ctx.adjacency,
            values,
            source,
            pack_rows(target, stats, products.dense(gradient), products.dense(out)),
            gradient,
            edge_gradients,
            columns=(0, ctx.adjacency.num_columns),
            slope=ctx.slope,
        )
        d_target = segment_sum(ctx.adjacency, edge_gradients)  # (E, K) -> (R, K)
        z = products.dense(values)
        d_vectors = [(logits.unsqueeze(-1) * z).sum(0) for logits in (d_source, d_target)]  # 2 x (K, F)
        # z also enters through both halves of the logits, <a, z>.
        for logits, vector in ((d_source, a_source), (d_target, a_target)):
            d_z.addcmul_(logits.unsqueeze(-1), vector)
        return d_z, *d_vectors, None, None, None
