"""``gq.export``: a run, or several side by side, as one page that opens without a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gnnqlab.lab.training.report import write_report
from gnnqlab.lab.training.snapshot import RunLike

__all__ = ["export"]


def export(runs: RunLike | Sequence[RunLike], path: str | Path) -> Path:
    """Write runs as one HTML page that holds all it needs: figures, tables, configuration, the command that repeats it.

    Runs may still train; the page shows them as they stand. It may be sent by mail, and opens from a disk, on a phone
    and in the dark. Long runs are drawn with fewer points, so that the page stays below 5 MB.

    Args:
        runs: one run, or several; the others are compared with the first.
        path: the file to write, ``.html``; an existing one is replaced as a whole.

    Returns:
        The path that was written.

    Raises:
        ValueError: if there is no run, or the file has another ending.

    Example:
        ``gq.export(gq.runs()[-2:], "comparison.html")``
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is a page, its name must end in .html, got {path.name!r}")
    return write_report(list(runs) if isinstance(runs, Sequence) else [runs], path)
