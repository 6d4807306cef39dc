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
        from gnnqlab.lab.training.critical_path import critical_path
        from gnnqlab.lab.training.trace import export_trace
        from gnnqlab.run.find import find_run

        run = find_run(self.run_id, self.out)
        path = export_trace(run, self.path, epoch=self.epoch)
        epoch_path = critical_path(run, epoch=self.epoch)  # of the median epoch by default
        if not self.json:
            print(f"{path}: open it in ui.perfetto.dev or chrome://tracing\n{epoch_path.words}")
        return {"path": str(path), "epoch": epoch_path.epoch, "critical_path_ms": epoch_path.milliseconds}
