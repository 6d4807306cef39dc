"""Atomic writes of files by several processes, on one machine or several. Standard library only.

A file has a unique temporary name until it is complete, and one rename moves it into place: a reader gets the old or
the new content, and writers do not interfere. A lock prevents work from being done twice.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["locked", "put_folder", "replacing", "sweep", "write_text"]

_MARK = ".partial-"


@contextlib.contextmanager
def replacing(path: Path, *, first: bool = False) -> Iterator[Path]:
    """Yield a unique temporary path in the folder of ``path``, which replaces ``path`` at the end of the block.

    An error in the block leaves ``path`` as it was, and no temporary file.

    Args:
        path: a file, or a folder; an existing folder is moved out of the way.
        first: True to retain an existing file instead, and discard the new one.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.txt")
        >>> with replacing(path) as partial:
        ...     _ = partial.write_text("whole")
        >>> path.read_text(), [file.name for file in path.parent.iterdir()]
        ('whole', ['a.txt'])
    """
    partial_path = _own_name(path)
    try:
        yield partial_path
        if partial_path.is_dir():  # the block may have made a file or a folder
            put_folder(partial_path, path)
        elif first:
            with contextlib.suppress(FileExistsError):
                os.link(partial_path, path)  # fails if `path` exists, where a rename would replace it
        else:
            os.replace(partial_path, path)  # atomic, because both are in one folder, hence on one disk
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(partial_path)):  # write() knows no name
            error.filename = str(path)
        raise
    finally:
        _remove(partial_path)  # what is left after an error, or the other name of a linked file


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically.

    Raises:
        OSError: if it cannot be written; the old text remains.
    """
    with replacing(path) as partial_path:
        # A path in the text may have bytes that are not UTF-8, which Python holds as lone surrogates.
        partial_path.write_text(text, encoding="utf-8", errors="backslashreplace")


def put_folder(fresh: Path, path: Path) -> None:
    """Move a folder to ``path``; an existing folder is moved away and removed."""
    while True:  # a rename replaces only empty folders, and another process may create a new one at any time
        try:
            return os.rename(fresh, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        old_path = _own_name(path)
        with contextlib.suppress(FileNotFoundError):  # another process moved it away at the same time
            os.rename(path, old_path)
        shutil.rmtree(old_path, ignore_errors=True)  # best effort: another process may be removing it


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold a lock file during the block, after waiting for other holders.

    The lock ends with the process that holds it, also after a crash. It works between machines if their shared disk
    supports locks.

    Args:
        path: the lock file, which exists during the block.

    Yields:
        True if the lock is held. A disk without locks yields False: then work may be done twice, but files are still
        complete.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, has_lock = _lock(path)
    try:
        yield has_lock
    finally:
        path.unlink(missing_ok=True)  # before the lock ends, so that waiting processes notice that the file is gone
        os.close(descriptor)


def _lock(path: Path) -> tuple[int, bool]:
    while True:
        # O_CLOEXEC: a started program that inherits the descriptor would hold the lock after this process.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The holder before may have removed the file: only a lock on the present file counts.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor, True
        except FileNotFoundError:
            pass  # removed by the holder before
        except OSError:
            return descriptor, False  # a disk without locks
        # Ctrl-C while waiting: close the descriptor, so that it is not leaked.
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def sweep(folder: Path, pattern: str) -> None:
    """Remove incomplete files like ``pattern`` of killed writers; the caller must hold the writers' lock.

    Example:
        ``sweep(folder, "rank*.npz")``
    """
    for leftover in folder.glob(f".*{_MARK}{pattern}"):
        _remove(leftover)


def _own_name(path: Path) -> Path:
    """Return a unique hidden name in the folder of a path, with its extension, which some writers depend on."""
    # A pid would not be unique: processes of several machines that share a disk may have the same.
    return path.with_name(f".{secrets.token_hex(8)}{_MARK}{path.name}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():  # of a link only the link itself is removed
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
