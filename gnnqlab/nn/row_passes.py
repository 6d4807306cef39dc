"""Row-wise operations of a pass: norms, activations, dropout, joins; a result row depends on its own row only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gnnqlab.compute import Products
from gnnqlab.compute.recompute import RecomputeContext
from gnnqlab.exchange.aggregation_context import Drop, PrecomputedDropout
from gnnqlab.former_names import FormerMember
from gnnqlab.kernels.rowwise.nodewise import Mask, Norm
from gnnqlab.nn.pass_clock import PassClock, run_in_phase
from gnnqlab.observe import Observers

__all__ = ["RowPasses"]


class RowPasses(ABC):
    """The operations of a pass that need no neighbours."""

    clock: PassClock | None
    observers: Observers
    epoch: int
    _hops: int
    _products: Products
    _remakes: RecomputeContext | None

    @property
    @abstractmethod
    def _keeps_rows(self) -> bool:
        """True if rows are exchanged and cached before dropout, since receivers use them in other epochs."""

    _precomputed: PrecomputedDropout | None = None
    """Rows after dropout, precomputed by the latest :meth:`activate` for the next aggregation."""

    @abstractmethod
    def _next_drop(self, p: float) -> Drop | None: ...

    @abstractmethod
    def _drop_to_come(self, p: float) -> Drop | None:
        """Return the next dropout mask as :meth:`_next_drop`, without advancing its counter."""

    def rowwise(self, compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Return ``compute(*rows)`` for a row-wise function: norms, activations, sums, but no matrix product.

        The result equals a direct call; this method adds timing, recompute and the precision of the pass.

        Example:
            ``h = g.rowwise(torch.relu, h)``
        """
        run = partial(self._products.rowwise, compute)
        return self._register(run_in_phase(self.clock, "elementwise", run, *rows), run, *rows)

    def residual(self, x: Tensor, first: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Return ``(1 - share) x + share first``, and ``first`` for the next layer.

        Passing ``first`` from layer to layer accumulates its gradient within the backward kernels of the layers.

        Example:
            ``h, h0 = g.residual(h, h0, 0.1)``
        """
        run = partial(self._products.residual, share=share)
        result, next_first = run_in_phase(self.clock, "elementwise", run, x, first)
        # lerp(x, first, share) = (1 - share) x + share first.
        return self._register(result, partial(torch.lerp, weight=share), x, first), next_first

    def join(self, layers: Sequence[Tensor], how: str, *, dropout: float = 0.0) -> Tensor:
        """Compute ``dropout(join(layers))``: the concatenation of layers ``(N, D)``, or their elementwise maximum.

        Args:
            layers: results of the layers, float32 ``(N, D)``.
            how: one of ``gnnqlab.kernels.rowwise.jumping_knowledge.JOINS``.
            dropout: probability of dropping an element of the result; ignored outside training.

        Example:
            ``h = g.join([h1, h2, h3], "cat", dropout=p)``
        """
        run = partial(_joined, self._products, how, _mask_of(self._next_drop(dropout)))
        return self._register(run_in_phase(self.clock, "elementwise", run, *layers), run, *layers)

    def activate(
        self,
        y: Tensor,
        norm: nn.LayerNorm | None = None,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        aggregated_next: bool = True,
    ) -> Tensor:
        """Compute ``dropout(activation(norm(y)))``, ``(N, D)``: all operations between two layers, in one pass.

        If rows are exchanged before dropout, this returns the rows before dropout, and the next aggregation drops them
        with the probability of :meth:`remaining_dropout`; the dropped rows are precomputed here in the same pass. ``y``
        may be overwritten.

        Args:
            y: the result of a layer, float32 ``(N, D)``.
            norm: LayerNorm over columns, or ``None``.
            activation: one of ``gnnqlab.kernels.rowwise.nodewise.ACTIVATIONS``.
            dropout: dropout of the next layer's input; see :meth:`dropout`.
            aggregated_next: True if the next operation aggregates these rows; else dropout is applied here in any case.

        Example:
            ``h = g.activate(y, norm, dropout=p)``, then ``y = convolution(g, h, dropout=g.remaining_dropout(p))``
        """
        if aggregated_next and (drop := self._drop_ahead(dropout)) is not None:
            return self._activate_ahead(y, norm, activation, drop)
        mask = self._mask(dropout, aggregated_next)
        run = partial(self._products.nodewise, activation=activation, mask=mask)
        inplace = self._remakes is None  # recomputing the result needs y
        h = run_in_phase(self.clock, "elementwise", partial(run, inplace=inplace), y, _affine(norm))
        return self._register(h, run, y, _affine(norm))

    def activate_both(
        self, y: Tensor, norm: nn.LayerNorm | None = None, *, activation: str = "relu", dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Return the rows before dropout and the input of the next aggregation, both as in :meth:`activate`."""
        if (drop := self._drop_ahead(dropout)) is not None:
            h = self._activate_ahead(y, norm, activation, drop)
            # Receivers apply dropout themselves, so both results are the rows before it.
            return h, h
        mask, affine = self._mask(dropout, aggregated_next=True), _affine(norm)
        run = partial(self._products.nodewise_both, activation=activation, mask=mask)
        h, dropped_rows = run_in_phase(self.clock, "elementwise", run, y, affine)  # (N, D), (N, D)
        recompute = partial(self._products.nodewise, activation=activation)
        # Each result has its own recomputation from y: without the mask, and with it.
        self._register(h, partial(recompute, mask=None), y, affine)
        return h, h if dropped_rows is h else self._register(dropped_rows, partial(recompute, mask=mask), y, affine)

    def remaining_dropout(self, dropout: float) -> float:
        """Return the dropout that an aggregation must still apply after :meth:`activate` with this probability."""
        return dropout if self._keeps_rows else 0.0

    left = FormerMember("remaining_dropout")

    def _drop_ahead(self, p: float) -> Drop | None:
        """Return the mask of the next aggregation if it may be applied now: rows are cached, nothing is recomputed."""
        return self._drop_to_come(p) if self._keeps_rows and self._remakes is None else None

    def _activate_ahead(self, y: Tensor, norm: nn.LayerNorm | None, activation: str, drop: Drop) -> Tensor:
        run = partial(self._products.nodewise_both, activation=activation, mask=_mask_of(drop))
        h, dropped_rows = run_in_phase(self.clock, "elementwise", run, y, _affine(norm))
        # The rows are sent and cached before dropout; the dropped copy is for this worker's own sum.
        self._precomputed = PrecomputedDropout(h, dropped_rows, drop)
        return h

    def _mask(self, p: float, aggregated_next: bool) -> Mask | None:
        # Rows that receivers drop must not be dropped here, too.
        return _mask_of(None if aggregated_next and self._keeps_rows else self._next_drop(p))

    def _register(self, result: Tensor, remake: Callable[..., Tensor], *inputs: Any) -> Tensor:
        """Register how to recompute a result in the backward pass, if the pass recomputes; return the result."""
        if self._remakes is not None:
            self._remakes.register(result, remake, *inputs)
        return result


def _affine(norm: nn.LayerNorm | None) -> Norm | None:
    return None if norm is None else Norm.from_module(norm)


def _mask_of(drop: Drop | None) -> Mask | None:
    if drop is None:
        return None
    return Mask(ids=drop.ids, p=drop.p, seed=drop.seed, epoch=drop.epoch, stream=drop.stream)


def _joined(products: Products, kind: str, mask: Mask | None, *layers: Tensor) -> Tensor:
    return products.join(layers, kind, mask=mask)
