"""Communication that overlap can hide, per worker: transfer time next to the computation that needs no messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.frames import without_first_epoch

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["hiding_table"]


def hiding_table(records: DataFrame) -> DataFrame:
    """Return transfer, computation and waiting times of each worker, medians over epochs (AdaQP Table 2 and Fig. 3).

    Args:
        records: ``run.records``.

    Returns:
        Milliseconds per epoch by worker: ``under way``, transfer of rows; ``central``, aggregation that needs none of
        them; ``marginal``, aggregation that does; ``waited``, the rest of the transfer that was waited for; and
        ``hidden (%)``: central as a share of all aggregation, central and marginal.

    Raises:
        ValueError: if nothing was recorded.

    Example:
        >>> import pandas as pd
        >>> seconds = {"wire_s": 0.004, "central_s": 0.003, "marginal_s": 0.001, "wait_s": 0.001}
        >>> hiding_table(pd.DataFrame([{"epoch": 1, "rank": 0, **seconds}])).round(3).loc["worker 0"].tolist()
        [4.0, 3.0, 1.0, 1.0, 75.0]
    """
    if records.empty:
        raise ValueError("a table needs at least one recorded epoch, got none; wait for the run")
    columns = ["wire_s", "central_s", "marginal_s", "wait_s"]
    table = 1e3 * without_first_epoch(records).groupby("rank")[columns].median()  # seconds -> ms
    table.columns = ["under way", "central", "marginal", "waited"]
    aggregation = table["central"] + table["marginal"]
    table["hidden (%)"] = 100 * table["central"] / aggregation.where(aggregation > 0)  # NaN without any aggregation
    table.index = [f"worker {rank}" for rank in table.index]
    return table.rename_axis("ms an epoch")
