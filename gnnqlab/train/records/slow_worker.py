"""Detection of a worker that computes longer than the others, from the records of all workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["COMPUTING", "SlowWorker", "computing_seconds", "find_slow_worker"]

RATIO = 1.3
"""Least ratio to the median of the other workers that counts as slow; shared machines vary by less over ten epochs."""
_WINDOW = 10
"""Epochs of a moving median, so that single slow epochs do not count."""
_SET_UP = 3
"""First epochs, which include set-up and are left out."""
COMPUTING = ("central_s", "marginal_s", "dense_s", "encode_s", "decode_s", "optimizer_s", "other_s")
"""Columns of records in which a worker does not wait for others."""


@dataclass(frozen=True)
class SlowWorker:
    """A worker that computes longer than the median of the others."""

    rank: int
    ratio: float
    """Its computing time over that of the others, median over the epochs since ``epoch``."""
    epoch: int
    """First epoch in which it was slow."""

    @property
    def text(self) -> str:
        """The finding as a sentence.

        Example:
            >>> SlowWorker(2, 1.42, 40).text
            'rank 2 computes 1.4 times as long as the median of the others since epoch 40'
        """
        since = "" if self.epoch <= _SET_UP else f" since epoch {self.epoch}"
        return f"rank {self.rank} computes {self.ratio:.1f} times as long as the median of the others{since}"


def computing_seconds(records: pd.DataFrame) -> NDArray[np.float64]:
    """Return the computing seconds of each worker in each epoch that all have recorded, ``(P, E)``."""
    seconds = records.assign(computing_s=records[list(COMPUTING)].sum(axis=1))
    table = seconds.pivot_table(index="rank", columns="epoch", values="computing_s")
    return table.dropna(axis=1).to_numpy(dtype=float)


def find_slow_worker(computing: NDArray[np.float64]) -> SlowWorker | None:
    """Find the slowest worker that is still at least ``RATIO`` times as slow as the median of the others.

    Args:
        computing: computing seconds of each worker in each epoch, ``(P, E)``, epochs from 0 without gaps.

    Returns:
        ``None`` if there is none, with fewer than 13 epochs, and with one worker.

    Example:
        >>> seconds = np.ones((3, 100))
        >>> seconds[1, 40:] = 2.0
        >>> find_slow_worker(seconds)
        SlowWorker(rank=1, ratio=2.0, epoch=40)
    """
    workers, epochs = computing.shape
    if workers < 2 or epochs < _SET_UP + _WINDOW:
        return None
    found: list[SlowWorker] = []
    for rank in range(workers):
        others = np.median(np.delete(computing, rank, axis=0), axis=0)  # (E,)
        ratios = (computing[rank] / np.maximum(others, 1e-9))[_SET_UP:]
        medians = np.median(np.lib.stride_tricks.sliding_window_view(ratios, _WINDOW), axis=1)  # (E - 12,)
        fast_windows = np.flatnonzero(medians < RATIO)
        first = int(fast_windows[-1]) + 1 if len(fast_windows) else 0
        if first == len(medians):
            continue
        # Half of a window is slow when its median becomes slow; at the first window it was slow from the start.
        begin = 0 if first == 0 else first + _WINDOW // 2 - 1
        begin += int(np.argmax(ratios[begin:] >= RATIO))
        found.append(SlowWorker(rank, round(float(np.median(ratios[begin:])), 2), _SET_UP + begin if first else 0))
    return max(found, key=lambda worker: worker.ratio, default=None)
