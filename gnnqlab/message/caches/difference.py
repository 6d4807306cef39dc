"""Delta encoding: send every row as its difference to the receiver's copy."""

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
    """Send every row in every epoch, encoded as its difference to the receiver's copy.

    ``h <- h + C(x - h)`` at both ends, C the codec, from ``h = 0``, so the first message holds the rows themselves.
    Sender and receiver add the same decoded values to the same copy, so their copies are identical bit for bit and
    rounding errors never accumulate: the error of a message is part of the next difference (DIANA, Mishchenko et al.
    2019, with step 1). Embeddings and gradients that change little between epochs have small differences and thus small
    quantization steps at the same bytes; if they change by more than their own size, steps are larger. ``E[h] = x``
    with an unbiased codec, and the variance of Theorem 1 is that of the difference; the assigner uses its range.

    Both ends store a float32 copy of every row, and a message has 16 more bytes. Checkpoints save the copies. Refused
    with stale rows, with a sampler, and at bit-widths at which errors would grow. Over float32 a row has a rounding
    error, and no bytes are saved. Includes the effect of error feedback, see
    :class:`gnnqlab.message.caches.feedback.Feedback`.

    Example:
        >>> import torch
        >>> chooser = Difference().build()
        >>> chooser.differences, chooser.choose(torch.ones(2, 3), torch.arange(2), torch.zeros(2, 3))
        (True, None)
    """

    def expected_share(self) -> float:
        """Return the share of rows that are sent: 1."""
        return 1.0

    def at_work(self) -> DifferencesAtWork:
        """Create the run-time state of one worker."""
        return DifferencesAtWork()

    def build(self) -> _EveryRow:
        return _EveryRow()

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot send differences, or an empty string."""
        return needs_rows_of_this_epoch(system) or needs_fading_errors(system)


class DifferencesAtWork(RowCacheState):
    """Run-time state of one worker: copies of the rows that it sends and receives."""

    def __init__(self) -> None:
        super().__init__(both_ends=True)

    def build(self) -> _EveryRow:
        return _EveryRow()

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        return [RowCacheCheckpoint("differences", self, training.worker)]


class _EveryRow(Chooser):
    """Chooser that sends the difference of every row."""

    differences: ClassVar[bool] = True

    def choose(self, x: Tensor, rows: Tensor, held: Tensor) -> None:
        return None
