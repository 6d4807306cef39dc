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
from gnnqlab.compute.products import Compute, Operand, Products, Range, to_float32, turned
from gnnqlab.kernels.dense.dense import bfloat16_mm
from gnnqlab.kernels.rowwise import nodewise
from gnnqlab.kernels.rowwise.nodewise import Mask, Norm
from gnnqlab.kernels.sparse.adjacency import Adjacency

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
        return compute(*map(to_float32, rows))

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

    def _product(self, base: Tensor | None, a: Operand, b: Operand, transposed: str, out: Tensor | None) -> Tensor:
        a, b = turned(a.bfloat16(), b.bfloat16(), transposed)
        if base is None:
            return bfloat16_mm(a, b, out=out)
        if out is None:
            out = torch.empty((a.shape[0], b.shape[1]), device=a.device)
        if out is not base:
            out.copy_(base)
        return bfloat16_mm(a, b, out=out, accumulate=True)

    def _sources(
        self, adjacency: Adjacency, x: Operand, halo: Operand | None, rows: Range | None, transposed: bool
    ) -> tuple[Tensor, Tensor | None]:
        return x.bfloat16(), None if halo is None else halo.bfloat16()

    def _values(self, operand: Operand) -> Tensor:
        rounded: Tensor = operand.bfloat16().float()  # the kernels of attention take float32 rows alone
        return rounded

    def _prepare(self, x: Tensor) -> Operand:
        return x.to(torch.bfloat16, memory_format=torch.contiguous_format)

    def _blank(self, x: Tensor) -> Operand:
        return torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)

    def _fill(self, operand: Operand, x: Tensor, rows: Range) -> None:
        operand[rows[0] : rows[1]].copy_(x[rows[0] : rows[1]])
