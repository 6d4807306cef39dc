"""Base class of products with prepared operands: each is made at most once per pass, and saved for backward.

A new precision is a subclass with `_prepare`, `_blank`, `_fill`, `exact`, `part` and `dense`, with those of `_factor`,
`_sources` and `_values` that convert its operands to rows of a kernel, and a recipe part that builds it
(``gnnqlab/compute/bfloat16.py`` has both).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import MutableMapping

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from gnnqlab.compute.gradients import AggregateFunction, AttendFunction, LinearFunction
from gnnqlab.compute.products import Operand, PassRows, Products, Range
from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["PreparedProducts"]


class PreparedProducts(Products):
    """Products that cache their prepared operands by tensor for one pass, also in the backward pass."""

    def __init__(self) -> None:
        self._known: MutableMapping[Tensor, _CachedOperand] = WeakTensorKeyDictionary()  # weak: dropped with the tensor

    def begin(self, rows: PassRows | None = None) -> None:
        self._known.clear()

    def operand(self, x: Operand, rows: Range | None = None) -> Operand:
        if not isinstance(x, Tensor) or x.dtype not in (torch.float32, torch.float64):  # an operand already
            return x
        entry = self._known.get(x)
        if rows is None:
            if entry is None or not entry.is_current(x):
                entry = self._known[x] = _CachedOperand(self._prepare(x), x._version, x.shape[0])
            return entry.operand
        if entry is not None and entry.is_current(x):
            return entry.operand
        if entry is None:
            # No version: the tensor itself is filled range by range in the meantime, which changes its version.
            entry = self._known[x] = _CachedOperand(self._blank(x), None, 0)
        self._fill(entry.operand, x, rows)
        entry.filled += rows[1] - rows[0]  # ranges do not overlap: complete at N rows
        return entry.operand

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        product: Tensor = LinearFunction.apply(x, weight, self)
        return product if bias is None else product.add_(bias)  # in place: the product is not saved for backward

    def affine(self, base: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
        if alpha == beta == 1.0 and base.dim() == 1:
            return self.linear(x, weight, base)
        # alpha scales the result, since a scaled x would be another operand.
        return torch.add(base if beta == 1.0 else beta * base, self.linear(x, weight), alpha=alpha)

    def aggregate(self, adjacency: Adjacency, x: Tensor) -> Tensor:
        sums: Tensor = AggregateFunction.apply(x, adjacency, self)
        return sums

    def attend(
        self, adjacency: Adjacency, z: Tensor, a_source: Tensor, a_target: Tensor, *, slope: float = 0.2
    ) -> Tensor:
        attended: Tensor = AttendFunction.apply(z, a_source, a_target, adjacency, slope, self)
        return attended

    @abstractmethod
    def _prepare(self, x: Tensor) -> Operand:
        """Convert a whole float32 tensor to an operand."""

    @abstractmethod
    def _blank(self, x: Tensor) -> Operand:
        """Allocate an operand like that of ``x``, with rows to be filled later."""

    @abstractmethod
    def _fill(self, operand: Operand, x: Tensor, rows: Range) -> None:
        """Write some rows of ``x`` into a blank operand."""


class _CachedOperand:
    """An operand of this pass, the number of its filled rows, and the version of its tensor."""

    def __init__(self, operand: Operand, version: int | None, filled: int) -> None:
        self.operand, self.filled = operand, filled
        self._version = version

    def is_current(self, x: Tensor) -> bool:
        """Return True if the operand is complete and current; one filled by rows is assumed to be current."""
        return self.filled == x.shape[0] and self._version in (None, x._version)
