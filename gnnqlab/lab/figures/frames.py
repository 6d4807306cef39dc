"""Tables behind the figures: records in, small DataFrames out. Units are in the column names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.train.records.evaluation_pauses import by_epoch, undisturbed

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "by_epoch",
    "by_tier",
    "device_pairs",
    "human_bytes",
    "most_bytes",
    "phase_seconds",
    "settled",
    "volume_per_epoch",
]


def settled(frame: DataFrame) -> DataFrame:
    """Without the first epoch, where there are more: it also pays for setting things up."""
    return frame[frame["epoch"] > frame["epoch"].min()] if frame["epoch"].nunique() > 1 else frame


def phase_seconds(records: DataFrame, *, per_worker: bool = False) -> DataFrame:
    """Mean seconds per epoch of every phase that took any, one row per worker or one for their mean.

    Means of the settled epochs, because means add up to the mean epoch. Evaluation is no part of an epoch, and the time
    bytes spend on the wire is hidden in other phases or shows as waiting, so neither is here; nor are epochs that an
    evaluation made shorter.
    """
    columns = [phase.column for phase in PHASES if phase.column in records.columns]
    table = undisturbed(settled(records)).groupby("rank")[columns].mean()
    if not per_worker:
        table = table.mean().to_frame().T
    return table.loc[:, table.max() > 0]


def device_pairs(traffic: DataFrame, *, workers: int | None = None) -> DataFrame:
    """Bytes per settled epoch that each worker (row) sends to each other (column), payload and parameters."""
    size = workers or (int(max(traffic["sender"].max(), traffic["receiver"].max())) + 1 if len(traffic) else 1)
    traffic = settled(traffic)
    epochs = max(traffic["epoch"].nunique(), 1)
    total = traffic["payload_bytes"] + traffic["param_bytes"]
    pairs = total.groupby([traffic["sender"], traffic["receiver"]]).sum() / epochs
    ranks = range(size)
    return pairs.unstack(fill_value=0.0).reindex(index=ranks, columns=ranks, fill_value=0.0)


def most_bytes(pairs: Iterable[DataFrame]) -> float:
    """Return the most that one worker sends another in any of the tables of :func:`device_pairs`: the top of a scale.

    Example:
        >>> import pandas as pd
        >>> most_bytes([pd.DataFrame([[0.0, 3.0], [2.0, 0.0]]), pd.DataFrame([[0.0, 5.0], [1.0, 0.0]])])
        5.0
    """
    return max((float(each.to_numpy().max()) for each in pairs), default=0.0)


def by_tier(traffic: DataFrame) -> DataFrame:
    """Bytes and seconds of a settled epoch by tier, ``inner`` between workers of one host, ``outer`` between hosts.

    Args:
        traffic: ``run.traffic``.

    Returns:
        By tier: ``rows`` and ``bytes`` (payload and parameters), of all workers; ``seconds``, in which messages of the
        tier were under way to the worker for which that took longest, the slowest of an exchange counted. Tiers pass
        side by side, so their seconds do not add up.
    """
    import pandas as pd

    traffic = settled(traffic)
    epochs = max(traffic["epoch"].nunique(), 1)
    sums = traffic.assign(bytes=traffic["payload_bytes"] + traffic["param_bytes"])
    frame = sums.groupby("tier", observed=False)[["rows", "bytes"]].sum() / epochs
    exchange = ["tier", "receiver", "epoch", "layer", "direction", "round"]
    slowest = traffic.groupby(exchange, observed=True)["seconds"].max()
    total = slowest.groupby(["tier", "receiver"], observed=True).sum() / epochs
    seconds = total.groupby("tier", observed=True).max()
    return frame.assign(seconds=pd.Series(seconds).reindex(frame.index, fill_value=0.0))


def volume_per_epoch(records: DataFrame) -> dict[str, float]:
    """Mean bytes that all workers send in a settled epoch, as payload and as parameters (scales, zero-points)."""
    records = settled(records)
    epochs = max(records["epoch"].nunique(), 1)
    return {
        "payload": float(records["bytes_payload"].sum()) / epochs,
        "parameters": float(records["bytes_params"].sum()) / epochs,
    }


def human_bytes(count: float) -> str:
    """Bytes in a unit a person reads, decimal as networks count.

    Example:
        >>> human_bytes(999), human_bytes(1234567)
        ('999 B', '1.23 MB')
    """
    if not math.isfinite(count):
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 999.5:
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
