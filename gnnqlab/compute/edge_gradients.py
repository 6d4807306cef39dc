"""Differentiable products over edges whose rows are operands: sums weighed head by head, and numbers of edges.

An edge's own number, such as an attention, is multiplied as it is; what is prepared is the rows at its ends and the
gradients that come in (TANGO, sections 3.3 and 3.4). Gradients of numbers of edges are summed at nodes in float32: of a
few numbers an edge, a scale takes what codes save. Letters: N columns, R rows, E edges, K heads, F features of a
head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.compute.edge_products import EdgeProducts
from gnnqlab.compute.kept import keep, kept
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.sddmm import segment_sum

__all__ = ["EdgeAdd", "EdgeDot", "EdgeSum", "WeightedSum"]


class WeightedSum(torch.autograd.Function):
    """``y[v, k] = sum_e w[e, k] x[u, k]``; ``dx`` is the same sum of ``dy``, transposed, ``dw[e] = <x[u], dy[v]>``."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, x: Tensor, adjacency: Adjacency, products: EdgeProducts) -> Tensor:
        rows = products.operand(x.contiguous())
        ctx.adjacency, ctx.products = adjacency, products
        keep(ctx, weights, rows)
        return products.weighted_sum(adjacency, weights, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (weights, rows), products, adjacency = kept(ctx), ctx.products, ctx.adjacency
        gradient, of_weights = products.operand(gradients[0].contiguous()), None
        if ctx.needs_input_grad[0]:
            of_weights = products.edge_dot(adjacency, rows, gradient)
        if not ctx.needs_input_grad[1]:
            return of_weights, None, None, None
        turned = weights[adjacency.transposed_edges.long()]
        return of_weights, products.weighted_sum(adjacency.transposed, turned, gradient), None, None


class EdgeDot(torch.autograd.Function):
    """``out[e, k] = <x[u, k], y[v, k]>``, with the gradients of both."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, adjacency: Adjacency, products: EdgeProducts) -> Tensor:
        of_columns, of_rows = products.operand(x.contiguous()), products.operand(y.contiguous())
        ctx.adjacency, ctx.products = adjacency, products
        keep(ctx, of_columns, of_rows)
        return products.edge_dot(adjacency, of_columns, of_rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (of_columns, of_rows), products, adjacency = kept(ctx), ctx.products, ctx.adjacency
        gradient = gradients[0].contiguous()
        turned = gradient[adjacency.transposed_edges.long()]
        dx = products.weighted_sum(adjacency.transposed, turned, of_rows) if ctx.needs_input_grad[0] else None
        dy = products.weighted_sum(adjacency, gradient, of_columns) if ctx.needs_input_grad[1] else None
        return dx, dy, None, None


class EdgeAdd(torch.autograd.Function):
    """``out[e, k] = x[u, k] + y[v, k]`` of prepared rows; gradients are sums, which multiply nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, adjacency: Adjacency, products: EdgeProducts) -> Tensor:
        ctx.adjacency = adjacency
        of_columns, of_rows = (products.operand(each.contiguous()) for each in (x, y))
        return products.edge_add(adjacency, of_columns, of_rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, needed = gradients[0].contiguous(), ctx.needs_input_grad
        dx = segment_sum(ctx.adjacency, gradient, by_column=True) if needed[0] else None
        return dx, segment_sum(ctx.adjacency, gradient) if needed[1] else None, None, None


class EdgeSum(torch.autograd.Function):
    """``y[v] = sum_e x[e]`` of rows of edges ``(E, D)``; ``dx[e] = dy[v]``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, incidence: Adjacency, products: EdgeProducts) -> Tensor:
        ctx.incidence, ctx.products = incidence, products
        return products.edge_sum(incidence, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = ctx.products.operand(gradients[0].contiguous())
        return ctx.products.spmm(ctx.incidence, gradient, transposed=True), None, None
