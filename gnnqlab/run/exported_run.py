"""Exports of a run: a page, a trace, and files for other tools."""

from __future__ import annotations

from pathlib import Path

from gnnqlab.attached import attached
from gnnqlab.run.trained_run import TrainedRun

__all__ = ["TOOLS", "ExportedRun"]

TOOLS = ("tensorboard", "mlflow", "wandb", "trackio", "parquet")
"""Names that `ExportedRun.export` accepts in place of a page."""


class ExportedRun(TrainedRun):
    """Exports of a run, at any time, from its folder alone."""

    def export(self, path: Path | str) -> Path:
        """Write the run at any time as one HTML page that needs no network, or for another tool; return the path.

        Args:
            path: the page, ``.html``; or the name of a tool, ``"tensorboard"``, ``"mlflow"``, ``"wandb"``,
                ``"trackio"`` or ``"parquet"``, see `gnnqlab.run.trackers`.
        """
        is_tool = path in TOOLS
        exported_path: Path = attached(f"run.export.{path}")(self) if is_tool else attached("run.export")(self, path)
        return exported_path

    def export_trace(self, path: Path | str | None = None, *, epoch: int | None = None) -> Path:
        """Write recorded epochs as Chrome trace events for ui.perfetto.dev; return the path.

        Args:
            path: the file to write, ``.json``; by default ``trace.json`` in the run's folder.
            epoch: the only epoch to write; by default all that ``timeline_every`` recorded.

        Raises:
            ValueError: if nothing, or not that epoch, was recorded, or the file has another extension.
        """
        trace_path: Path = attached("run.export_trace")(self, path, epoch=epoch)
        return trace_path
