"""Comparison of readings of SYLVIE's rules with its Tables X, XI and XII (errata SY-1 to SY-3).

Section V-A leaves two things open: the sign of Eq. 5 (``text`` or ``printed``), and the importance from which a node
gets more bits. Each reading is applied to the losses of a training; its decisions are compared with the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from gnnqlab.bits.orchestrator import HALVES, QUARTERS, Orchestrated, by_importance, replay_base
from gnnqlab.exchange.schedules.staleness_switch import replay

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["BITS_XII", "EPOCH_S_X", "MASKS", "STALE_XI", "Reading", "decide", "readings"]

EPOCH_S_X = {1: 0.22, 2: 0.28, 4: 0.37, 8: 0.52}
"""Table X: fixed bit-width -> seconds of an epoch; adaptive bit-widths take 0.39 s."""
_ADAPTIVE_S_X = 0.39
STALE_XI = (0.33, 0.67)
"""Table XI: share of stale epochs. ``(sync - adaptive) / (sync - async)`` is 9/15 at 32 bits and 4/9 at 1 bit; with
rounding of ±0.005 s in each number, 0.53 to 0.67 and 0.33 to 0.56."""
BITS_XII = 1.45
"""Table XII: 126.9 / 2791.7 · 32 bits on Reddit, 254.7 / 5632.6 · 32 on Amazon, without scales."""
_NEAR = 0.1
"""Largest relative error of a figure that counts as reproduced."""
MASKS: Mapping[str, tuple[float, ...]] = {"halves": HALVES, "quarters": QUARTERS}
"""Name -> thresholds of importance."""


@dataclass(frozen=True)
class Reading:
    """Decisions of one reading about a training."""

    base: tuple[int, ...]
    """Base bit-width of each epoch."""
    stale: tuple[bool, ...]
    """True for each epoch that used rows of the epoch before."""


def decide(losses: Sequence[float], settings: Orchestrated, *, bound: int = 10, epoch_s: float = 1.0) -> Reading:
    """Return base bit-width and staleness of a training with given losses, by the code that decides in a run.

    Args:
        losses: loss of each epoch, fixed: effects of rounding or staleness on the losses are ignored.
        settings: the reading.
        bound: most consecutive stale epochs.
        epoch_s: seconds of every epoch; equal for all, so that the decisions depend on the losses only.

    Example:
        >>> levels_off = [0.9**epoch for epoch in range(60)]
        >>> [decide(levels_off, Orchestrated(formula=each)).base[-1] for each in ("text", "printed")]
        [8, 1]
    """
    fresh = replay(losses, settings, bound=bound, stale_s=epoch_s, fresh_s=epoch_s)
    return Reading(tuple(replay_base(losses, settings, epoch_s=epoch_s)), tuple(not is_fresh for is_fresh in fresh))


def readings(
    losses: Sequence[float], p: Tensor, *, masks: Mapping[str, tuple[float, ...]] = MASKS, delta: int = 5
) -> DataFrame:
    """Apply each reading to a training, and compare the result with Tables X, XI and XII.

    Args:
        losses: loss of each epoch.
        p: importance of the node of each boundary row, ``(n,)``; see :mod:`gnnqlab.partition.importance`.
        masks: name -> thresholds.
        delta: δ.

    Returns:
        By ``formula`` and ``mask``: ``bits``, the mean over rows and epochs; ``last base``; ``stale``, the share of
        epochs; ``epoch (s)``, from Table X's seconds of the rows' bit-widths; and ``X`` (0.39 s), ``XI`` (a share
        between 0.33 and 0.67) and ``XII`` (1.45 bits), True if reproduced, X and XII within 10 %.

    Example:
        >>> import torch
        >>> table = readings([0.9**epoch for epoch in range(100)], torch.linspace(0, 1, 101))
        >>> bool(table.loc[("printed", "quarters"), "bits"] < table.loc[("text", "halves"), "bits"])
        True
    """
    import pandas as pd

    lines = {}
    for formula in ("text", "printed"):
        for name, thresholds in masks.items():
            settings = Orchestrated(formula=formula, thresholds=thresholds, delta=delta)
            reading = decide(losses, settings)
            # by base: mean bit-width and seconds, computed once
            means = {base: _means(p, base, settings) for base in settings.bit_widths}
            bits = sum(means[base][0] for base in reading.base) / len(losses)  # mean over epochs
            epoch_s = sum(means[base][1] for base in reading.base) / len(losses)
            stale_share = sum(reading.stale) / len(losses)
            lines[formula, name] = {
                "bits": bits,
                "last base": reading.base[-1],
                "stale": stale_share,
                "epoch (s)": epoch_s,
                "X": abs(epoch_s / _ADAPTIVE_S_X - 1) <= _NEAR,
                "XI": STALE_XI[0] <= stale_share <= STALE_XI[1],
                "XII": abs(bits / BITS_XII - 1) <= _NEAR,
            }
    table = pd.DataFrame.from_dict(lines, orient="index").rename_axis(["formula", "mask"])
    return table.astype({"X": bool, "XI": bool, "XII": bool, "last base": int})


def _means(p: Tensor, base: int, settings: Orchestrated) -> tuple[float, float]:
    """Return the mean bit-width of rows for a base, and the seconds of such a mix by Table X."""
    widths = by_importance(p, base, settings.bit_widths, settings.thresholds)  # bit-width of every row, (n,)
    # seconds of a mix: linear in the shares of the bit-widths
    seconds = sum(float((widths == bits).float().mean()) * epoch_s for bits, epoch_s in EPOCH_S_X.items())
    return float(widths.double().mean()), seconds
