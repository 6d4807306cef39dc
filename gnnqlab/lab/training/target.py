"""Time to accuracy: when each run first reached a validation score, in seconds of training.

An epoch that is quicker but learns less wins nothing; this is what both come to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.training.snapshot import Snapshot
from gnnqlab.study.result import MARGIN

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["MARGIN", "check_target", "seconds_to", "usual_target"]


def usual_target(runs: Sequence[Snapshot]) -> float:
    """Return the best validation score of Vanilla, or of the first run without it, less ``MARGIN``; NaN without one."""
    reference = next((run for run in runs if run.summary.get("system") == "vanilla"), runs[0])
    best = reference.summary.get("best_val")
    return math.nan if best is None else float(best) - MARGIN


def check_target(target: float) -> None:
    """Refuse a target that no score can be compared with."""
    if not 0.0 <= target <= 1.0:
        raise ValueError(f"target must be a validation score in [0, 1], got {target}; write 0.95 for 95 %")


def seconds_to(records: DataFrame, target: float) -> float:
    """Return the seconds of training by the end of the first epoch whose validation score is at least ``target``.

    The slowest worker's epochs are summed. What they contain counts: quantization, assignment of bits, scheduling
    (AdaQP Tables 5 and 9).
    Evaluation and partitioning do not; an epoch in which rows under way had an evaluation's time for nothing counts as
    its neighbours.

    Args:
        records: of one run.
        target: a score in [0, 1].

    Returns:
        Seconds; NaN if no evaluated epoch got there.

    Example:
        >>> import pandas as pd
        >>> rows = {"epoch": [0, 1, 2], "rank": 0, "loss": 1.0, "train_score": 0.0, "test_score": 0.0}
        >>> records = pd.DataFrame({**rows, "val_score": [0.5, 0.8, 0.9], "epoch_s": [3.0, 1.0, 1.0]})
        >>> seconds_to(records, 0.8), seconds_to(records, 0.95)
        (4.0, nan)
    """
    table = by_epoch(records)
    arrived = table[table["val_score"] >= target]
    return math.nan if arrived.empty else float(arrived["train_s"].iloc[0])
