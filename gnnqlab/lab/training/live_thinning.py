"""Thinning of long series to the resolution of a screen: extremes of lines, means of bars."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

__all__ = ["Buckets", "round_values", "thin"]

_STEPS = (1, 2, 5)


def thin(
    x: NDArray[np.float64], y: NDArray[np.float64], *, buckets: int = 240
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return minimum and maximum of each bucket of a series, in order, and its two ends.

    Drawn as a line, these look the same as all points if a bucket is no wider than a pixel.

    Args:
        x: positions, ascending.
        y: values; NaN ones are left out.
        buckets: number of buckets; at most ``2 * buckets + 2`` points are returned, all of a shorter series.

    Example:
        >>> x, y = thin(np.arange(1000.0), np.sin(np.arange(1000.0)), buckets=10)
        >>> len(x), float(x[0]), float(x[-1])
        (22, 0.0, 999.0)
    """
    is_known = ~np.isnan(y)  # epochs without evaluation are NaN
    x, y = x[is_known], y[is_known]
    if len(x) <= 2 * buckets + 2:
        return x, y
    edges = np.linspace(0, len(x), buckets + 1).astype(int)  # buckets of equally many points
    pieces = [y[begin:end] for begin, end in itertools.pairwise(edges)]
    ends = [0, len(x) - 1]
    extremes = [begin + piece.argmin() for begin, piece in zip(edges, pieces)]
    extremes += [begin + piece.argmax() for begin, piece in zip(edges, pieces)]
    indices = np.unique([*ends, *extremes])  # sorted, so that the line goes from left to right
    return x[indices], y[indices]


class Buckets:
    """Groups of 1, 2, 5, 10, 20 ... consecutive epochs, which mostly stay the same as epochs are added.

    Args:
        epochs: epoch of each value, ascending.
        most: largest number of groups.

    Example:
        >>> buckets = Buckets(np.arange(100.0), most=10)
        >>> buckets.length, buckets.centers.tolist()[:2], buckets.mean(np.arange(100.0)).tolist()[:2]
        (10, [4.5, 14.5], [4.5, 14.5])
    """

    def __init__(self, epochs: NDArray[np.float64], *, most: int) -> None:
        first_epoch, last_epoch = (epochs[0], epochs[-1]) if len(epochs) else (0, 0)
        lengths = (step * 10**power for power in range(9) for step in _STEPS)  # 1, 2, 5, 10, 20, 50 ...
        self.length = next(length for length in lengths if last_epoch // length - first_epoch // length < most)
        numbers = (epochs // self.length).astype(int)  # group of each epoch
        self._groups, self._begins = np.unique(numbers, return_index=True)
        self._counts = np.diff([*self._begins, len(epochs)])

    @property
    def centers(self) -> NDArray[np.float64]:
        """Middle epoch of each group."""
        middles: NDArray[np.float64] = self._groups * self.length + (self.length - 1) / 2
        return middles

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of the values in each group."""
        if not len(values):
            return np.zeros(0)
        means: NDArray[np.float64] = np.add.reduceat(values, self._begins) / self._counts  # (epochs,) -> (groups,)
        return means


def round_values(values: NDArray[np.float64], digits: int = 5) -> list[float | None]:
    """Return plain numbers with a few significant digits, NaN as ``None``, to send little to a page.

    Example:
        >>> round_values(np.array([0.123456789, 1234567.0, np.nan]))
        [0.12346, 1234600.0, None]
    """
    return [None if value != value else float(f"{value:.{digits}g}") for value in values.tolist()]
