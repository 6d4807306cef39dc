"""Runs side by side as one table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.lab.snapshot import RunLike, labels, score_name, take
from gnnqlab.lab.target import check_target, seconds_to, usual_target

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["comparison_frame"]


def comparison_frame(runs: Sequence[RunLike], *, target: float | None = None) -> DataFrame:
    """Systems side by side, one row a run; ratios are to the first run, above 1 where it is surpassed.

    Columns: ``workers, epochs, accuracy`` (or ``micro-F1``)``, best_val, epoch_s, speedup, to_target_s,
    bytes_per_epoch, bytes_payload, bytes_params, fewer_bytes, comm_s, comp_s, quant_s, assign_s, final_loss,
    peak_memory_bytes, link``. ``to_target_s`` is the time to accuracy (``seconds_to``), NaN for a run that did not get
    there; bytes are split into data and parameters as in SYLVIE Table XII.

    Args:
        runs: the first is the reference.
        target: validation score whose time is taken; by default :func:`usual_target`.

    Raises:
        ValueError: if there is no run, or the target is no score.
    """
    import pandas as pd

    if not runs:
        raise ValueError("a comparison needs at least one run, got none; pass compare([run, other])")
    snapshots = [take(run) for run in runs]
    if target is not None:
        check_target(target)
    goal = usual_target(snapshots) if target is None else target
    first = snapshots[0].summary
    rows = []
    for snapshot in snapshots:
        summary = snapshot.summary
        rows.append(
            {
                "workers": summary.get("workers"),
                "epochs": summary.get("epochs"),
                score_name(summary): summary.get("test_accuracy", summary.get("test_f1_micro")),
                "best_val": summary.get("best_val"),
                "epoch_s": summary.get("epoch_s"),
                "speedup": _ratio(first.get("epoch_s"), summary.get("epoch_s")),
                "to_target_s": seconds_to(snapshot.records, goal),
                "bytes_per_epoch": summary.get("bytes_sent"),
                "bytes_payload": summary.get("bytes_payload"),
                "bytes_params": summary.get("bytes_params"),
                "fewer_bytes": _ratio(first.get("bytes_sent"), summary.get("bytes_sent")),
                "comm_s": summary.get("comm_s"),
                "comp_s": summary.get("comp_s"),
                "quant_s": summary.get("quant_s"),
                "assign_s": summary.get("assign_s"),
                "final_loss": summary.get("final_loss"),
                "peak_memory_bytes": summary.get("peak_memory_bytes"),
                "link": summary.get("link"),
            }
        )
    return pd.DataFrame(rows, index=pd.Index(labels(snapshots), name="system"))


def _ratio(reference: float | None, value: float | None) -> float:
    if reference is None or value is None or not value:
        return math.nan
    return float(reference) / float(value)
