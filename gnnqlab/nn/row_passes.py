"""What a pass does to the rows of a worker alone: norms, activations, dropout, joins; no other row is looked at."""

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
from gnnqlab.kernels.rowwise.nodewise import Mask, Norm
from gnnqlab.nn.timed import PassClock, timed
from gnnqlab.observe import Observers

__all__ = ["RowPasses"]


class RowPasses(ABC):
    """The part of a pass over a graph that needs no neighbour."""

    clock: PassClock | None
    observers: Observers
    epoch: int
    _hops: int
    _products: Products
    _remakes: RecomputeContext | None

    @property
    @abstractmethod
    def _keeps_rows(self) -> bool:
        """Whether rows travel, and are kept, as they are before dropout."""

    _ahead: PrecomputedDropout | None = None
    """What the latest :meth:`activate` has dropped already for the look that comes next."""

    @abstractmethod
    def _next_drop(self, p: float) -> Drop | None: ...

    @abstractmethod
    def _drop_to_come(self, p: float) -> Drop | None:
        """Return what :meth:`_next_drop` would, without taking it."""

    def rowwise(self, compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Return ``compute(*rows)``: norms, activations, sums, whatever looks at no other row and multiplies nothing.

        It would be the same without; but then nobody could say what its seconds were spent on.

        Example:
            ``h = g.rowwise(torch.relu, h)``
        """
        run = partial(self._products.rowwise, compute)
        return self._made(timed(self.clock, "elementwise", run, *rows), run, *rows)

    def residual(self, x: Tensor, first: Tensor, share: float) -> tuple[Tensor, Tensor]:
        """Return ``(1 - share) x + share first``, and ``first`` for the next layer that joins it.

        Handed on from layer to layer, the gradients of ``first`` are added up in the passes that find them.

        Example:
            ``h, h0 = g.residual(h, h0, 0.1)``
        """
        run = partial(self._products.residual, share=share)
        joined, again = timed(self.clock, "elementwise", run, x, first)
        return self._made(joined, partial(torch.lerp, weight=share), x, first), again

    def join(self, layers: Sequence[Tensor], how: str, *, dropout: float = 0.0) -> Tensor:
        """Return ``dropout(join(layers))``: layers ``(N, D)`` side by side, or the largest of each element.

        Args:
            layers: float32 ``(N, D)``.
            how: one of ``gnnqlab.kernels.rowwise.jumping_knowledge.JOINS``.
            dropout: of the join; nothing outside training.

        Example:
            ``h = g.join([h1, h2, h3], "cat", dropout=p)``
        """
        run = partial(_joined, self._products, how, _mask_of(self._next_drop(dropout)))
        return self._made(timed(self.clock, "elementwise", run, *layers), run, *layers)

    def activate(
        self,
        y: Tensor,
        norm: nn.LayerNorm | None = None,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        looked_at: bool = True,
    ) -> Tensor:
        """Return ``dropout(activation(norm(y)))``, ``(N, D)``: all that stands between two layers, in one pass.

        Where rows must travel as they are before dropout, this returns those, and the look at neighbours drops them
        with the probability that :meth:`left` says: it finds what it sums made in the same pass. ``y`` may be written
        over.

        Args:
            y: the result of a layer, float32 ``(N, D)``.
            norm: over columns, or none.
            activation: one of ``gnnqlab.kernels.rowwise.nodewise.ACTIVATIONS``.
            dropout: of the next layer's input; see :meth:`dropout`.
            looked_at: whether these rows go to a look at neighbours; else they are dropped here in any case.

        Example:
            ``h = g.activate(y, norm, dropout=p)``, then ``y = convolution(g, h, dropout=g.left(p))``
        """
        if looked_at and (drop := self._drop_ahead(dropout)) is not None:
            return self._activate_ahead(y, norm, activation, drop)
        mask = self._mask(dropout, looked_at)
        run = partial(self._products.nodewise, activation=activation, mask=mask)
        inplace = self._remakes is None
        h = timed(self.clock, "elementwise", partial(run, inplace=inplace), y, _affine(norm))
        return self._made(h, run, y, _affine(norm))

    def activate_both(
        self, y: Tensor, norm: nn.LayerNorm | None = None, *, activation: str = "relu", dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Return the rows before dropout and those that the next look takes, both as :meth:`activate` makes them."""
        if (drop := self._drop_ahead(dropout)) is not None:
            whole = self._activate_ahead(y, norm, activation, drop)
            return whole, whole
        mask, affine = self._mask(dropout, looked_at=True), _affine(norm)
        run = partial(self._products.nodewise_both, activation=activation, mask=mask)
        whole, dropped = timed(self.clock, "elementwise", run, y, affine)
        again = partial(self._products.nodewise, activation=activation)
        self._made(whole, partial(again, mask=None), y, affine)
        return whole, whole if dropped is whole else self._made(dropped, partial(again, mask=mask), y, affine)

    def left(self, dropout: float) -> float:
        """Return the probability with which a look still has to drop rows that :meth:`activate` made with this one."""
        return dropout if self._keeps_rows else 0.0

    def _drop_ahead(self, p: float) -> Drop | None:
        """Return the mask of the next look where it may be put on before: rows are kept, and none are made again."""
        return self._drop_to_come(p) if self._keeps_rows and self._remakes is None else None

    def _activate_ahead(self, y: Tensor, norm: nn.LayerNorm | None, activation: str, drop: Drop) -> Tensor:
        run = partial(self._products.nodewise_both, activation=activation, mask=_mask_of(drop))
        whole, dropped = timed(self.clock, "elementwise", run, y, _affine(norm))
        self._ahead = PrecomputedDropout(whole, dropped, drop)
        return whole

    def _mask(self, p: float, looked_at: bool) -> Mask | None:
        return _mask_of(None if looked_at and self._keeps_rows else self._next_drop(p))

    def _made(self, result: Tensor, remake: Callable[..., Tensor], *inputs: Any) -> Tensor:
        """Return a result after saying how it is made again, if somebody does that."""
        if self._remakes is not None:
            self._remakes.made(result, remake, *inputs)
        return result


def _affine(norm: nn.LayerNorm | None) -> Norm | None:
    return None if norm is None else Norm.of(norm)


def _mask_of(drop: Drop | None) -> Mask | None:
    if drop is None:
        return None
    return Mask(ids=drop.ids, p=drop.p, seed=drop.seed, epoch=drop.epoch, stream=drop.stream)


def _joined(products: Products, how: str, mask: Mask | None, *layers: Tensor) -> Tensor:
    return products.join(layers, how, mask=mask)
