"""Disk usage of runs and the cache: measure and delete."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from pathlib import Path

from gnnqlab.partition.parts import cache_folder
from gnnqlab.run.folder import default_root
from gnnqlab.run.run import LIVE, Run, runs
from gnnqlab.train.config.config_file import NAME as CONFIG
from gnnqlab.train.config.config_file import read_config

__all__ = ["disk_bytes", "delete_run", "find_ended_before", "prune_cache", "restore_run", "set_aside"]

_DAY_S = 24 * 3600.0
_LOCK = ".lock"
_ASIDE = ".deleted"
"""Folder of runs that were moved aside, in the folder of runs, in whose list they do not appear."""


def disk_bytes(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; files deleted in the meantime count 0."""
    total = 0
    file_paths = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    for entry in itertools.chain([path], file_paths):
        try:
            total += entry.stat().st_size if entry.is_file() else 0
        except OSError:
            continue
    return total


def find_ended_before(days: float, root: Path | None = None) -> list[Run]:
    """Return the runs that have ended and were last written to at least ``days`` days ago.

    Raises:
        ValueError: if the number of days is negative.
    """
    if not days >= 0:  # also true for NaN
        raise ValueError(f"older-than must be a number of days, at least 0, got {days}")
    limit_s = time.time() - days * _DAY_S
    # The time comes first, because a status is read from several files.
    return [run for run in runs(root) if _last_activity_time(run.folder) <= limit_s and run.status not in LIVE]


def delete_run(run: Run) -> int:
    """Delete a run's folder with its contents; return the bytes freed.

    The configuration is deleted last, so that after an interruption the run is still listed and can be deleted again.

    Raises:
        RuntimeError: if the run has not ended, or its folder cannot be removed.
    """
    _require_ended(run)
    size = disk_bytes(run.folder)
    try:
        for entry in run.folder.iterdir():
            if entry.name != CONFIG:
                # A symbolic link is removed itself, not the folder that it points to.
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        shutil.rmtree(run.folder)
    except OSError as error:
        raise RuntimeError(f"the folder of a run must be removable, got {run.folder}: {error.strerror}") from error
    return size


def set_aside(run: Run) -> Run:
    """Move a run's folder out of the list of runs; `restore_run` undoes it, and `prune_cache` deletes it.

    Returns:
        Handle of the moved run.

    Raises:
        RuntimeError: if the run has not ended, or its folder cannot be moved.
    """
    _require_ended(run)
    return _move(run, run.folder.parent / _ASIDE / run.id)


def restore_run(run: Run) -> Run:
    """Move a run that `set_aside` returned back into the list of runs.

    Raises:
        RuntimeError: if it is gone, or its folder cannot be moved.
    """
    return _move(run, run.folder.parent.parent / run.id)


def _move(run: Run, target: Path) -> Run:
    try:
        target.parent.mkdir(exist_ok=True)
        run.folder.rename(target)
    except OSError as error:
        raise RuntimeError(f"the folder of a run must be movable, got {run.folder}: {error.strerror}") from error
    return Run(target)


def _require_ended(run: Run) -> None:
    if run.status in LIVE:
        raise RuntimeError(f"a run must have ended before it is deleted, got {run.status} run {run.id}; stop it first")


def prune_cache(root: Path | None = None) -> dict[str, int]:
    """Delete recomputable files from the cache, and runs that were moved aside; return the bytes freed by kind.

    Kinds are shards, sources, timings and graphs, and ``deleted runs`` if there are any. Graphs saved from memory
    cannot be recomputed: those used by a run in the folder are not deleted.

    Args:
        root: folder of runs, as for ``launch``.

    Raises:
        RuntimeError: if one of these runs has not ended, because its workers may be about to read their shards.
    """
    live_ids = [run.id for run in runs(root) if run.status in LIVE]
    if live_ids:
        raise RuntimeError(f"all runs must have ended to prune the cache, got {', '.join(live_ids)}; stop them first")
    graphs = [Path(_graph_of(run)) for run in runs(root)]
    # A graph from memory is saved as CONTENT_HASH/NAME: the entry of the cache is the parent of the run's path.
    used_paths = {path for graph in graphs for path in (graph, graph.parent)}
    freed_bytes = {}
    for kind in ("shards", "sources", "timings", "graphs"):
        entries = [path for path in _entries(cache_folder() / kind) if path not in used_paths]
        freed_bytes[kind] = sum(disk_bytes(path) for path in entries)
        for path in entries:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    aside = (default_root() if root is None else root) / _ASIDE
    if aside.is_dir():
        freed_bytes["deleted runs"] = disk_bytes(aside)
        shutil.rmtree(aside)
    return freed_bytes


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder without those that another process is writing: they have a lock file."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    locked_names = {path.stem for path in paths if path.suffix == _LOCK}
    return [path for path in paths if path.suffix != _LOCK and path.name not in locked_names]


def _graph_of(run: Run) -> str:
    try:
        return str(read_config(run.folder)["graph"])
    except (OSError, ValueError, KeyError):
        return ""  # without a valid configuration the run can neither be resumed nor compared


def _last_activity_time(folder: Path) -> float:
    # The guard rewrites the status while the run lives: its time is that of the last activity.
    status = folder / "status.json"
    return (status if status.exists() else folder / CONFIG).stat().st_mtime
