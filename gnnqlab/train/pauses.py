"""Pauses for evaluation, in which the rows of pipelined systems travel on.

An epoch under PipeGCN or SYLVIE waits for rows that were posted in the epoch before. If an evaluation lies between the
two, they arrive while nobody's seconds count: the epoch after it is shorter than the link allows. PipeGCN's own
statistics leave such epochs out, and evaluate after every tenth epoch; so it is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.train.config import RunConfig

__all__ = ["EVERY", "advice", "epoch_seconds", "mark", "undisturbed", "usual_every"]

EVERY = 10
"""Epochs between evaluations of a system with rows under way, if nobody says otherwise."""


def usual_every(lag: int) -> int:
    """Return the epochs between evaluations under a schedule with this ``lag``, if nobody says otherwise.

    Example:
        >>> usual_every(0), usual_every(1)
        (1, 10)
    """
    return EVERY if lag else 1


def advice(config: RunConfig) -> str:
    """Return what is wrong with how often a run is evaluated, and the way out; empty if nothing is."""
    if not config.system.schedule.lag or config.workers < 2 or config.train.evaluate_every != 1:
        return ""
    return (
        f"the seconds of {config.system.name} count only if not every epoch follows an evaluation, during which rows "
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

    An epoch that an evaluation made shorter counts as the median of the others, the first one aside.

    Example:
        >>> import pandas as pd
        >>> records = pd.DataFrame({"epoch": [0, 1, 2, 3], "epoch_s": [9.0, 1.0, 3.0, 3.0]})
        >>> epoch_seconds(records).tolist(), epoch_seconds(records.assign(after_evaluation=[0, 1, 0, 0])).tolist()
        ([9.0, 1.0, 3.0, 3.0], [9.0, 3.0, 3.0, 3.0])
    """
    seconds = records.groupby("epoch", sort=True)["epoch_s"].max()
    if "after_evaluation" not in records.columns:
        return seconds
    shortened = records.groupby("epoch", sort=True)["after_evaluation"].max() > 0
    others = seconds[~shortened & (seconds.index > seconds.index.min())]
    return seconds.mask(shortened, others.median()) if len(others) else seconds
