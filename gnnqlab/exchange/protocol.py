"""What models, layers and the trainer know of an exchange."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.exchange.hop import Hop
from gnnqlab.exchange.schedules.schedule import Runner
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import Channel

__all__ = ["Exchange"]


class Exchange(Protocol):
    """Looks at neighbours, wherever they are; every result is differentiable in the tensors given.

    Letters: N rows of this worker, D columns in, O columns out, K heads of F features.
    """

    lag: int
    """Epochs between the post of a row and its use, at most."""
    keeps_rows: bool
    """Whether a receiver may use a row in another epoch than that of its post: then it makes dropout's mask itself."""
    looks_first: bool
    """Whether it does so too where rows would be narrower once projected, and are therefore summed first."""
    schedule: Runner
    """Runs the steps of training passes."""
    timeline: Timeline
    """When each part ran."""
    adjacencies: dict[int, Adjacency]
    """Matrix that each layer of a training pass used last."""
    products: Products
    """What this worker multiplies with."""

    @property
    def channels(self) -> list[Channel]:
        """The channels of training passes; evaluation has its own, which count nowhere."""

    def aggregate(self, adjacency: Adjacency, x: Tensor, hop: Hop) -> Tensor:
        """Return weighted sums over neighbours, ``(N, D)``."""

    def convolve(
        self, adjacency: Adjacency, x: Tensor, weight: Tensor, bias: Tensor, self_weight: Tensor | None, hop: Hop
    ) -> Tensor:
        """Return ``aggregate(x) weight + x self_weight + bias``, ``(N, O)``."""

    def attend(
        self, adjacency: Adjacency, z: Tensor, a_source: Tensor, a_target: Tensor, *, slope: float, hop: Hop
    ) -> Tensor:
        """Return attention-weighted sums over neighbours, ``(N, K, F)``."""

    def extend(self, x: Tensor, hop: Hop) -> Tensor:
        """Return the rows of this worker with those of its neighbours elsewhere behind them."""

    def release(self) -> None:
        """Start moving what the schedule held back until the weight gradients are summed."""

    def drain(self) -> None:
        """Return when nothing is under way any more."""

    def forget(self) -> None:
        """Let every row travel next time, whatever receivers hold; all workers between the same two epochs."""
