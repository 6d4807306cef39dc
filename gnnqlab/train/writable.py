"""Check that a folder can be written before a run needs it; text of a failed write. Standard library only."""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path

from gnnqlab.errors import LaunchRefused

__all__ = ["free_space_note", "is_full_disk", "require_writable", "write_failure"]

_FULL = (errno.ENOSPC, errno.EDQUOT)


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


def write_failure(error: OSError, path: Path) -> str:
    """Return the reason of a failed write, its path and, on a full disk, the free bytes.

    Args:
        error: the error, which may name a file.
        path: file or folder that was written.

    Example:
        >>> write_failure(OSError(errno.EROFS, "Read-only file system"), Path("runs/a"))
        'Read-only file system: runs/a'
    """
    return f"{error.strerror or error}: {error.filename or path}{free_space_note(error, path)}"


def is_full_disk(error: BaseException) -> bool:
    """Return True for an error of a full disk, or of a full quota on it."""
    return isinstance(error, OSError) and error.errno in _FULL


def free_space_note(error: BaseException, path: Path) -> str:
    """Return the free bytes of the disk of a path, as the end of a sentence; empty unless the disk is full.

    Example:
        >>> free_space_note(OSError(errno.ENOSPC, "No space left on device"), Path("/proc/a"))
        ' (0 bytes free on the disk of /proc)'
        >>> free_space_note(ValueError("other"), Path("/proc/a"))
        ''
    """
    if not is_full_disk(error):
        return ""
    assert isinstance(error, OSError)
    named_path = Path(error.filename) if isinstance(error.filename, str) else path
    try:
        folder = next(place for place in (named_path, *named_path.parents) if place.is_dir())
        return f" ({shutil.disk_usage(folder).free} bytes free on the disk of {folder})"
    except (OSError, StopIteration):
        return ""
