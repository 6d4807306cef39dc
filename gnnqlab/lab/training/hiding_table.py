"""What overlap can hide, worker by worker: bytes under way beside the computation that needs none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.frames import settled

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["hiding_table"]


def hiding_table(records: DataFrame) -> DataFrame:
    """Return, for each worker, medians over epochs of what an overlapped run hides (AdaQP Table 2 and Fig. 3).

    Args:
        records: ``run.records``.

    Returns:
        Milliseconds of an epoch by worker: ``under way``, rows on the wire; ``central``, computation that needs none of
        them; ``marginal``; ``waited``, what was left to wait for; and ``hidden (%)``: central rows as a share of all
        aggregation, central and marginal.

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
    table = 1e3 * settled(records).groupby("rank")[columns].median()
    table.columns = ["under way", "central", "marginal", "waited"]
    both = table["central"] + table["marginal"]
    table["hidden (%)"] = 100 * table["central"] / both.where(both > 0)
    table.index = [f"worker {rank}" for rank in table.index]
    return table.rename_axis("ms an epoch")
