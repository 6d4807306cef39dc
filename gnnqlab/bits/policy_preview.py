"""What a forecast shows a policy before anything is trained, and what the policy answers.

A policy that can be predicted has ``foresee(outlook) -> PreviewedWidths``. One whose widths follow from its settings asks
itself about every message of an epoch; one that decides by ranges or importance asks the outlook for those.

Letters: n rows of a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

__all__ = ["PreviewedWidths", "PolicyPreview", "Place", "Widths"]

Place = tuple[int, str]
"""(layer, direction)."""
Widths = Mapping[Place, Sequence[Tensor]]
"""Place -> width of every row of each of its messages, ``(n,)``, sorted by sender and receiver."""


class PolicyPreview(Protocol):
    """A training as a forecast knows it."""

    @property
    def epoch(self) -> int | None:
        """The epoch that is predicted; ``None``: a usual one, whatever the policy takes for that."""

    @property
    def base(self) -> int | None:
        """The base width that is to be assumed; ``None``: the one that training starts with."""

    def ask(self, policy: Any, epoch: int) -> Widths:
        """Return what a policy's ``widths`` answers about every message of an epoch."""

    def assign(self, settings: Any, epoch: int) -> Widths:
        """Return the widths that AdaQP's assigner finds from the ranges traced up to an epoch."""

    def importance(self, ids: Tensor) -> Tensor:
        """Return how much the error of each node matters, in [0, 1], ``(n,)``, by global ids."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PreviewedWidths:
    """The widths that a policy is going to choose, and what it took for granted."""

    widths: Widths
    epoch: int = 0
    """The epoch whose ranges they meet."""
    base: int | None = None
    """The base width they stand on; ``None`` for a policy that has none."""
    assumes: tuple[str, ...] = ()
    """What nobody can know before the training, in words."""
