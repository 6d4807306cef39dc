"""Context of one neighbourhood aggregation: layer, epoch, dropout, precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gnnqlab.compute.recompute import RecomputeContext
from gnnqlab.kernels.noise import dropout

__all__ = ["PrecomputedDropout", "Drop", "AggregationContext"]


def _plain(compute: Callable[..., Any], *inputs: Any) -> Any:
    return compute(*inputs)


@dataclass(frozen=True, kw_only=True)
class Drop:
    """Dropout mask of one pass, a function of (seed, epoch, stream, global node id, column).

    Owner and receivers of a row can therefore compute the same mask.
    """

    ids: Tensor = field(compare=False, repr=False)
    """Global node ids of the rows of this worker, int64 ``(N,)``."""
    p: float
    """Probability of dropping an element."""
    seed: int
    epoch: int
    stream: int
    wrapper: Callable[..., Any] = field(default=_plain, compare=False, repr=False)
    """Wrapper that calls ``compute(*inputs)`` for the rows of this worker, for instance to time it."""

    def own(self, x: Tensor) -> Tensor:
        """Apply the mask to the rows of this worker ``(N, D)``; differentiable."""
        dropped_rows: Tensor = self.wrapper(self.rows, x, self.ids)
        return dropped_rows

    def rows(self, x: Tensor, ids: Tensor) -> Tensor:
        """Apply the mask to rows ``(n, D)`` of nodes with global ids ``(n,)``."""
        return dropout(x, ids, p=self.p, seed=self.seed, epoch=self.epoch, stream=self.stream)


class PrecomputedDropout:
    """Dropped rows, precomputed together with their activation, for an aggregation that also sends them undropped.

    Args:
        whole: rows before dropout.
        dropped: rows with the mask applied.
        drop: the mask.
    """

    def __init__(self, whole: Tensor, dropped: Tensor, drop: Drop) -> None:
        self._rows: tuple[Tensor, Tensor] | None = (whole, dropped)
        self._drop = drop

    def take(self, x: Tensor, drop: Drop | None) -> Tensor | None:
        """Return the dropped rows if ``x`` and ``drop`` are those of this object, else ``None``; works once.

        Example:
            >>> import torch
            >>> x, drop = torch.ones(1, 1), Drop(ids=torch.tensor([0]), p=0.5, seed=0, epoch=0, stream=0)
            >>> ahead = PrecomputedDropout(x, 2 * x, drop)
            >>> ahead.take(x, drop), ahead.take(x, drop)
            (tensor([[2.]]), None)
        """
        # Released at the first call, so that no second copy of the rows stays in memory.
        rows, self._rows = self._rows, None
        # Rows are compared by identity, because comparing values would read all of them.
        return rows[1] if rows is not None and rows[0] is x and self._drop == drop else None


@dataclass(frozen=True)
class AggregationContext:
    """Context of one aggregation, with at most one exchange of rows and one of their gradients."""

    layer: int
    """Index of the aggregation in the pass, from 0."""
    epoch: int
    """Epoch; part of the noise key of messages."""
    training: bool
    """True for training passes; evaluation exchanges float32 rows, which are not counted."""
    static: bool = False
    """True if the rows are the same in every epoch, so that their sums may be cached."""
    exact: bool = False
    """True to compute products in float32 regardless of the axis ``compute``, as before the loss."""
    drop: Drop | None = None
    """Dropout mask of rows that are sent and stored without it; ``None``: no dropout, or already applied."""
    precomputed: PrecomputedDropout | None = field(default=None, compare=False, repr=False)
    """Rows of this worker with the mask already applied, if the previous operation did so."""
    remakes: RecomputeContext | None = field(default=None, compare=False, repr=False)
    """Registry of functions that recompute results for the backward pass; ``None``: no recomputation."""

    def own(self, x: Tensor) -> Tensor:
        """Return the rows of this worker as they are aggregated, with dropout applied."""
        if self.drop is None:
            return x
        dropped_rows = None if self.precomputed is None else self.precomputed.take(x, self.drop)
        return self.drop.own(x) if dropped_rows is None else dropped_rows
