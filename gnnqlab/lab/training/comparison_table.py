"""Comparison table of runs, with scores of epochs in which all runs were evaluated, and the time to accuracy.

The score of the best validated epoch grows with the number of evaluations, and the resolution of a time to accuracy is
that of the evaluations. So each run keeps the scores of the epochs in which all runs were evaluated, and of its last
one. Faster epochs that learn less are no gain; the time to accuracy accounts for both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.frames import by_epoch
from gnnqlab.lab.training.seed_groups import find_baseline, group_seeds, references, seed_of
from gnnqlab.lab.training.snapshot import RunLike, Snapshot, labels, take
from gnnqlab.study.result import MARGIN
from gnnqlab.train.loop.scores import FURTHER_SCORES, further_test_scores, get_test_score, score_key, score_label
from gnnqlab.train.records.record import best_evaluation

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "match_evaluations",
    "evaluation_note",
    "MARGIN",
    "check_target",
    "seconds_to",
    "usual_target",
    "comparison_frame",
]

_SCORES = ["train_score", "val_score", "test_score"]


def match_evaluations(runs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Return the runs with only the scores of epochs in which all were evaluated; without loss, a run is unchanged.

    An epoch beyond the end of a shorter run counts if all longer runs were evaluated in it. The best epoch, its scores
    and ``looks`` (number of evaluations) in the summary are those of the remaining epochs.
    """
    evaluated_epochs = [_evaluated(run.records) for run in runs]
    return tuple(
        _restrict(run, _common(epochs, evaluated_epochs)) if epochs else run
        for run, epochs in zip(runs, evaluated_epochs, strict=True)
    )


def evaluation_note(runs: Sequence[Snapshot]) -> str:
    """Return a sentence about scores that were left out of these runs; empty if none were."""
    counts = [int(run.summary["looks"]) for run in runs if "looks" in run.summary]
    if not counts:
        return ""
    return f"Not all runs were evaluated equally often; scores are of the {min(counts)} epoch(s) in which all were."


def _evaluated(records: DataFrame) -> set[int]:
    """Return the epochs of a run in which it was evaluated."""
    if records.empty or "val_score" not in records:
        return set()
    return set(records.loc[records[_SCORES].notna().any(axis=1), "epoch"].astype(int))


def _common(run_epochs: set[int], evaluated_epochs: Sequence[set[int]]) -> set[int]:
    """Return the epochs of one run in which all runs that got that far were evaluated, and its last one."""
    epoch_sets = [epochs for epochs in evaluated_epochs if epochs]
    # A run that ended before does not restrict longer ones.
    common_epochs = {
        epoch for epoch in run_epochs if all(epoch in epochs or epoch > max(epochs) for epochs in epoch_sets)
    }
    return common_epochs | {max(run_epochs)}  # the last epoch always remains


def _restrict(run: Snapshot, epochs: set[int]) -> Snapshot:
    records = run.records
    is_lost = records[_SCORES].notna().any(axis=1) & ~records["epoch"].isin(epochs)  # rows whose scores are removed
    if not is_lost.any():
        return run
    table = records.assign(**{name: records[name].mask(is_lost) for name in _SCORES})
    return replace(run, records=table, summary={**run.summary, **_best(table, run.summary), "looks": len(epochs)})


def _best(records: DataFrame, summary: Any) -> dict[str, Any]:
    """Return the scores of the epoch with the best validation score, by the names of a summary."""
    # One worker's records are enough, because all workers record the same scores.
    rows = records[records["rank"] == records["rank"].min()].dropna(subset=["train_score"])
    best_row = best_evaluation(rows)
    val = float(best_row["val_score"])
    return {
        score_key(summary): float(best_row["test_score"]),
        **{f"test_{name}": float(best_row[f"test_{name}"]) for name in FURTHER_SCORES if f"test_{name}" in best_row},
        "best_val": val if val == val else None,
        "best_epoch": int(best_row["epoch"]),
    }


def usual_target(runs: Sequence[Snapshot], *, baseline: str | int | None = None) -> float:
    """Return the best validation score of the baseline less ``MARGIN``; NaN without one.

    Of several seeds the lowest counts, so that the baseline reaches the target with all of them.
    """
    group = find_baseline(group_seeds(runs), baseline)
    best_scores = [runs[number].summary.get("best_val") for number in group.numbers]
    return min((float(score) for score in best_scores if score is not None), default=math.nan) - MARGIN


def check_target(target: float) -> None:
    """Raise an error if a target is not a score in [0, 1]."""
    if not 0.0 <= target <= 1.0:
        raise ValueError(f"target must be a validation score in [0, 1], got {target}; write 0.95 for 95 %")


