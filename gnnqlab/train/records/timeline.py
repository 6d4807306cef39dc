"""Timelines of selected epochs on disk: ``timeline-rankR.jsonl`` has one line for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.bits.assigner.link_samples import machine
from gnnqlab.exchange.timeline import transfers
from gnnqlab.train.records.json_lines import JsonLines, read_lines
from gnnqlab.train.records.recorder import EndedEpoch, Recorder

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.train.loop.trainer import Trainer

__all__ = ["TIMELINE_COLUMNS", "TimelineFile", "read_timeline"]

TIMELINE_COLUMNS = ("epoch", "layer", "direction", "rank", "what", "peer", "start_s", "end_s", "round")
"""Columns of ``run.timeline``: ``what`` is a part of a layer's exchange (see `gnnqlab.exchange.timeline`), ``peer`` the
sender of a transfer and -1 otherwise. Seconds count from the first part of the epoch on the same machine, because only
workers of one machine share a clock."""

_SOON = 2
"""First epoch recorded: by then buffers, connections and caches are set up."""


class TimelineFile(Recorder):
    """Record the timeline of epoch 2 and of every n-th epoch of one worker."""

    def __init__(self, folder: Path, rank: int, trainer: Trainer, every: int) -> None:
        self._path, self._rank = folder / f"timeline-rank{rank}.jsonl", rank
        self._trainer, self._every = trainer, every

    def begin(self, epoch: int) -> None:
        """Start recording if this epoch is selected."""
        if self._trainer.exchange is not None and self._is_due(epoch):
            self._trainer.exchange.timeline.begin()

    def write(self, epoch: EndedEpoch) -> None:
        """Write the spans of the epoch with its transfers."""
        exchange = self._trainer.exchange
        if exchange is None or not self._is_due(epoch.epoch):
            return
        spans = exchange.timeline.take()
        # On a GPU take() has added the transfers already.
        if not exchange.timeline.stages.on_device:
            spans += transfers(epoch.arrivals)
        rows = [
            [span.layer, span.direction, span.what, span.peer, round(span.start, 7), round(span.end, 7), span.round]
            for span in spans
        ]
        lines = JsonLines(self._path)
        lines.write({"epoch": epoch.epoch, "rank": self._rank, "clock": machine(), "spans": rows})
        lines.close()

    def _is_due(self, epoch: int) -> bool:
        return self._every > 0 and epoch > 0 and (epoch == _SOON or epoch % self._every == 0)


def read_timeline(folder: Path) -> pd.DataFrame:
    """Return one row per part of an exchange, sorted by time; empty if no epoch was recorded."""
    import pandas as pd

    rows = [
        # A stored span: layer, direction, what, peer, start, end and round; a file may lack the last.
        [line["epoch"], *span[:2], line["rank"], *span[2:6], *(span[6:] or [0]), line["clock"]]
        for path in sorted(folder.glob("timeline-rank*.jsonl"))
        for line in read_lines(path)
        for span in line["spans"]
    ]
    frame = pd.DataFrame(rows, columns=[*TIMELINE_COLUMNS, "clock"])
    # Clocks of two machines are unrelated: count from the first span on each.
    start = frame.groupby(["epoch", "clock"])["start_s"].transform("min")
    frame["start_s"] -= start
    frame["end_s"] -= start
    return frame[list(TIMELINE_COLUMNS)].sort_values(["epoch", "start_s", "end_s"], ignore_index=True)
