"""Find runs by name or path."""

from __future__ import annotations

import os
from pathlib import Path

from gnnqlab.by_name import closest_words
from gnnqlab.run.run import Run, runs

__all__ = ["find_run"]


def find_run(name: str, root: Path | None = None) -> Run:
    """Return a run.

    Args:
        name: its name in ``root``, as ``gnnqlab runs`` lists it, or the path of its folder, with a slash.
        root: folder of runs; by default ``$GNNQLAB_RUNS``, else ``runs``.

    Raises:
        ValueError: if there is no such run; the message has the nearest name.
    """
    runs_by_id = {run.id: run for run in runs(root)}
    if name in runs_by_id:
        return runs_by_id[name]
    if os.sep in name and Path(name).is_dir():
        return Run(name)
    suggestions = closest_words(name, runs_by_id, limit=1)
    hint = f"did you mean {suggestions[0]}?" if suggestions else "gnnqlab runs lists them"
    raise ValueError(f"a run must exist, got {name!r}; {hint}")