def seconds_to(records: DataFrame, target: float) -> float:
    """Return the seconds of training by the end of the first epoch whose validation score is at least ``target``.

    The slowest worker's epochs are summed, including quantization, assignment of bits and scheduling (AdaQP Tables 5
    and 9). Evaluation and partitioning are excluded; an epoch whose messages were transferred during an evaluation
    counts as long as its neighbours.

    Args:
        records: records of one run.
        target: a score in [0, 1].

    Returns:
        Seconds; NaN if no evaluated epoch reached the target.

    Example:
        >>> import pandas as pd
        >>> rows = {"epoch": [0, 1, 2], "rank": 0, "loss": 1.0, "train_score": 0.0, "test_score": 0.0}
        >>> records = pd.DataFrame({**rows, "val_score": [0.5, 0.8, 0.9], "epoch_s": [3.0, 1.0, 1.0]})
        >>> seconds_to(records, 0.8), seconds_to(records, 0.95)
        (4.0, nan)
    """
    table = by_epoch(records)
    reached_rows = table[table["val_score"] >= target]  # NaN is not reached
    return math.nan if reached_rows.empty else float(reached_rows["train_s"].iloc[0])


def comparison_frame(
    runs: Sequence[RunLike], *, target: float | None = None, baseline: str | int | None = None
) -> DataFrame:
    """Return a table with one row per run; ratios are relative to the baseline's run with the same seed.

    Ratios above 1 are improvements, and NaN for a seed that the baseline lacks, unless the baseline is a single run.

    Columns: ``group`` (label without the seed), ``seed, workers, epochs, accuracy`` (or ``micro-F1``, or ``AUC,
    MRR``)``, difference`` (from the baseline's score)``, best_val, train_s, faster, to_target_s, faster_to_target,
    epoch_s, speedup, bytes_per_epoch, bytes_payload, bytes_params, fewer_bytes, comm_s, comp_s, quant_s, assign_s,
    assign_share, assign_cpu_s, final_loss, peak_memory_bytes, link``. ``train_s`` is the whole training and
    ``to_target_s`` the time to accuracy (``seconds_to``), NaN for a run that did not reach it; both include rare costs,
    such as bit assignment, which the median epoch (``epoch_s``, and its ``speedup``) leaves out.
    Bytes are split into data and parameters as in SYLVIE Table XII; ``assign_cpu_s`` is the processor time of all
    assignments in the background.

    Args:
        runs: runs to compare.
        target: validation score of the time to accuracy; by default :func:`usual_target`.
        baseline: as for :func:`gnnqlab.compare`.

    Raises:
        ValueError: if there is no run, the target is not a score in [0, 1], or the baseline is unknown.
    """
    import pandas as pd

    if not runs:
        raise ValueError("a comparison needs at least one run, got none; pass compare([run, other])")
    snapshots = match_evaluations([take(run) for run in runs])
    if target is not None:
        check_target(target)
    goal = usual_target(snapshots, baseline=baseline) if target is None else target
    groups = group_seeds(snapshots)
    partners = references(groups, find_baseline(groups, baseline))
    names = {number: group.label for group in groups for number in group.numbers}
    to_goal_s = [seconds_to(snapshot.records, goal) for snapshot in snapshots]
    rows = []
    for number, snapshot in enumerate(snapshots):
        summary, partner = snapshot.summary, partners.get(number)
        reference: Mapping[str, Any] = {} if partner is None else snapshots[partner].summary
        rows.append(
            {
                "group": names[number],
                "seed": seed_of(snapshot),
                "workers": summary.get("workers"),
                "epochs": summary.get("epochs"),
                score_label(summary): get_test_score(summary),
                "difference": _difference(get_test_score(summary), get_test_score(reference)),
                **further_test_scores(summary),
                "best_val": summary.get("best_val"),
                "train_s": summary.get("train_s"),
                "faster": _ratio(reference.get("train_s"), summary.get("train_s")),
                "to_target_s": to_goal_s[number],
                "faster_to_target": math.nan if partner is None else _ratio(to_goal_s[partner], to_goal_s[number]),
                "epoch_s": summary.get("epoch_s"),
                "speedup": _ratio(reference.get("epoch_s"), summary.get("epoch_s")),
                "bytes_per_epoch": summary.get("bytes_sent"),
                "bytes_payload": summary.get("bytes_payload"),
                "bytes_params": summary.get("bytes_params"),
                "fewer_bytes": _ratio(reference.get("bytes_sent"), summary.get("bytes_sent")),
                "comm_s": summary.get("comm_s"),
                "comp_s": summary.get("comp_s"),
                "quant_s": summary.get("quant_s"),
                "assign_s": summary.get("assign_s"),
                "assign_share": summary.get("assign_share"),
                # Assignments times seconds of each.
                "assign_cpu_s": summary.get("assignments", math.nan) * summary.get("assign_cpu_s", math.nan),
                "final_loss": summary.get("final_loss"),
                "peak_memory_bytes": summary.get("peak_memory_bytes"),
                "link": summary.get("link"),
            }
        )
    return pd.DataFrame(rows, index=pd.Index(labels(snapshots), name="system"))


def _difference(score: float | None, reference: float | None) -> float:
    return math.nan if score is None or reference is None else float(score) - float(reference)


def _ratio(reference: float | None, value: float | None) -> float:
    if reference is None or value is None or not value:
        return math.nan
    return float(reference) / float(value)
