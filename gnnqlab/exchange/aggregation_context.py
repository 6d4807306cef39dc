"""One look at neighbours in a pass over a graph."""

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
    """A dropout mask of one pass: a function of (seed, epoch, stream, global node id, column).

    So whoever has a row can make its mask, the receiver of a copy too.
    """

    ids: Tensor = field(compare=False, repr=False)
    """Global ids of the rows of this worker, int64 ``(N,)``."""
    p: float
    """Probability of dropping an element."""
    seed: int
    epoch: int
    stream: int
    around: Callable[..., Any] = field(default=_plain, compare=False, repr=False)
    """Runs ``compute(*inputs)`` for the rows of this worker: who measures what a pass spends its time on is told."""

    def own(self, x: Tensor) -> Tensor:
        """Return the rows of this worker, dropped; differentiable."""
        dropped: Tensor = self.around(self.rows, x, self.ids)
        return dropped

    def rows(self, x: Tensor, ids: Tensor) -> Tensor:
        """Return rows ``(n, D)`` of nodes with these ids ``(n,)``, dropped."""
        return dropout(x, ids, p=self.p, seed=self.seed, epoch=self.epoch, stream=self.stream)


class PrecomputedDropout:
    """Rows dropped in the pass that made them, for a look at neighbours to which the rows before dropout go too.

    Args:
        whole: the rows before dropout.
        dropped: with the mask on them.
        drop: that mask.
    """

    def __init__(self, whole: Tensor, dropped: Tensor, drop: Drop) -> None:
        self._rows: tuple[Tensor, Tensor] | None = (whole, dropped)
        self._drop = drop

    def take(self, x: Tensor, drop: Drop | None) -> Tensor | None:
        """Return these very rows with this mask on them, if that is what there is; asked once, it holds nothing more.

        Example:
            >>> import torch
            >>> x, drop = torch.ones(1, 1), Drop(ids=torch.tensor([0]), p=0.5, seed=0, epoch=0, stream=0)
            >>> ahead = PrecomputedDropout(x, 2 * x, drop)
            >>> ahead.take(x, drop), ahead.take(x, drop)
            (tensor([[2.]]), None)
        """
        rows, self._rows = self._rows, None
        return rows[1] if rows is not None and rows[0] is x and self._drop == drop else None


@dataclass(frozen=True)
class AggregationContext:
    """Which look at neighbours this is: at most one exchange of the rows, and of their gradients."""

    layer: int
    """Place in the pass, from 0."""
    epoch: int
    """Enters the noise of messages."""
    training: bool
    """Outside training float32 rows are exchanged, which count nowhere."""
    static: bool = False
    """Whether the rows are the same in every epoch, so that what comes of them may be kept."""
    exact: bool = False
    """Whether products are in float32, whatever the axis ``compute`` says: in the layer before the loss."""
    drop: Drop | None = None
    """Mask of what is summed, where rows travel, and are kept, without it; ``None``: none, or rows already have it."""
    ahead: PrecomputedDropout | None = field(default=None, compare=False, repr=False)
    """Rows of this worker with that mask on them, where the pass that made them has put it on."""
    remakes: RecomputeContext | None = field(default=None, compare=False, repr=False)
    """Told how results are made again for the backward pass; ``None``: nobody makes them again."""

    def own(self, x: Tensor) -> Tensor:
        """Return what is summed of the rows of this worker."""
        if self.drop is None:
            return x
        dropped = None if self.ahead is None else self.ahead.take(x, self.drop)
        return self.drop.own(x) if dropped is None else dropped
