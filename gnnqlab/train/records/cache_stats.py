"""Cache statistics: rows sent and offered per exchange, written with the messages of an epoch and read back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.message.channels.channel import Channel
from gnnqlab.train.records.json_lines import read_ends

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CACHE_COLUMNS", "CacheCounts", "read_cache", "record_entries"]

CACHE_COLUMNS = ("epoch", "rank", "layer", "direction", "round", "rows_sent", "rows_offered", "epsilon")
"""Columns of ``run.cache``; rows are counted by their sender, and those offered but not sent were skipped (cache hits);
``epsilon`` is the threshold of the cache, NaN if it has another rule."""


class CacheCounts:
    """Converter of the channels' running counts to counts per epoch."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, str, int], tuple[int, int]] = {}

    def read(self, channels: Sequence[Channel]) -> list[list[Any]]:
        """Return one row per exchange with a cache, in the order of ``CACHE_COLUMNS`` from ``layer`` on.

        ε is ``None`` for caches with another rule.
        """
        rows: list[list[Any]] = []
        for channel in channels:
            # Channels count from their creation; the row of an epoch is a difference.
            counts, old_counts = (channel.rows_sent, channel.rows_offered), self._before.get(channel.place, (0, 0))
            self._before[channel.place] = counts
            if counts[1] > old_counts[1]:  # the exchange ran in this epoch
                rows.append([*channel.place, counts[0] - old_counts[0], counts[1] - old_counts[1], channel.epsilon])
        return rows


def record_entries(rows: Sequence[list[Any]]) -> dict[str, float]:
    """Return the entries of an epoch's record for the live view: ``epsilon``, and ``sent_0`` ... by layer.

    ``sent_l`` is the share of the rows of layer l that this worker sent, in both directions.

    Example:
        >>> record_entries([[0, "forward", 0, 1, 4, 0.1], [0, "backward", 0, 2, 4, 0.1], [1, "forward", 0, 4, 4, 0.1]])
        {'epsilon': 0.1, 'sent_0': 0.375, 'sent_1': 1.0}
    """
    entries: dict[str, float] = {}
    if rows and rows[0][-1] is not None:
        entries["epsilon"] = rows[0][-1]
    for layer in sorted({row[0] for row in rows}):
        counts = [row[3:5] for row in rows if row[0] == layer]
        entries[f"sent_{layer}"] = sum(count for count, _ in counts) / sum(count for _, count in counts)
    return entries


def read_cache(folder: Path) -> pd.DataFrame:
    """Return one row per epoch, worker and exchange of a run; empty if the run has no cache."""
    import pandas as pd

    rows = [
        (line["epoch"], int(path.stem.removeprefix("traffic-rank")), *row)
        for path in sorted(folder.glob("traffic-rank*.jsonl"))
        for line in read_ends(path, "cache")  # skips the messages before, which are many more
        for row in line["cache"]
    ]
    frame = pd.DataFrame(rows, columns=list(CACHE_COLUMNS)).astype({"epsilon": float})
    return frame.sort_values(["epoch", "rank", "layer", "direction", "round"], ignore_index=True)
