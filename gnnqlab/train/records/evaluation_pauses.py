"""Pauses for evaluation, in which the rows of pipelined systems travel on.

An epoch under PipeGCN or SYLVIE waits for rows that were posted in the epoch before. If an evaluation lies between the
two, they arrive while nobody's seconds count: the epoch after it is shorter than the link allows. PipeGCN's own
statistics leave such epochs out, and evaluate after every tenth epoch; so it is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.systems.system import System

__all__ = ["EVERY", "advice", "by_epoch", "epoch_seconds", "mark", "undisturbed", "usual_every"]

EVERY = 10
"""Epochs between evaluations of a system with rows under way, if nobody says otherwise."""


def usual_every(lag: int) -> int:
    """Return the epochs between evaluations under a schedule with this ``lag``, if nobody says otherwise.

    Example:
        >>> usual_every(0), usual_every(1)
        (1, 10)
    """
    return EVERY if lag else 1


def advice(system: System, workers: int, evaluate_every: int | None) -> str:
    """Return what is wrong with how often a run is evaluated, and the way out; empty if nothing is."""
    if not system.schedule.lag or workers < 2 or evaluate_every != 1:
        return ""
    return (
        f"the seconds of {system.name} count only if not every epoch follows an evaluation, during which rows "
        f"under way travel on for nothing, got evaluate_every 1; choose evaluate_every {EVERY}, or 0: only the last"
    )


def mark(records: pd.DataFrame, lag: int) -> pd.Series:
    """Return 1 for the rows of epochs that follow an evaluation by at most ``lag`` epochs, and 0 for the others.

    Example:
        >>> import pandas as pd
        >>> records = pd.DataFrame({"epoch": [0, 1, 2, 3], "train_score": [0.1, None, 0.5, None]})
        >>> mark(records, 1).tolist(), mark(records, 0).tolist()
        ([0, 1, 0, 1], [0, 0, 0, 0])
    """
    evaluated = records.loc[records["train_score"].notna(), "epoch"]
    after = {epoch + later for epoch in evaluated.unique() for later in range(1, lag + 1)}
    return records["epoch"].isin(after).astype(int)


def undisturbed(records: pd.DataFrame) -> pd.DataFrame:
    """Return records without the epochs that an evaluation made shorter; all of them where no others remain.

    Example:
        >>> import pandas as pd
        >>> records = pd.DataFrame({"epoch": [1, 2, 3], "after_evaluation": [1, 0, 0]})
        >>> undisturbed(records)["epoch"].tolist()
        [2, 3]
    """
    if "after_evaluation" not in records.columns:
        return records
    others = records[~(records["after_evaluation"] > 0)]
    return records if others.empty else others


def epoch_seconds(records: pd.DataFrame) -> pd.Series:
    """Return the seconds of each epoch, of the slowest worker, as sums of them need them.

    An epoch that an evaluation made shorter counts as those before and after it, between which it lies; the first one,
    which sets things up, is not among them. Epochs of a system that decides as it goes differ in kind, and neighbours
    are mostly of the same.

    Example:
        >>> import pandas as pd
        >>> records = pd.DataFrame({"epoch": [0, 1, 2, 3, 4], "epoch_s": [9.0, 1.0, 3.0, 1.0, 5.0]})
        >>> epoch_seconds(records).tolist(), epoch_seconds(records.assign(after_evaluation=[0, 1, 0, 1, 0])).tolist()
        ([9.0, 1.0, 3.0, 1.0, 5.0], [9.0, 3.0, 3.0, 4.0, 5.0])
    """
    seconds = records.groupby("epoch", sort=True)["epoch_s"].max()
    if "after_evaluation" not in records.columns:
        return seconds
    shortened = records.groupby("epoch", sort=True)["after_evaluation"].max() > 0
    others = seconds.mask(shortened | (seconds.index == seconds.index.min()))
    if others.isna().all():
        return seconds
    return seconds.mask(shortened, others.interpolate(limit_direction="both"))


def by_epoch(records: pd.DataFrame) -> pd.DataFrame:
    """One row per epoch: loss and scores as all workers see them, and ``train_s``, seconds trained by its end.

    The slowest worker's epoch counts, since the others wait for it; evaluation is left out, and an epoch that it made
    shorter counts as its neighbours.
    """
    first = records.sort_values("rank").groupby("epoch", sort=True)
    table = first[["loss", "train_score", "val_score", "test_score"]].first()
    table["train_s"] = epoch_seconds(records).cumsum()
    return table.reset_index()
