"""A user's own components for the axes on which a prediction depends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from gnnqlab.bits import Fixed
from gnnqlab.bits.policy import Rows, Steered
from gnnqlab.bits.row import two_parameters
from gnnqlab.compute import Float32Products
from gnnqlab.exchange.schedules.schedule import Overlapped, Schedule, Synchronous
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.message.layout import Layout, make_layout
from gnnqlab.worker_context import WorkerContext

__all__ = ["Coarse", "Even", "Half", "HalfHidden", "Mute", "Silent", "Thick", "Unforeseen"]


@dataclass(frozen=True)
class Even:
    """Sampler: rows of nodes with an even id."""

    p: ClassVar[float] = 0.5
    rescale: ClassVar[float] = 2.0
    attention: ClassVar[str] = "weights"

    def sampled_positions(self, ids: Tensor, *, holder: int, seed: int, epoch: int) -> Tensor:
        return (ids % 2 == 0).nonzero().flatten()


@dataclass(frozen=True)
class Half:
    """Cache: expects that half of the rows have changed."""

    def build(self) -> None:
        return None

    def expected_share(self) -> float:
        return 0.5


@dataclass(frozen=True)
class Silent:
    """Cache without an expected share."""

    def build(self) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Thick(Stochastic):
    """Codec: one more parameter per row."""

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        return make_layout(widths, num_rows, columns, param_bytes=two_parameters(6))


@dataclass(frozen=True)
class HalfHidden(Overlapped):
    """Schedule: half of an exchange is hidden, for any computation."""

    assumes: ClassVar[str] = "half of it"

    def exposed_seconds(self, under_way: list[float], beside: list[float], computing: float) -> float:
        return sum(under_way) / 2


@dataclass(frozen=True)
class Mute(Schedule):
    """Schedule without a prediction."""

    def build(self) -> Synchronous:
        return Synchronous()


@dataclass(frozen=True)
class Unforeseen:
    """Policy without a prediction."""

    choices: ClassVar[tuple[int, ...]] = (8,)

    def build(self, worker: WorkerContext) -> Steered:
        return Steered(self)

    def version(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int:
        return Fixed(bits=8).widths(rows, epoch)


@dataclass(frozen=True)
class Coarse(Float32Products):
    """Compute in another precision."""
