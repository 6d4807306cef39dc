"""Sparse feature matrix whose projection costs as much as its stored values, independent of its width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.graph.features import SparseRows
from gnnqlab.kernels.noise import dropout_values
from gnnqlab.kernels.sparse.aggregate import Adjacency

__all__ = ["SparseInput", "project"]


@dataclass(frozen=True, eq=False)
class SparseInput:
    """Features of owned nodes as a sparse matrix: rows are nodes, columns are features."""

    matrix: Adjacency
    values: Tensor
    """Stored values, float32 ``(nnz,)``; those of the matrix, or those after dropout."""

    @classmethod
    def from_rows(cls, rows: SparseRows, device: torch.device | str = "cpu") -> SparseInput:
        matrix = Adjacency(rows.indptr, rows.indices, rows.values, num_columns=rows.num_columns).to(device)
        assert matrix.weights is not None
        return cls(matrix, matrix.weights)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.num_rows, self.matrix.num_columns

    def to_dense(self) -> Tensor:
        """Convert to a dense matrix, float32 ``(N, D)``."""
        rows = torch.zeros(self.shape, device=self.values.device)
        rows[self._row_of_value(), self.matrix.indices.long()] = self.values
        return rows

    def dropout(self, ids: Tensor, *, p: float, seed: int, epoch: int, stream: int) -> SparseInput:
        """Drop stored values with the mask that the dense matrix would have at their positions."""
        values = dropout_values(
            self.values,
            ids[self._row_of_value()],  # (nnz,) node of each value
            self.matrix.indices,
            p=p,
            seed=seed,
            epoch=epoch,
            stream=stream,
        )
        return SparseInput(self.matrix, values)

    def _row_of_value(self) -> Tensor:
        return torch.repeat_interleave(self.matrix.indptr.diff())  # (nnz,)


def project(products: Products, x: Tensor | SparseInput, weight: Tensor) -> Tensor:
    """Compute ``x @ weight``; for a sparse ``x`` from its stored values only, which stay in float32."""
    if isinstance(x, SparseInput):
        product: Tensor = _SparseProduct.apply(weight, x, products)
        return product
    return products.linear(x, weight)


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: SparseInput, products: Products) -> Tensor:
        # x has no gradient and never changes, so it needs no save_for_backward.
        ctx.x, ctx.products = x, products
        return products.spmm(_with_values(x.matrix, x.values), products.weight(weight))  # (N, D), (D, O) -> (N, O)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        x: SparseInput = ctx.x
        transposed = x.matrix.transposed  # (D, N), cached
        if x.values is not x.matrix.weights:  # after dropout the cached transpose has other values
            transposed = _with_values(transposed, x.values[x.matrix.transposed_edges])  # in the order of the transpose
        # The gradient of W is x^T dY: (D, N), (N, O) -> (D, O).
        return ctx.products.spmm(transposed, ctx.products.operand(gradients[0].contiguous())), None, None


def _with_values(matrix: Adjacency, values: Tensor) -> Adjacency:
    if values is matrix.weights:
        return matrix
    return Adjacency(matrix.indptr, matrix.indices, values, num_columns=matrix.num_columns)
