"""A policy whose settings can change while a run trains, on all workers between the same two epochs."""

from __future__ import annotations

from torch import Tensor

from gnnqlab.bits.policy import BitPolicy, Rows

__all__ = ["Steered"]

_ROUNDS = 2**32
"""More rounds than one policy has epochs, so that a round after a change is never one from before it."""


class Steered:
    """A policy of settings alone (``Fixed``, ``UniformRandom``) in a place where it can be replaced.

    Example:
        >>> from gnnqlab.bits.policy import Fixed
        >>> policy = Steered(Fixed(bits=8))
        >>> before = policy.round(epoch=3)
        >>> policy.steer(Fixed(bits=2))
        >>> policy.choices, policy.round(epoch=3) == before
        ((2,), False)
    """

    def __init__(self, settings: BitPolicy) -> None:
        self.settings = settings
        self.version = 0
        """Version of the settings; 0: those of the launch."""
        self._changes = 0

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    def round(self, epoch: int) -> int:
        return self._changes * _ROUNDS + self.settings.round(epoch)

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        return self.settings.widths(rows, epoch)

    def steer(self, settings: BitPolicy, *, version: int = 0) -> None:
        """Put other settings in force; both ends of every message must do so between the same two epochs."""
        self.settings, self.version = settings, version
        self._changes += 1
