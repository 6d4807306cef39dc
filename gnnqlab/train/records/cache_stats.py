"""What a cache kept home: rows sent and offered by layer, written beside the messages of an epoch and read back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.message.channels.channel import Channel
from gnnqlab.train.records.json_lines import read_ends

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CACHE_COLUMNS", "Cached", "in_record", "read_cache"]

CACHE_COLUMNS = ("epoch", "rank", "layer", "direction", "round", "rows_sent", "rows_offered", "epsilon")
"""Columns of ``run.cache``; rows are counted by their sender, ``epsilon`` is the threshold by which they were chosen,
NaN where the cache has another rule."""


class Cached:
    """Turns the running counts of channels into counts of an epoch."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, str, int], tuple[int, int]] = {}

    def read(self, channels: Sequence[Channel]) -> list[list[Any]]:
        """Return one row for each place that offered rows to a cache, in the order of ``CACHE_COLUMNS`` from ``layer``.

        An ε that no chooser has is ``None``.
        """
        rows: list[list[Any]] = []
        for channel in channels:
            now, before = (channel.rows_sent, channel.rows_offered), self._before.get(channel.place, (0, 0))
            self._before[channel.place] = now
            if now[1] > before[1]:
                rows.append([*channel.place, now[0] - before[0], now[1] - before[1], channel.epsilon])
        return rows


def in_record(rows: Sequence[list[Any]]) -> dict[str, float]:
    """Return what of an epoch's counts stands in its record, for the live view: ``epsilon``, and ``sent_0`` … by layer.

    ``sent_l`` is the share of the rows of layer l that this worker sent, there and back.

    Example:
        >>> in_record([[0, "forward", 0, 1, 4, 0.1], [0, "backward", 0, 2, 4, 0.1], [1, "forward", 0, 4, 4, 0.1]])
        {'epsilon': 0.1, 'sent_0': 0.375, 'sent_1': 1.0}
    """
    said: dict[str, float] = {}
    if rows and rows[0][-1] is not None:
        said["epsilon"] = rows[0][-1]
    for layer in sorted({row[0] for row in rows}):
        counts = [row[3:5] for row in rows if row[0] == layer]
        said[f"sent_{layer}"] = sum(sent for sent, _ in counts) / sum(offered for _, offered in counts)
    return said


def read_cache(folder: Path) -> pd.DataFrame:
    """Return one row an epoch, worker and place of a run's exchange; empty if the run has no cache."""
    import pandas as pd

    rows = [
        (line["epoch"], int(path.stem.removeprefix("traffic-rank")), *row)
        for path in sorted(folder.glob("traffic-rank*.jsonl"))
        for line in read_ends(path, "cache")  # messages, of which there are many more, stand before
        for row in line["cache"]
    ]
    frame = pd.DataFrame(rows, columns=list(CACHE_COLUMNS)).astype({"epsilon": float})
    return frame.sort_values(["epoch", "rank", "layer", "direction", "round"], ignore_index=True)
