"""Input and result of ``policy.predict()``: facts known before a training, and the predicted bit-widths.

A policy that can be predicted has ``predict(context) -> PredictedWidths``. One whose bit-widths follow from its
settings passes itself to ``context.widths_of``; one that decides by ranges or importance reads these from the context.

Letters: n rows of a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

__all__ = ["PredictedWidths", "PredictionContext", "Place", "Widths"]

Place = tuple[int, str]
"""(layer, direction)."""
Widths = Mapping[Place, Sequence[Tensor]]
"""Place -> bit-width of every row, one ``(n,)`` per message, sorted by sender and receiver."""


class PredictionContext(Protocol):
    """Facts about a training that a forecast has."""

    @property
    def epoch(self) -> int | None:
        """Epoch to predict; ``None``: one that the policy considers typical."""

    @property
    def base(self) -> int | None:
        """Base bit-width to assume; ``None``: that to which the traced losses have moved it."""

    @property
    def losses(self) -> Sequence[float]:
        """Loss of each traced epoch, from the first one on; empty if none was traced."""

    def widths_of(self, policy: Any, epoch: int) -> Widths:
        """Return the bit-widths from ``policy.widths`` for every message of an epoch."""

    def assign(self, settings: Any, epoch: int) -> Widths:
        """Return the bit-widths that AdaQP's assigner finds from the ranges traced up to an epoch."""

    def importance(self, ids: Tensor) -> Tensor:
        """Return the importance of each node, in [0, 1], ``(n,)``, by global ids."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictedWidths:
    """Predicted bit-widths of a policy, and the assumptions behind them."""

    widths: Widths
    epoch: int = 0
    """Epoch whose value ranges these bit-widths are applied to."""
    base: int | None = None
    """Assumed base bit-width; ``None`` for a policy without one."""
    assumes: tuple[str, ...] = ()
    """Assumptions about facts that only a training can show, as text."""
