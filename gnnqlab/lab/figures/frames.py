"""Tables behind the figures: records in, small DataFrames out. Units are in the column names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.train.records.evaluation_pauses import by_epoch, drop_shortened_epochs

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "by_epoch",
    "by_tier",
    "device_pairs",
    "mean_over_seeds",
    "most_bytes",
    "phase_seconds",
    "without_first_epoch",
    "volume_per_epoch",
]


def without_first_epoch(frame: DataFrame) -> DataFrame:
    """Return the rows without the first epoch, which includes set-up, if there are further epochs."""
    return frame[frame["epoch"] > frame["epoch"].min()] if frame["epoch"].nunique() > 1 else frame


def mean_over_seeds(tables: Iterable[DataFrame]) -> DataFrame:
    """Return the mean of tables of runs that differ in their seed only; a cell that a table lacks counts as 0.

    Example:
        >>> import pandas as pd
        >>> mean_over_seeds([pd.DataFrame({"wait_s": [1.0]}), pd.DataFrame({"wait_s": [3.0], "encode_s": [1.0]})])
           wait_s  encode_s
        0     2.0       0.5
    """
    import pandas as pd

    return pd.concat(tables).fillna(0.0).groupby(level=0, sort=False).mean()


def phase_seconds(records: DataFrame, *, per_worker: bool = False) -> DataFrame:
    """Return mean seconds per epoch of every phase that took any, one row per worker or one for their mean.

    Means, because they add up to the mean epoch; without the first epoch. Evaluation is no part of an epoch, and the
    transfer time of messages is hidden behind other phases or appears as waiting, so neither is included; nor are
    epochs that an evaluation made shorter.
    """
    columns = [phase.column for phase in PHASES if phase.column in records.columns]
    table = drop_shortened_epochs(without_first_epoch(records)).groupby("rank")[columns].mean()
    if not per_worker:
        table = table.mean().to_frame().T
    return table.loc[:, table.max() > 0]  # without phases that took no time


def device_pairs(traffic: DataFrame, *, workers: int | None = None) -> DataFrame:
    """Return bytes per epoch, after the first, from each worker (row) to each other one (column), with parameters."""
    # Without a given number, the largest rank that sent or received.
    size = workers or (int(max(traffic["sender"].max(), traffic["receiver"].max())) + 1 if len(traffic) else 1)
    traffic = without_first_epoch(traffic)
    epochs = max(traffic["epoch"].nunique(), 1)
    total = traffic["payload_bytes"] + traffic["param_bytes"]
    # Bytes per epoch by (sender, receiver).
    pairs = total.groupby([traffic["sender"], traffic["receiver"]]).sum() / epochs
    ranks = range(size)
    # (P, P); pairs without messages are zero, not missing.
    return pairs.unstack(fill_value=0.0).reindex(index=ranks, columns=ranks, fill_value=0.0)


def most_bytes(pairs: Iterable[DataFrame]) -> float:
    """Return the largest entry of several tables of :func:`device_pairs`, for a common colour scale.

    Example:
        >>> import pandas as pd
        >>> most_bytes([pd.DataFrame([[0.0, 3.0], [2.0, 0.0]]), pd.DataFrame([[0.0, 5.0], [1.0, 0.0]])])
        5.0
    """
    return max((float(each.to_numpy().max()) for each in pairs), default=0.0)


def by_tier(traffic: DataFrame) -> DataFrame:
    """Return bytes and seconds per epoch by tier: ``inner`` between workers of one host, ``outer`` between hosts.

    Args:
        traffic: ``run.traffic``.

    Returns:
        By tier: ``rows`` and ``bytes`` (payload and parameters) of all workers, and the transfer ``seconds`` of the
        worker that received longest, the slowest message of each exchange counted. Tiers overlap in time, so their
        seconds do not add up. Without the first epoch.
    """
    import pandas as pd

    traffic = without_first_epoch(traffic)
    epochs = max(traffic["epoch"].nunique(), 1)
    sums = traffic.assign(bytes=traffic["payload_bytes"] + traffic["param_bytes"])  # one row per message
    frame = sums.groupby("tier", observed=False)[["rows", "bytes"]].sum() / epochs
    exchange = ["tier", "receiver", "epoch", "layer", "direction", "round"]
    exchange_s = traffic.groupby(exchange, observed=True)["seconds"].max()  # messages of an exchange run in parallel
    # By tier and receiver, seconds per epoch.
    total = exchange_s.groupby(["tier", "receiver"], observed=True).sum() / epochs
    seconds = total.groupby("tier", observed=True).max()  # of the slowest receiver
    return frame.assign(seconds=pd.Series(seconds).reindex(frame.index, fill_value=0.0))


def volume_per_epoch(records: DataFrame) -> dict[str, float]:
    """Return mean bytes per epoch of all workers after the first: payload and parameters (scales, zero-points)."""
    records = without_first_epoch(records)
    epochs = max(records["epoch"].nunique(), 1)
    return {
        "payload": float(records["bytes_payload"].sum()) / epochs,
        "parameters": float(records["bytes_params"].sum()) / epochs,
    }
