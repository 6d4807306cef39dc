"""Predicted bytes on disk of a run, and the check that its disk has them free."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

from gnnqlab.errors import LaunchRefused
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.preflight import min_memory
from gnnqlab.units import human_bytes

__all__ = ["min_disk", "require_disk"]

_COPIES = 3
"""Checkpoints on disk at a time: the newest two, and the one that is being written."""
_MOMENTS = {"adam": 2, "adamw": 2}
"""Numbers per parameter that an optimizer saves; others are counted as 0."""
_RECORD_BYTES = 500
"""Least bytes of an epoch's records of one worker; measured are 540 to 900, and as many of messages."""
_OTHER_BYTES = 64 << 20
"""Logs, reports and temporary files."""


def min_disk(config: RunConfig) -> dict[str, int]:
    """Return a lower bound on the bytes that a run writes, by purpose.

    For n parameters, each with m moments, E epochs and P workers: ``checkpoints 3 * 4 n (2 + m)`` with the best
    weights, one checkpoint instead of three without ``checkpoint_every``, ``models 2 * 4 n``, and ``records`` of E P
    lines, none if training may stop early. The state of rows comes on top. For a graph whose size is unknown before
    loading n is 0.

    Example:
        >>> from gnnqlab.train.config.configure import configure
        >>> sizes = min_disk(configure("sbm:60,3,6", layers=3, hidden=1000, epochs=100, checkpoint_every=10))
        >>> sizes["checkpoints"] // 10**6, sizes["models"] // 10**6
        (51, 8)
    """
    sizes, settings = min_memory(config), config.train
    # Memory counts 16 bytes for each parameter of each worker.
    num_parameters = 0 if sizes is None else sizes["weights"] // (16 * config.workers)
    moments = _MOMENTS.get(settings.optimizer, 0)
    return {
        "checkpoints": (_COPIES if settings.checkpoint_every else 1) * 4 * num_parameters * (2 + moments),
        "models": 2 * 4 * num_parameters,
        "records": 0 if settings.patience else settings.epochs * config.workers * _RECORD_BYTES,
        "other files": _OTHER_BYTES,
    }


def require_disk(config: RunConfig, root: Path) -> None:
    """Raise if the disk of a folder of runs has less free space than a run needs at least; warn if it has little more.

    Args:
        config: configuration of the run.
        root: folder of runs, which need not exist yet.

    Raises:
        LaunchRefused: with the bytes by purpose, and those that are free.
    """
    folder = next(place for place in (root, *root.parents) if place.exists())
    sizes, free_bytes = min_disk(config), shutil.disk_usage(folder).free
    total_bytes = sum(sizes.values())
    table = ", ".join(f"{purpose} {human_bytes(size)}" for purpose, size in sizes.items())
    space = (
        f"at least {human_bytes(total_bytes)} ({table}) where {human_bytes(free_bytes)} are free on the disk of "
        f"{folder}"
    )
    way_out = "free some space, pass out=... or set GNNQLAB_RUNS to another folder"
    if free_bytes < total_bytes:
        raise LaunchRefused(f"a run must fit on its disk, got {space}; {way_out}")
    if free_bytes < 2 * total_bytes - sizes["other files"]:
        warnings.warn(f"the disk of this run may become full: it needs {space}; {way_out}", stacklevel=3)
