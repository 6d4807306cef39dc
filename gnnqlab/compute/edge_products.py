"""Products along edges with rows as codes, and their differentiable forms: weighted sums per head, values of edges.

Values of edges, such as attention weights, are multiplied in float32; the rows at both ends and incoming gradients are
quantized (TANGO, sections 3.3 and 3.4). Gradients of edge values are summed at nodes in float32: with only a few values
per edge, a scale takes as many bytes as codes save.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gnnqlab.compute.codes import Codes
from gnnqlab.compute.prepared import PreparedProducts
from gnnqlab.compute.products import Operand
from gnnqlab.compute.saved import save_operands, saved_operands
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.head_sums import head_sums
from gnnqlab.kernels.sparse.int8_edges import int8_sddmm_add, int8_sddmm_dot
from gnnqlab.kernels.sparse.sddmm import segment_sum

__all__ = ["EdgeAdd", "EdgeDot", "EdgeProducts", "EdgeSum", "WeightedSum"]


class EdgeProducts(PreparedProducts):
    """Products of codes along edges; no gradient is recorded.

    Operands are codes or matrices; a matrix is quantized for one product only. Letters: N columns, R rows, E edges,
    K heads of F features.
    """

    head_way: str = "measured"
    """Method for sums of several heads, one of :data:`gnnqlab.kernels.sparse.head_sums.WAYS`."""

    def weighted_sum(self, adjacency: Adjacency, weights: Tensor, x: Operand) -> Tensor:
        """Return ``out[i, k] = sum_e weights[e, k] x[source of e, k]``, ``(R, K, F)``, of an operand ``(N, K, F)``."""
        heads = x.shape[1]
        return head_sums(adjacency, weights.contiguous(), self._codes(x).rows, heads=heads, way=self.head_way)

    def edge_dot(self, adjacency: Adjacency, x: Operand, y: Operand) -> Tensor:
        """Return ``<x[source of e, k], y[row of e, k]>``, ``(E, K)``, of operands ``(N, K, F)`` and ``(R, K, F)``."""
        heads = x.shape[1]
        return int8_sddmm_dot(adjacency, self._codes(x).rows, self._codes(y).rows, heads=heads)

    def edge_add(self, adjacency: Adjacency, x: Operand, y: Operand) -> Tensor:
        """Return ``x[source of e] + y[row of e]``, ``(E, K)``, of operands ``(N, K)`` and ``(R, K)``."""
        return int8_sddmm_add(adjacency, self._codes(x).rows, self._codes(y).rows)

    def edge_sum(self, incidence: Adjacency, x: Tensor) -> Tensor:
        """Return the sums of rows of edges ``(E, D)`` at nodes, ``(R, D)``.

        The sum reads each row once, so its codes are not stored; existing ones are used.
        """
        entry = self._known.get(x)  # codes that another product of this pass made
        if entry is not None and entry.is_current(x):
            return self.spmm(incidence, entry.operand)
        return self._sum_alone(incidence, x)

    @abstractmethod
    def _codes(self, x: Operand) -> Codes:
        """Return the codes of an operand for a product, and count them."""

    @abstractmethod
    def _sum_alone(self, incidence: Adjacency, x: Tensor) -> Tensor:
        """Sum rows that are quantized for this sum only."""


class WeightedSum(torch.autograd.Function):
    """``y[v, k] = sum_e w[e, k] x[u, k]``; ``dx`` is the same sum of ``dy``, transposed, ``dw[e] = <x[u], dy[v]>``."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, x: Tensor, adjacency: Adjacency, products: EdgeProducts) -> Tensor:
        rows = products.operand(x.contiguous())  # (N, K, F)
        ctx.adjacency, ctx.products = adjacency, products
        save_operands(ctx, weights, rows)
        return products.weighted_sum(adjacency, weights, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (weights, rows), products, adjacency = saved_operands(ctx), ctx.products, ctx.adjacency
        # Codes of dy (R, K, F), made once for both products.
        gradient, d_weights = products.operand(gradients[0].contiguous()), None
        if ctx.needs_input_grad[0]:
            d_weights = products.edge_dot(adjacency, rows, gradient)  # (N, K, F), (R, K, F) -> (E, K)
        if not ctx.needs_input_grad[1]:
            return d_weights, None, None, None
        column_weights = weights[adjacency.transposed_edges.long()]  # (E, K), in the edge order of the transpose
        # dx: a weighted sum over the transpose, (R, K, F) -> (N, K, F).
        return d_weights, products.weighted_sum(adjacency.transposed, column_weights, gradient), None, None


class EdgeDot(torch.autograd.Function):
    """``out[e, k] = <x[u, k], y[v, k]>``, with the gradients of both."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, adjacency: Adjacency, products: EdgeProducts) -> Tensor:
        # (N, K, F), (R, K, F)
        x_rows, y_rows = (products.operand(x.contiguous()), products.operand(y.contiguous()))
        ctx.adjacency, ctx.products = adjacency, products
        save_operands(ctx, x_rows, y_rows)
        return products.edge_dot(adjacency, x_rows, y_rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (x_rows, y_rows), products, adjacency = saved_operands(ctx), ctx.products, ctx.adjacency
        gradient = gradients[0].contiguous()  # (E, K) float32: used as weights, not rounded
        column_gradient = gradient[adjacency.transposed_edges.long()]  # (E, K), in the edge order of the transpose
        dx = products.weighted_sum(adjacency.transposed, column_gradient, y_rows) if ctx.needs_input_grad[0] else None
        dy = products.weighted_sum(adjacency, gradient, x_rows) if ctx.needs_input_grad[1] else None
        return dx, dy, None, None


class EdgeAdd(torch.autograd.Function):
    """``out[e, k] = x[u, k] + y[v, k]`` of quantized rows; gradients are float32 sums without products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, adjacency: Adjacency, products: EdgeProducts) -> Tensor:
        ctx.adjacency = adjacency  # the gradients need no operand, so none is saved
        x_rows, y_rows = (products.operand(each.contiguous()) for each in (x, y))  # (N, K), (R, K)
        return products.edge_add(adjacency, x_rows, y_rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient, needs_grad = gradients[0].contiguous(), ctx.needs_input_grad
        dx = segment_sum(ctx.adjacency, gradient, by_column=True) if needs_grad[0] else None  # (E, K) -> (N, K)
        return dx, segment_sum(ctx.adjacency, gradient) if needs_grad[1] else None, None, None


class EdgeSum(torch.autograd.Function):
    """``y[v] = sum_e x[e]`` of rows of edges ``(E, D)``; ``dx[e] = dy[v]``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, incidence: Adjacency, products: EdgeProducts) -> Tensor:
        ctx.incidence, ctx.products = incidence, products
        return products.edge_sum(incidence, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = ctx.products.operand(gradients[0].contiguous())  # (R, D)
        # Row e of the transposed incidence matrix has one entry, the node of edge e: (R, D) -> (E, D).
        return ctx.products.spmm(ctx.incidence, gradient, transposed=True), None, None
