"""The axis ``bits``: who chooses each row's bit-width.

Sender and receiver ask the same policy about the same :class:`Rows` and get the same answer, so no width
ever travels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from gnnqlab.kernels.noise import stream, uniform16

__all__ = ["WIDTHS", "BitPolicy", "Fixed", "Rows", "UniformRandom"]

WIDTHS = (1, 2, 4, 8, 16, 32)
"""Bit-widths of a row; 32 is float32 as it stands."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows of one message: from one sender to one receiver, at one layer, in one direction."""

    layer: int
    direction: str
    """``forward`` (embeddings) or ``backward`` (their gradients)."""
    sender: int
    receiver: int
    ids: Tensor
    """Global node ids in wire order, int64 ``(n,)``."""
    seed: int


class BitPolicy(Protocol):
    """Chooses the width of every row; equal on both sides of a message."""

    @property
    def choices(self) -> tuple[int, ...]:
        """Every width that may be chosen, so that a system can be checked when it is made."""

    def round(self, epoch: int) -> int:
        """Return which assignment is in force: widths change only when this number does."""

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        """Return one width for all rows, or a uint8 tensor ``(n,)``."""


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Every row in the same number of bits; 32 means float32."""

    steerable: ClassVar[tuple[str, ...]] = ("bits",)
    """Settings that may change while a run trains."""
    bits: int = 32
    """Bits per element: 1, 2, 4, 8, 16 or 32 with a stochastic codec, 32 with float32 messages."""

    def __post_init__(self) -> None:
        if self.bits not in WIDTHS:
            raise ValueError(f"bits must be one of {WIDTHS}, got {self.bits}")

    @property
    def choices(self) -> tuple[int, ...]:
        return (self.bits,)

    def round(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int:
        return self.bits


@dataclass(frozen=True, kw_only=True)
class UniformRandom:
    """Each row's width drawn uniformly from a set, anew every period (AdaQP Table 6, "Uniform").

    The draw is a function of (seed, round, layer, direction, sender, global node id), so both sides make it.
    """

    steerable: ClassVar[tuple[str, ...]] = ("among", "period")
    """Settings that may change while a run trains."""
    among: tuple[int, ...] = (2, 4, 8)
    """Widths to draw from."""
    period: int = 50
    """Epochs between draws."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "among", tuple(self.among))
        if not self.among or not set(self.among) <= set(WIDTHS):
            raise ValueError(f"widths to draw from must be among {WIDTHS}, got {self.among}")
        if self.period < 1:
            raise ValueError(f"period must be at least 1 epoch, got {self.period}")

    @property
    def choices(self) -> tuple[int, ...]:
        return self.among

    def round(self, epoch: int) -> int:
        return epoch // self.period

    def widths(self, rows: Rows, epoch: int) -> Tensor:
        backward = rows.direction == "backward"
        key = stream("bits", 2 * rows.layer + backward, rows.sender + 1 if backward else 0)
        draw = uniform16(rows.ids, 1, seed=rows.seed, epoch=self.round(epoch), stream=key).flatten()
        table = torch.tensor(self.among, dtype=torch.uint8, device=rows.ids.device)
        return table[(draw.long() * len(self.among)) >> 16]
