"""Check that a folder can be written before a run needs it. Standard library only."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gnnqlab.errors import LaunchRefused

__all__ = ["require_writable"]


def require_writable(folder: Path, *, purpose: str, way_out: str) -> None:
    """Raise if files cannot be created in a folder, or in the nearest one above it that exists; create nothing.

    A temporary file is opened, because permissions alone do not show a read-only disk, and do not bind root.

    Args:
        folder: the folder, which need not exist yet.
        purpose: noun for the error, for instance ``the cache``.
        way_out: advice at the end of the error.

    Raises:
        LaunchRefused: with the folder and the reason.

    Example:
        >>> require_writable(Path("/proc/a"), purpose="the cache", way_out="set GNNQLAB_CACHE")
        Traceback (most recent call last):
        gnnqlab.errors.LaunchRefused: the cache must be writable, got /proc/a: No such file or directory; set ...
    """
    try:
        existing_folder = next(place for place in (folder, *folder.parents) if place.exists())
        with tempfile.TemporaryFile(dir=existing_folder):
            pass
    except OSError as error:
        raise LaunchRefused(
            f"{purpose} must be writable, got {folder}: {error.strerror or error}; {way_out}"
        ) from error
