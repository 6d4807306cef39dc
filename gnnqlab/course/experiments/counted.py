"""Float32 products that count the work of a training pass, and time dense products as a phase of their own.

Without them the phases ``central`` and ``marginal`` include the products between aggregations
(``train/loop/phase_timer.py``). With them these phases are aggregations with minor overhead, and ``products`` is the
time of all dense products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from gnnqlab.compute.float32 import PlainProducts
from gnnqlab.compute.products import Operand, PassRows, Range
from gnnqlab.kernels.rowwise.nodewise import Mask, Norm
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.nn.pass_clock import PassClock
from gnnqlab.theory.limits import NeighbourSum, Product, RowPass
from gnnqlab.train.loop.trainer import Trainer

__all__ = ["CountedProducts", "Work", "count"]

T = TypeVar("T")


@dataclass
class Work:
    """Work of one training pass of a worker, forward and backward: number of times per operation."""

    products: Counter[Product] = field(default_factory=Counter)
    sums: Counter[NeighbourSum] = field(default_factory=Counter)
    passes: Counter[RowPass] = field(default_factory=Counter)

    @property
    def flops(self) -> int:
        """Floating point operations of all dense products."""
        return sum(times * each.flops for each, times in self.products.items())

    @property
    def sum_bytes(self) -> int:
        """Compulsory bytes of all aggregations."""
        return sum(times * each.bytes for each, times in self.sums.items())


def count(trainer: Trainer) -> Work:
    """Make a worker's trainer count its next training pass; return the object that it fills.

    Args:
        trainer: result of :func:`gnnqlab.train.loop.trainer.worker_trainer`, before its first epoch.

    Raises:
        ValueError: if its products are not float32 products.
    """
    exchange = trainer.graph.exchange
    if exchange.products.exact is not exchange.products:
        raise ValueError(
            f"work is counted of float32 products, got {type(exchange.products).__name__}; choose compute float32"
        )
    # The products of the exchange are replaced, so models and layers need no change to be counted.
    products = CountedProducts(trainer.clock)
    exchange.products = products
    return products.work


class CountedProducts(PlainProducts):
    """Products of `PlainProducts`, timed in their own phase, and counted in the first training pass.

    All passes do the same work, so one is counted. Attention is not supported: its compulsory traffic exceeds that of
    an aggregation and has no formula here.
    """

    def __init__(self, clock: PassClock) -> None:
        self.work = Work()
        self._clock = clock
        self._passes = 0  # number of training passes so far
        self._counting = False  # True in the first training pass only
        # edges and distinct sources of a range of rows, by matrix
        self._spans: WeakKeyDictionary[Adjacency, dict[Range, tuple[int, int]]] = WeakKeyDictionary()

    def begin(self, rows: PassRows | None = None) -> None:
        training = rows is not None and rows.training
        self._passes += training  # evaluation does not count
        self._counting = training and self._passes == 1

    def mm(self, a: Operand, b: Operand, *, transposed: str = "", out: Tensor | None = None) -> Tensor:
        self._count_product(a, b, transposed)
        return self._in("products", super().mm, a, b, transposed=transposed, out=out)

    def addmm(self, base: Tensor, a: Operand, b: Operand, *, transposed: str = "", out: Tensor | None = None) -> Tensor:
        self._count_product(a, b, transposed)
        return self._in("products", super().addmm, base, a, b, transposed=transposed, out=out)

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
        if self._counting:
            matrix = adjacency.transposed if transposed else adjacency
            self._count_sum(matrix, rows or (0, matrix.num_rows), x.shape[1], added=accumulate)
        settings = {"rows": rows, "transposed": transposed, "out": out, "accumulate": accumulate}
        # the phase of aggregations, as without counting
        return self._in("central", super().spmm, adjacency, x, halo, **settings)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        self._count_linear(x, weight)
        return super().linear(x, weight, bias)

    def affine(self, base: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
        self._count_linear(x, weight)
        return super().affine(base, x, weight, beta=beta, alpha=alpha)

    def rowwise(self, compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        out = super().rowwise(compute, *rows)
        self._count_pass(rows, out)
        return out

    def residual(self, x: Tensor, first: Tensor, share: float) -> tuple[Tensor, Tensor]:
        result, next_first = super().residual(x, first, share)
        self._count_pass((x, first), result)
        return result, next_first

    def join(self, layers: Sequence[Tensor], how: str, *, mask: Mask | None) -> Tensor:
        out = super().join(layers, how, mask=mask)
        self._count_pass(tuple(layers), out)
        return out

    def nodewise(
        self, x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None, inplace: bool = False
    ) -> Tensor:
        out = super().nodewise(x, norm, activation=activation, mask=mask, inplace=inplace)
        self._count_pass((x,), out)
        return out

    def nodewise_both(
        self, x: Tensor, norm: Norm | None, *, activation: str, mask: Mask | None
    ) -> tuple[Tensor, Tensor]:
        outputs = super().nodewise_both(x, norm, activation=activation, mask=mask)
        self._count_pass((x,), *outputs)
        return outputs

    def attend_rows(self, *operands: Any, **settings: Any) -> tuple[Tensor, Tensor]:
        # Refuse rather than report too little work.
        raise ValueError("the work of attention is not counted, got a model with attention; choose one without")

    def _in(self, phase: str, run: Callable[..., T], *operands: Any, **settings: Any) -> T:
        outer_phase = self._clock.enter(phase)  # returns the phase that was active
        try:
            return run(*operands, **settings)
        finally:
            self._clock.enter(outer_phase)

    def _count_product(self, a: Tensor, b: Tensor, transposed: str) -> None:
        if not self._counting:
            return
        rows, inner_size = reversed(a.shape) if transposed == "a" else a.shape  # the shape after the transposition
        product = Product(rows=rows, inner=inner_size, columns=b.shape[transposed != "b"], transposed=transposed)
        if product.flops:  # an empty product takes no time
            self.work.products[product] += 1

    def _count_linear(self, x: Tensor, weight: Tensor) -> None:
        """Count ``x W`` and the products of its backward pass: ``x^T dY``, and ``dY W^T`` if ``x`` needs a gradient."""
        if self._counting and torch.is_grad_enabled():
            (rows, inner_size), columns = x.shape, weight.shape[1]
            self._count_product(x, weight, "")
            self.work.products[Product(rows=inner_size, inner=rows, columns=columns, transposed="a")] += 1
            if x.requires_grad:
                self.work.products[Product(rows=rows, inner=columns, columns=inner_size, transposed="b")] += 1

    def _count_sum(self, matrix: Adjacency, rows: Range, columns: int, *, added: bool) -> None:
        first_row, end_row = rows
        if first_row == end_row:  # half-open
            return
        spans = self._spans.setdefault(matrix, {})
        if rows not in spans:  # unique() is slow, and every pass uses the same spans
            start, stop = matrix.indptr[[first_row, end_row]].tolist()
            # rows of the input that are read at least once
            spans[rows] = stop - start, matrix.indices[start:stop].unique().numel()
        edges, source_rows = spans[rows]
        weighted = matrix.weights is not None
        neighbour_sum = NeighbourSum(
            edges=edges,
            source_rows=source_rows,
            rows=end_row - first_row,
            columns=columns,
            weighted=weighted,
            added=added,
        )
        self.work.sums[neighbour_sum] += 1

    def _count_pass(self, rows: tuple[Tensor, ...], *outs: Tensor) -> None:
        if not self._counting:
            return
        num_elements = sum(out.numel() for out in outs)  # elements written
        self.work.passes[RowPass(num_read=sum(each.numel() for each in rows), num_written=num_elements)] += 1
        # The backward pass reads the gradient of the output and writes that of each input that needs one.
        if num_gradients := sum(each.numel() for each in rows if each.requires_grad):
            self.work.passes[RowPass(num_read=num_elements, num_written=num_gradients)] += 1
