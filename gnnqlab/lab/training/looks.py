"""Runs that were evaluated unequally often, made comparable.

A score of the best validated epoch grows with the number of looks, and a time to accuracy is only as fine as they are.
So where runs lie side by side, each keeps the scores of the epochs in which all of them were evaluated, and of its last
one: what it would have had, had it been looked at as rarely as the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.training.snapshot import Snapshot
from gnnqlab.train.loop.scores import ALSO, score_key

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["equally_often", "said"]

_SCORES = ["train_score", "val_score", "test_score"]


def equally_often(runs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Return the runs with the scores of the epochs in which all were evaluated; a run that loses none is itself.

    An epoch that a shorter run never reached is one in which the others were evaluated, if they were. Best epoch, its
    scores and ``looks`` in the summary are those of the epochs that stay.
    """
    seen = [_evaluated(run.records) for run in runs]
    return tuple(_kept(run, _common(own, seen)) if own else run for run, own in zip(runs, seen, strict=True))


def said(runs: Sequence[Snapshot]) -> str:
    """Return a sentence about what was left out of some of these runs; empty if nothing was."""
    looks = [int(run.summary["looks"]) for run in runs if "looks" in run.summary]
    if not looks:
        return ""
    return f"Not every run was evaluated as often; scores are of the {min(looks)} epoch(s) in which all were."


def _evaluated(records: DataFrame) -> set[int]:
    """The epochs of a run whose scores are known."""
    if records.empty or "val_score" not in records:
        return set()
    return set(records.loc[records[_SCORES].notna().any(axis=1), "epoch"].astype(int))


def _common(own: set[int], seen: Sequence[set[int]]) -> set[int]:
    """Those of one run that no other run has left out; its last one stays."""
    others = [other for other in seen if other]
    common = {epoch for epoch in own if all(epoch in other or epoch > max(other) for other in others)}
    return common | {max(own)}


def _kept(run: Snapshot, epochs: set[int]) -> Snapshot:
    records = run.records
    lost = records[_SCORES].notna().any(axis=1) & ~records["epoch"].isin(epochs)
    if not lost.any():
        return run
    table = records.assign(**{name: records[name].mask(lost) for name in _SCORES})
    return replace(run, records=table, summary={**run.summary, **_best(table, run.summary), "looks": len(epochs)})


def _best(records: DataFrame, summary: Any) -> dict[str, Any]:
    """What a summary says of the epoch with the best validation score, as ``summarize`` does."""
    first = records[records["rank"] == records["rank"].min()].dropna(subset=["train_score"])
    best = first.loc[first["val_score"].fillna(-1.0).idxmax()]
    val = float(best["val_score"])
    return {
        score_key(summary): float(best["test_score"]),
        **{f"test_{name}": float(best[f"test_{name}"]) for name in ALSO if f"test_{name}" in best},
        "best_val": val if val == val else None,
        "best_epoch": int(best["epoch"]),
    }
