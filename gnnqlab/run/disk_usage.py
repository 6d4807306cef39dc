"""What runs and the cache take on disk, and its removal."""

from __future__ import annotations

import difflib
import itertools
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from gnnqlab.partition.parts import cache_folder
from gnnqlab.run.run import LIVE, Run, runs
from gnnqlab.train.config.config_file import NAME as CONFIG
from gnnqlab.train.config.config_file import read_config

__all__ = ["bytes_under", "delete_run", "ended_before", "named", "prune_cache"]

_DAY_S = 24 * 3600.0
_LOCK = ".lock"


def bytes_under(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; what vanishes meanwhile counts nothing."""
    total = 0
    inside = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    for each in itertools.chain([path], inside):
        try:
            total += each.stat().st_size if each.is_file() else 0
        except OSError:
            continue
    return total


def named(names: Sequence[str], root: Path | None = None) -> list[Run]:
    """Return runs by their names.

    Raises:
        ValueError: if there is no run of a name.
    """
    there = {run.id: run for run in runs(root)}
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1, cutoff=0.3)
            hint = f"; did you mean {near[0]}?" if near else "; gnnqlab runs lists them"
            raise ValueError(f"a run to delete must be one that is there, got {name!r}{hint}")
    return [there[name] for name in dict.fromkeys(names)]


def ended_before(days: float, root: Path | None = None) -> list[Run]:
    """Return the runs that have ended and were last written to so many days ago or earlier.

    Raises:
        ValueError: if the number of days is negative.
    """
    if not days >= 0:
        raise ValueError(f"older-than is a number of days from 0 on, got {days}")
    latest = time.time() - days * _DAY_S
    return [run for run in runs(root) if _touched(run.folder) <= latest and run.status not in LIVE]


def delete_run(run: Run) -> int:
    """Remove a run's folder with all that is in it; return the bytes that it took.

    Its configuration goes last, so that a removal that was broken off is still listed and can be taken up again.

    Raises:
        RuntimeError: if the run is under way, or its folder cannot be removed.
    """
    if run.status in LIVE:
        raise RuntimeError(f"a run must have ended before it is deleted, got {run.status} run {run.id}; stop it first")
    size = bytes_under(run.folder)
    try:
        for each in run.folder.iterdir():
            if each.name != CONFIG:
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
        shutil.rmtree(run.folder)
    except OSError as error:
        raise RuntimeError(f"the folder of a run must be removable, got {run.folder}: {error.strerror}") from error
    return size


def prune_cache(root: Path | None = None) -> dict[str, int]:
    """Remove from the cache what can be made again; return the bytes by kind: shards, sources, timings, graphs.

    Graphs that came from memory cannot be made again: those that a run in the folder names stay.

    Args:
        root: folder of runs, as for ``launch``.

    Raises:
        RuntimeError: if one of these runs is under way: its workers may be about to read their shards.
    """
    live = [run.id for run in runs(root) if run.status in LIVE]
    if live:
        raise RuntimeError(f"no run may be under way while the cache is pruned, got {', '.join(live)}; stop them first")
    graphs = [Path(_graph_of(run)) for run in runs(root)]
    wanted = {path for graph in graphs for path in (graph, graph.parent)}  # a folder by content has one by name in it
    freed = {}
    for kind in ("shards", "sources", "timings", "graphs"):
        entries = [path for path in _entries(cache_folder() / kind) if path not in wanted]
        freed[kind] = sum(bytes_under(path) for path in entries)
        for path in entries:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return freed


def _entries(folder: Path) -> list[Path]:
    """Whoever holds a lock is making what it is named after."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    making = {path.stem for path in found if path.suffix == _LOCK}
    return [path for path in found if path.suffix != _LOCK and path.name not in making]


def _graph_of(run: Run) -> str:
    try:
        return str(read_config(run.folder)["graph"])
    except (OSError, ValueError, KeyError):
        return ""  # its configuration is torn; it can be neither gone on with nor compared


def _touched(folder: Path) -> float:
    status = folder / "status.json"
    return (status if status.exists() else folder / CONFIG).stat().st_mtime
