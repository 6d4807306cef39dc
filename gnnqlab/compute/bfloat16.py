"""Operands of products and rows between layers in bfloat16; sums in float32.

An operand is its tensor rounded to nearest, with 8 significant bits: relative error at most u = 2^-8. The error of a
product is at most ``(2 u + u^2) |a| |b|``, of a sum over edges ``u |A| |x|``, plus that of the order of float32 sums.
Saved activations take half of float32's memory.

Between two layers norm, activation and dropout are bfloat16 too: the sums of a layer are rounded once, the pass over
them reads and writes bfloat16 and computes in float32, and its result is the next layer's operand. The same holds for
gradients in the backward pass. Float32 remain:

* results of products and aggregations until they are rounded, so that no partial sum is ever rounded;
* mean and deviation of a row, gradients of weights and the state of the optimizer, which add small numbers to large;
* logits, softmax, loss, and products of the layer before the loss, because their errors enter the loss directly;
* results of other passes over rows (``rowwise``).

The codec chooses the type of rows on the wire: a bfloat16 row is unchanged by float32, and the codec ``BFloat16`` sends
it unchanged, at half the bytes. Only one sum is bfloat16: if two passes use the same row, its two gradients are rounded
before they are added, and so is their sum.
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
    """Least bytes per element of a layer's saved activations; the last layer saves float32."""

    def build(self, device: torch.device | str = "cpu") -> Products:
        """Create the products of one worker."""
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
        values: Tensor = operand.float()  # exact: every bfloat16 value is a float32 value
        return values

    def _product(self, base: Tensor | None, a: Operand, b: Operand, transposed: str, out: Tensor | None) -> Tensor:
        a, b = turned(a.bfloat16(), b.bfloat16(), transposed)  # (N, D), (D, O); operands are unchanged
        if base is None:
            return bfloat16_mm(a, b, out=out)
        if out is None:
            out = torch.empty((a.shape[0], b.shape[1]), device=a.device)
        if out is not base:
            out.copy_(base)  # (O,) or (N, O) -> (N, O)
        return bfloat16_mm(a, b, out=out, accumulate=True)  # adds to float32, so the base is not rounded

    def _sources(
        self, adjacency: Adjacency, x: Operand, halo: Operand | None, rows: Range | None, transposed: bool
    ) -> tuple[Tensor, Tensor | None]:
        return x.bfloat16(), None if halo is None else halo.bfloat16()

    def _values(self, operand: Operand) -> Tensor:
        rows: Tensor = operand.bfloat16().float()  # the kernels of attention take float32 rows only
        return rows

    def _prepare(self, x: Tensor) -> Operand:
        return x.to(torch.bfloat16, memory_format=torch.contiguous_format)  # kernels take contiguous rows

    def _blank(self, x: Tensor) -> Operand:
        return torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)

    def _fill(self, operand: Operand, x: Tensor, rows: Range) -> None:
        operand[rows[0] : rows[1]].copy_(x[rows[0] : rows[1]])
