"""Effect of evaluations on the epoch times of pipelined systems.

An epoch under PipeGCN or SYLVIE waits for rows that were posted in the epoch before. If an evaluation lies between the
two, they are received during the evaluation, which is not timed: the epoch after it is shorter than the link allows.
PipeGCN's own statistics omit such epochs and evaluate after every tenth epoch; so do ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.systems.system import System

__all__ = ["EVERY", "advice", "by_epoch", "epoch_seconds", "mark", "drop_shortened_epochs", "usual_every"]

EVERY = 10
"""Default number of epochs between evaluations of a system with stale rows."""


def usual_every(lag: int) -> int:
    """Return the default number of epochs between evaluations for a schedule with this ``lag``.

    Example:
        >>> usual_every(0), usual_every(1)
        (1, 10)
    """
    return EVERY if lag else 1


def advice(system: System, workers: int, evaluate_every: int | None) -> str:
    """Return a warning if the evaluations of a run make its epoch times unusable; empty if they do not."""
    if not system.schedule.lag or workers < 2 or evaluate_every != 1:
        return ""
    return (
        f"epoch times of {system.name} need epochs that do not follow an evaluation, because pending messages are "
        f"received during it, got evaluate_every 1; choose evaluate_every {EVERY}, or 0: only the last"
    )


def mark(records: pd.DataFrame, lag: int) -> pd.Series:
    """Return 1 for the rows of epochs that follow an evaluation by at most ``lag`` epochs, and 0 for the others.

    Example:
        >>> import pandas as pd
        >>> records = pd.DataFrame({"epoch": [0, 1, 2, 3], "train_score": [0.1, None, 0.5, None]})
        >>> mark(records, 1).tolist(), mark(records, 0).tolist()
        ([0, 1, 0, 1], [0, 0, 0, 0])
    """
    evaluated_epochs = records.loc[records["train_score"].notna(), "epoch"]  # other epochs have no scores
    following_epochs = {epoch + distance for epoch in evaluated_epochs.unique() for distance in range(1, lag + 1)}
    return records["epoch"].isin(following_epochs).astype(int)


def drop_shortened_epochs(records: pd.DataFrame) -> pd.DataFrame:
    """Return records without the epochs that an evaluation made shorter; all records if no others remain.

    Example:
        >>> import pandas as pd
        >>> records = pd.DataFrame({"epoch": [1, 2, 3], "after_evaluation": [1, 0, 0]})
        >>> drop_shortened_epochs(records)["epoch"].tolist()
        [2, 3]
    """
    if "after_evaluation" not in records.columns:
        return records
    other_records = records[~(records["after_evaluation"] > 0)]
    return records if other_records.empty else other_records


def epoch_seconds(records: pd.DataFrame) -> pd.Series:
    """Return the seconds of each epoch, of the slowest worker, corrected for sums over epochs.

    An epoch that an evaluation made shorter is interpolated from the epochs before and after it, without the first one,
    which includes set-up. Neighbouring epochs are used, not the median, because systems with changing settings have
    slow and fast stretches.

    Example:
        >>> import pandas as pd
        >>> records = pd.DataFrame({"epoch": [0, 1, 2, 3, 4], "epoch_s": [9.0, 1.0, 3.0, 1.0, 5.0]})
        >>> epoch_seconds(records).tolist(), epoch_seconds(records.assign(after_evaluation=[0, 1, 0, 1, 0])).tolist()
        ([9.0, 1.0, 3.0, 1.0, 5.0], [9.0, 3.0, 3.0, 4.0, 5.0])
    """
    seconds = records.groupby("epoch", sort=True)["epoch_s"].max()  # workers wait for the slowest
    if "after_evaluation" not in records.columns:
        return seconds
    is_shortened = records.groupby("epoch", sort=True)["after_evaluation"].max() > 0
    other_seconds = seconds.mask(is_shortened | (seconds.index == seconds.index.min()))
    if other_seconds.isna().all():
        return seconds
    return seconds.mask(is_shortened, other_seconds.interpolate(limit_direction="both"))


def by_epoch(records: pd.DataFrame) -> pd.DataFrame:
    """Return one row per epoch: loss and scores, equal for all workers, and ``train_s``, seconds trained by its end.

    The slowest worker's epoch counts, because the others wait for it; evaluation is excluded, and an epoch that it made
    shorter is interpolated.
    """
    groups = records.sort_values("rank").groupby("epoch", sort=True)  # loss and scores are equal on all ranks
    table = groups[["loss", "train_score", "val_score", "test_score"]].first()
    table["train_s"] = epoch_seconds(records).cumsum()
    return table.reset_index()
