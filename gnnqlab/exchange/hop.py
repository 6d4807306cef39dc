"""One look at neighbours in a pass over a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gnnqlab.compute.remade import Remakes
from gnnqlab.kernels.noise import dropout

__all__ = ["Drop", "Hop"]


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


@dataclass(frozen=True)
class Hop:
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
    remakes: Remakes | None = field(default=None, compare=False, repr=False)
    """Told how results are made again for the backward pass; ``None``: nobody makes them again."""

    def own(self, x: Tensor) -> Tensor:
        """Return what is summed of the rows of this worker."""
        return x if self.drop is None else self.drop.own(x)
