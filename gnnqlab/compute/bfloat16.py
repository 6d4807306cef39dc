"""Rows, weights and gradients in bfloat16 where they are multiplied, and rows between passes; sums in float32.

An operand is its tensor rounded to nearest, 8 significant bits: relative error u = 2^-8 at most. A product of two is
off by at most ``(2 u + u^2) |a| |b|``, a sum over edges by ``u |A| |x|``, and by the order of float32 sums. Half of
float32's memory is kept for the backward pass.

What is normed, activated and dropped between two layers is bfloat16 too: the sums of a layer are rounded once, the pass
over them reads and writes bfloat16 and computes in float32, and what comes out is the next layer's operand; the same
holds for gradients on their way back. Float32 stay: what a product or a sum over neighbours delivers, until it is
rounded, so that no sum is ever rounded in between; mean and deviation of a row, gradients of weights and all that the
optimizer has, for they add small numbers to large ones; logits, softmax and loss, and what the layer before the loss
multiplies, for their errors are the loss's; and what other passes over rows (``rowwise``) compute. The type of rows on
the wire is the codec's choice: a bfloat16 row comes out of float32 as it went in, and the codec ``BFloat16`` sends it
as it is, at half the bytes. One sum is bfloat16's: where two passes take the same row, its two gradients are rounded
before they are added, and so is what they come to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.prepared import PreparedProducts
from gnnqlab.compute.products import Compute, Operand, Products, Range, widened
from gnnqlab.kernels.dense.dense import bfloat16_mm
from gnnqlab.kernels.rowwise import nodewise
from gnnqlab.kernels.rowwise.nodewise import Mask, Norm
from gnnqlab.kernels.sparse import attention
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.aggregate import spmm

__all__ = ["BFloat16Products", "BFloat16Rows"]


@dataclass(frozen=True)
class BFloat16Rows(Compute):
    """Compute: operands and rows between layers in bfloat16, sums in float32; the layer before the loss in float32."""

    kept_bytes: ClassVar[int] = 2
    """Bytes of an element of the rows that a layer keeps for the backward pass, at least: the last keeps float32."""

    def build(self, device: torch.device | str = "cpu") -> Products:
        """Return the products of one worker."""
        return BFloat16Products()


class BFloat16Products(PreparedProducts):
    """Products of bfloat16 operands, summed in float32.

    Example:
        >>> products = BFloat16Products()
        >>> products.linear(torch.tensor([[1.001, 2.0]]), torch.ones(2, 1)).item()
        3.0
    """

    @property
    def exact(self) -> Products:
        return PLAIN

    def rowwise(self, compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        return compute(*map(widened, rows))

    def nodewise(
        self, x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None, inplace: bool = False
    ) -> Tensor:
        return nodewise.nodewise(x.bfloat16(), norm, activation=activation, mask=mask, inplace=inplace)

    def nodewise_both(
        self, x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None
    ) -> tuple[Tensor, Tensor]:
        return nodewise.nodewise_both(x.bfloat16(), norm, activation=activation, mask=mask)

    def part(self, operand: Operand, rows: Range) -> Operand:
        return operand[rows[0] : rows[1]]

    def dense(self, operand: Operand) -> Tensor:
        values: Tensor = operand.float()
        return values

    def mm(
        self,
        a: Operand,
        b: Operand,
        *,
        transposed: str = "",
        out: Tensor | None = None,
    ) -> Tensor:
        return bfloat16_mm(*_factors(a, b, transposed), out=out)

    def addmm(
        self,
        base: Tensor,
        a: Operand,
        b: Operand,
        *,
        transposed: str = "",
        out: Tensor | None = None,
    ) -> Tensor:
        a, b = _factors(a, b, transposed)
        if out is None:
            out = torch.empty((a.shape[0], b.shape[1]), device=a.device)
        if out is not base:
            out.copy_(base)
        return bfloat16_mm(a, b, out=out, accumulate=True)

    def spmm(
        self,
        adjacency: Adjacency,
        x: Operand,
        halo: Operand | None = None,
        *,
        rows: Range | None = None,
        transposed: bool = False,
        out: Tensor | None = None,
        accumulate: bool = False,
    ) -> Tensor:
        halo = None if halo is None else halo.bfloat16()
        return spmm(adjacency, x.bfloat16(), halo, rows=rows, transposed=transposed, out=out, accumulate=accumulate)

    def attend_rows(
        self,
        adjacency: Adjacency,
        values: Operand,
        source_logits: Tensor,
        target_logits: Tensor,
        halo_values: Operand | None = None,
        halo_logits: Tensor | None = None,
        *,
        slope: float = 0.2,
        rows: Range | None = None,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        halo = None if halo_values is None else _rounded(halo_values)
        operands = (_rounded(values), source_logits, target_logits, halo, halo_logits)
        return attention.attend_rows(adjacency, *operands, slope=slope, rows=rows, out=out)

    def attend_columns(
        self,
        adjacency: Adjacency,
        values: Operand,
        source_logits: Tensor,
        packed: Tensor,
        gradient: Operand,
        edge_gradients: Tensor,
        *,
        columns: Range,
        slope: float = 0.2,
    ) -> tuple[Tensor, Tensor]:
        operands = (_rounded(values), source_logits, packed, _rounded(gradient), edge_gradients)
        return attention.attend_columns(adjacency, *operands, columns=columns, slope=slope)

    def _prepare(self, x: Tensor) -> Operand:
        return x.to(torch.bfloat16, memory_format=torch.contiguous_format)

    def _blank(self, x: Tensor) -> Operand:
        return torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)

    def _fill(self, operand: Operand, x: Tensor, rows: Range) -> None:
        operand[rows[0] : rows[1]].copy_(x[rows[0] : rows[1]])


def _factors(a: Operand, b: Operand, transposed: str) -> tuple[Tensor, Tensor]:
    a, b = a.bfloat16(), b.bfloat16()
    return a.t() if transposed == "a" else a, b.t() if transposed == "b" else b


def _rounded(values: Operand) -> Tensor:
    """Values as the kernels of attention take them, which know float32 rows alone."""
    widened: Tensor = values.bfloat16().float()
    return widened
