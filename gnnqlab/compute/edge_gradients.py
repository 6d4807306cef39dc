"""Differentiable products over edges whose rows are operands: sums weighed head by head, and numbers of edges.

An edge's own number, such as an attention, is multiplied as it is; what is prepared is the rows at its ends and the
gradients that come in (TANGO, sections 3.3 and 3.4). Letters: N columns, R rows, E edges, K heads, F features of a
head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.compute.kept import keep, kept
from gnnqlab.compute.products import Operand, Products
from gnnqlab.kernels.adjacency import Adjacency
from gnnqlab.kernels.sddmm import sddmm_add, sddmm_dot, segment_sum, weighted_sum

__all__ = ["EdgeAdd", "EdgeDot", "WeightedSum"]


class WeightedSum(torch.autograd.Function):
    """``y[v, k] = sum_e w[e, k] x[u, k]``; ``dx`` is such a sum of ``dy``, turned round; ``dw[e] = <x[u], dy[v]>``."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, x: Tensor, adjacency: Adjacency, products: Products) -> Tensor:
        rows = products.operand(x.contiguous())
        ctx.adjacency, ctx.products = adjacency, products
        keep(ctx, weights, rows)
        return _weighted(products, adjacency, weights, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (weights, rows), products, adjacency = kept(ctx), ctx.products, ctx.adjacency
        gradient, of_weights = products.operand(gradients[0].contiguous()), None
        if ctx.needs_input_grad[0]:
            of_weights = sddmm_dot(adjacency, products.dense(rows), products.dense(gradient))
        if not ctx.needs_input_grad[1]:
            return of_weights, None, None, None
        turned = weights[adjacency.transposed_edges.long()]
        return of_weights, _weighted(products, adjacency.transposed, turned, gradient), None, None


class EdgeDot(torch.autograd.Function):
    """``out[e, k] = <x[u, k], y[v, k]>``, with the gradients of both."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, adjacency: Adjacency, products: Products) -> Tensor:
        of_columns, of_rows = products.operand(x.contiguous()), products.operand(y.contiguous())
        ctx.adjacency, ctx.products = adjacency, products
        keep(ctx, of_columns, of_rows)
        return sddmm_dot(adjacency, products.dense(of_columns), products.dense(of_rows))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (of_columns, of_rows), products, adjacency = kept(ctx), ctx.products, ctx.adjacency
        gradient = gradients[0].contiguous()
        turned = gradient[adjacency.transposed_edges.long()]
        dx = _weighted(products, adjacency.transposed, turned, of_rows) if ctx.needs_input_grad[0] else None
        dy = _weighted(products, adjacency, gradient, of_columns) if ctx.needs_input_grad[1] else None
        return dx, dy, None, None


class EdgeAdd(torch.autograd.Function):
    """``out[e, k] = x[u, k] + y[v, k]`` of prepared rows; gradients are sums, which multiply nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, adjacency: Adjacency, products: Products) -> Tensor:
        ctx.adjacency = adjacency
        of_columns, of_rows = (products.dense(products.operand(each.contiguous())) for each in (x, y))
        return sddmm_add(adjacency, of_columns, of_rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, needed = gradients[0].contiguous(), ctx.needs_input_grad
        dx = segment_sum(ctx.adjacency, gradient, by_column=True) if needed[0] else None
        return dx, segment_sum(ctx.adjacency, gradient) if needed[1] else None, None, None


def _weighted(products: Products, adjacency: Adjacency, weights: Tensor, rows: Operand) -> Tensor:
    """Sum rows ``(N, K, F)``, one head as a sum with the weights of edges, several in one go."""
    _, heads, features = rows.shape
    if heads == 1:
        matrix = Adjacency.of_checked(
            adjacency.indptr, adjacency.indices, weights.squeeze(1).contiguous(), num_columns=adjacency.num_columns
        )
        flat = products.dense(rows).flatten(1) if isinstance(rows, Tensor) else rows
        return products.spmm(matrix, flat).view(-1, heads, features)
    return weighted_sum(adjacency, weights.contiguous(), products.dense(rows))
