"""Every row as its difference to what its receiver has of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from gnnqlab.adaptive import Adaptive, Training
from gnnqlab.message.caches.cache import Cache, Chooser, needs_fading_errors, needs_rows_of_this_epoch
from gnnqlab.message.caches.row_cache_state import RowCacheCheckpoint, RowCacheState

__all__ = ["Difference"]


@dataclass(frozen=True)
class Difference(Cache):
    """Every row travels in every epoch, coded as its difference to the row that its receiver holds.

    ``h <- h + C(x - h)`` at both ends, C the codec, from ``h = 0``: so the first message holds the rows themselves.
    Sender and receiver add the same decoded numbers to the same row, so they hold the same bit for bit and errors of
    rounding never add up: what a message leaves is in the next difference (DIANA, Mishchenko et al. 2019, with step 1).
    Rows and gradients that change little from epoch to epoch have small differences, and these fine steps, at the same
    bytes; those that change by more than they are have coarser ones. ``E[h] = x`` with an unbiased codec, and the
    variance of Theorem 1 is that of the difference, whose spread the assigner reads.

    Both ends keep float32 rows of every message, and a message tells 16 bytes more. Held rows are in checkpoints.
    Refused with rows of an epoch before, with a sampler, and at widths where a message leaves more than it takes.
    Over float32 a row is off by a rounding, and nothing is saved. Error feedback is in it: see
    :class:`gnnqlab.message.caches.feedback.Feedback`.

    Example:
        >>> import torch
        >>> chooser = Difference().build()
        >>> chooser.differences, chooser.choose(torch.ones(2, 3), torch.arange(2), torch.zeros(2, 3))
        (True, None)
    """

    def expected_share(self) -> float:
        """Return the share of rows that travel: all."""
        return 1.0

    def at_work(self) -> DifferencesAtWork:
        """Return what runs on one worker."""
        return DifferencesAtWork()

    def build(self) -> _EveryRow:
        return _EveryRow()

    def refuses(self, system: Any) -> str:
        """Say why a system cannot send differences."""
        return needs_rows_of_this_epoch(system) or needs_fading_errors(system)


class DifferencesAtWork(RowCacheState):
    """The rows that one worker and its peers have of each other's."""

    def __init__(self) -> None:
        super().__init__(alike=True)

    def build(self) -> _EveryRow:
        return _EveryRow()

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [RowCacheCheckpoint("differences", self, training.worker)]


class _EveryRow(Chooser):
    differences: ClassVar[bool] = True

    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> None:
        return None
