"""Exposed and hidden communication of a worker: what it waited for, and what passed while it worked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["exposed_table"]

_Spans = list[tuple[float, float]]


def exposed_table(timeline: DataFrame) -> DataFrame:
    """Return, for each worker, how long messages to it were under way, and how much of that it waited.

    Transfers that overlap count once. Under way while the worker waits is *exposed*, under way while it does something
    else is *hidden*; the two add up.

    Args:
        timeline: ``run.timeline``, of one epoch.

    Returns:
        Milliseconds by worker: ``under way, exposed, hidden``.

    Example:
        >>> import pandas as pd
        >>> parts = [(0, "transfer", 0.000, 0.010), (0, "central", 0.000, 0.004), (0, "wait", 0.004, 0.010)]
        >>> timeline = pd.DataFrame(parts, columns=["rank", "what", "start_s", "end_s"])
        >>> exposed_table(timeline).round(6).loc["worker 0"].tolist()
        [10.0, 6.0, 4.0]
    """
    import pandas as pd

    rows = {}
    for rank in sorted(set(timeline["rank"])):
        mine = timeline[timeline["rank"] == rank]
        way = _union(_spans(mine, "transfer"))
        total, exposed = _length(way), _length(_common(way, _union(_spans(mine, "wait"))))
        rows[f"worker {rank}"] = [1e3 * total, 1e3 * exposed, 1e3 * (total - exposed)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["under way", "exposed", "hidden"]).rename_axis("ms")


def _spans(timeline: DataFrame, what: str) -> _Spans:
    some = timeline[timeline["what"] == what]
    return list(zip(some["start_s"].tolist(), some["end_s"].tolist()))


def _union(spans: Iterable[tuple[float, float]]) -> _Spans:
    found: _Spans = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _common(one: _Spans, other: _Spans) -> _Spans:
    """Return what two unions share."""
    shared = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return [(start, end) for start, end in shared if start < end]


def _length(spans: _Spans) -> float:
    return sum(end - start for start, end in spans)
