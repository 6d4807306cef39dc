"""Runs side by side as one table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnnqlab.lab.training.looks import equally_often
from gnnqlab.lab.training.snapshot import RunLike, labels, take
from gnnqlab.lab.training.target import check_target, seconds_to, usual_target
from gnnqlab.train.loop.scores import also_in, score_in, score_label

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["comparison_frame"]


def comparison_frame(runs: Sequence[RunLike], *, target: float | None = None) -> DataFrame:
    """Systems side by side, one row a run; ratios are to the first run, above 1 where it is surpassed.

    Columns: ``workers, epochs, accuracy`` (or ``micro-F1``, or ``AUC, MRR``)``, best_val, train_s, faster, to_target_s,
    faster_to_target, epoch_s, speedup, bytes_per_epoch, bytes_payload, bytes_params, fewer_bytes, comm_s, comp_s,
    quant_s, assign_s, assign_share, assign_cpu_s, final_loss, peak_memory_bytes, link``. ``train_s`` is the whole
    training and ``to_target_s`` the time to accuracy (``seconds_to``), NaN for a run that did not get there; both hold
    everything that an epoch can, which the median epoch (``epoch_s``, and ``speedup`` of it) leaves out where it is
    rare. Bytes are split into data and parameters as in SYLVIE Table XII; ``assign_cpu_s`` is the processor time of all
    assignments, spent in the background.

    Args:
        runs: the first is the reference.
        target: validation score whose time is taken; by default :func:`usual_target`.

    Raises:
        ValueError: if there is no run, or the target is no score.
    """
    import pandas as pd

    if not runs:
        raise ValueError("a comparison needs at least one run, got none; pass compare([run, other])")
    snapshots = equally_often([take(run) for run in runs])
    if target is not None:
        check_target(target)
    goal = usual_target(snapshots) if target is None else target
    first = snapshots[0].summary
    first_there = seconds_to(snapshots[0].records, goal)
    rows = []
    for snapshot in snapshots:
        summary = snapshot.summary
        there = seconds_to(snapshot.records, goal)
        rows.append(
            {
                "workers": summary.get("workers"),
                "epochs": summary.get("epochs"),
                score_label(summary): score_in(summary),
                **also_in(summary),
                "best_val": summary.get("best_val"),
                "train_s": summary.get("train_s"),
                "faster": _ratio(first.get("train_s"), summary.get("train_s")),
                "to_target_s": there,
                "faster_to_target": _ratio(first_there, there),
                "epoch_s": summary.get("epoch_s"),
                "speedup": _ratio(first.get("epoch_s"), summary.get("epoch_s")),
                "bytes_per_epoch": summary.get("bytes_sent"),
                "bytes_payload": summary.get("bytes_payload"),
                "bytes_params": summary.get("bytes_params"),
                "fewer_bytes": _ratio(first.get("bytes_sent"), summary.get("bytes_sent")),
                "comm_s": summary.get("comm_s"),
                "comp_s": summary.get("comp_s"),
                "quant_s": summary.get("quant_s"),
                "assign_s": summary.get("assign_s"),
                "assign_share": summary.get("assign_share"),
                "assign_cpu_s": summary.get("assignments", math.nan) * summary.get("assign_cpu_s", math.nan),
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
