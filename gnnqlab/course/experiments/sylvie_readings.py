"""Which reading of SYLVIE's rules reproduces which of its tables (its Tables X, XI and XII; errata SY-1 to SY-3).

Two things of section V-A are open: the sign of Eq. 5 (``text`` or ``printed``), and from which importance a node gets a
wider row. A reading decides on the losses of a training; what it decided is held against what the tables imply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.bits.assigner.descent import Watch
from gnnqlab.bits.orchestrator import HALVES, QUARTERS, Orchestrated, OrchestratedWidths, Orchestrator, by_importance
from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline
from gnnqlab.exchange.schedules.staleness_switch import StalenessSwitch

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["BITS_XII", "EPOCH_S_X", "MASKS", "STALE_XI", "Reading", "decide", "readings"]

EPOCH_S_X = {1: 0.22, 2: 0.28, 4: 0.37, 8: 0.52}
"""Table X: seconds of an epoch by fixed width; adaptive widths take 0.39 s."""
_ADAPTIVE_S_X = 0.39
STALE_XI = (0.33, 0.67)
"""Table XI: share of stale epochs. ``(sync - adaptive) / (sync - async)`` is 9/15 at 32 bits and 4/9 at 1 bit; with
half a hundredth of a second of rounding either way, 0.53 to 0.67 and 0.33 to 0.56."""
BITS_XII = 1.45
"""Table XII: 126.9 / 2791.7 · 32 bits on Reddit, 254.7 / 5632.6 · 32 on Amazon, without scales."""
_NEAR = 0.1
"""A figure is reproduced if it is off by no more than this share."""
MASKS: Mapping[str, tuple[float, ...]] = {"halves": HALVES, "quarters": QUARTERS}
"""Thresholds of importance, by name."""


@dataclass(frozen=True)
class Reading:
    """What one reading decided about a training."""

    base: tuple[int, ...]
    """Base width of each epoch."""
    stale: tuple[bool, ...]
    """Whether an epoch used rows of the one before."""


def decide(losses: Sequence[float], settings: Orchestrated, *, bound: int = 10, epoch_s: float = 1.0) -> Reading:
    """Return what base width and staleness a training with these losses gets, by the parts that decide in a run.

    Args:
        losses: of each epoch. They are taken as given: that rounding or old rows would change them is left out.
        settings: the reading.
        bound: most stale epochs in a row.
        epoch_s: seconds of every epoch; the same for all, so that the decisions are those of the losses alone.

    Example:
        >>> levels_off = [0.9**epoch for epoch in range(60)]
        >>> [decide(levels_off, Orchestrated(formula=each)).base[-1] for each in ("text", "printed")]
        [8, 1]
    """
    nobody = torch.zeros(0, dtype=torch.int64)
    widths, pipeline = OrchestratedWidths(settings, nobody, nobody), AdaptivePipeline(bound=bound).build()
    watch = Watch(settings)
    adaptives = watch, Orchestrator(widths, watch), StalenessSwitch(pipeline, bound, watch)
    base, stale = [], []
    for epoch, loss in enumerate(losses):
        base.append(widths.base)
        stale.append(epoch > 0 and not pipeline.fresh)
        for adaptive in adaptives:
            adaptive.after_epoch(epoch, loss, {"epoch_s": epoch_s})
    return Reading(tuple(base), tuple(stale))


def readings(
    losses: Sequence[float], p: Tensor, *, masks: Mapping[str, tuple[float, ...]] = MASKS, delta: int = 5
) -> DataFrame:
    """Return what each reading makes of a training, beside what Tables X, XI and XII imply.

    Args:
        losses: of each epoch.
        p: importance of the node of each row that travels, ``(n,)``; see :mod:`gnnqlab.partition.importance`.
        masks: thresholds by name.
        delta: δ.

    Returns:
        By ``formula`` and ``mask``: ``bits``, the mean over rows and epochs; ``last base``; ``stale``, the share of
        epochs; ``epoch (s)``, what Table X's fixed widths make of the rows' widths; and whether ``X`` (0.39 s), ``XI``
        (a share between 0.33 and 0.67) and ``XII`` (1.45 bits) are reproduced, X and XII within a tenth.

    Example:
        >>> table = readings([0.9**epoch for epoch in range(100)], torch.linspace(0, 1, 101))
        >>> bool(table.loc[("printed", "quarters"), "bits"] < table.loc[("text", "halves"), "bits"])
        True
    """
    import pandas as pd

    lines = {}
    for formula in ("text", "printed"):
        for name, thresholds in masks.items():
            settings = Orchestrated(formula=formula, thresholds=thresholds, delta=delta)
            found = decide(losses, settings)
            means = {base: _means(p, base, settings) for base in settings.among}
            bits = sum(means[base][0] for base in found.base) / len(losses)
            epoch_s = sum(means[base][1] for base in found.base) / len(losses)
            stale = sum(found.stale) / len(losses)
            lines[formula, name] = {
                "bits": bits,
                "last base": found.base[-1],
                "stale": stale,
                "epoch (s)": epoch_s,
                "X": abs(epoch_s / _ADAPTIVE_S_X - 1) <= _NEAR,
                "XI": STALE_XI[0] <= stale <= STALE_XI[1],
                "XII": abs(bits / BITS_XII - 1) <= _NEAR,
            }
    table = pd.DataFrame.from_dict(lines, orient="index").rename_axis(["formula", "mask"])
    return table.astype({"X": bool, "XI": bool, "XII": bool, "last base": int})


def _means(p: Tensor, base: int, settings: Orchestrated) -> tuple[float, float]:
    """Return the mean width of rows on a base, and the seconds that Table X has for such a mix."""
    widths = by_importance(p, base, settings.among, settings.thresholds)
    seconds = sum(float((widths == bits).float().mean()) * epoch_s for bits, epoch_s in EPOCH_S_X.items())
    return float(widths.double().mean()), seconds
