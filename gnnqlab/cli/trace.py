"""``gnnqlab export-trace``: write a run's timeline for trace viewers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ExportTrace"]


@dataclass(kw_only=True)
class ExportTrace:
    """Write the recorded epochs of a run as Chrome trace events, for ui.perfetto.dev or chrome://tracing."""

    run_id: str
    """Name of the run; `gnnqlab runs` lists them."""
    out: Path | None = None
    """Folder of runs; default: $GNNQLAB_RUNS, else runs."""
    path: Path | None = None
    """Output file, .json; default: trace.json in the run's folder."""
    epoch: int | None = None
    """Only this epoch; default: all recorded epochs (--timeline-every)."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.by_name import did_you_mean
        from gnnqlab.lab.training.critical_path import critical_path
        from gnnqlab.lab.training.trace import export_trace
        from gnnqlab.launch import runs

        present = {run.id: run for run in runs(self.out)}
        if self.run_id not in present:
            hint = did_you_mean(self.run_id, present) or "; gnnqlab runs lists them"
            raise ValueError(f"a run to export must exist, got {self.run_id!r}{hint}")
        run = present[self.run_id]
        path = export_trace(run, self.path, epoch=self.epoch)
        found = critical_path(run, epoch=self.epoch)  # of the median epoch by default
        if not self.json:
            print(f"{path}: open it in ui.perfetto.dev or chrome://tracing\n{found.words}")
        return {"path": str(path), "epoch": found.epoch, "critical_path_ms": found.milliseconds}
