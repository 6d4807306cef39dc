"""Files that several processes write at once, on one machine or several: whole or not at all. Standard library only.

What is written has a name of its own until it is complete, and takes its place with one rename: a reader sees what was
there before or what is there now, and two writers never meet. A lock is for work that is not to be done twice.
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
    """Yield a path beside ``path`` that nobody else has; what was written there replaces ``path`` at the end.

    An error in the block leaves ``path`` as it was, and nothing beside it.

    Args:
        path: a file, or a folder; a folder that is there already is moved out of the way.
        first: whether a file that is there already stays instead, and what was written is dropped.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.txt")
        >>> with replacing(path) as partial:
        ...     _ = partial.write_text("whole")
        >>> path.read_text(), [file.name for file in path.parent.iterdir()]
        ('whole', ['a.txt'])
    """
    partial = _own_name(path)
    try:
        yield partial
        if partial.is_dir():
            put_folder(partial, path)
        elif first:
            with contextlib.suppress(FileExistsError):
                os.link(partial, path)
        else:
            os.replace(partial, path)
    finally:
        _remove(partial)


def write_text(path: Path, text: str) -> None:
    """Replace a file as a whole.

    Raises:
        OSError: if it cannot be written; the old text stays then.
    """
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def put_folder(fresh: Path, path: Path) -> None:
    """Move a folder to ``path``; one that is there already makes room for it and is removed."""
    while True:
        try:
            return os.rename(fresh, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        old = _own_name(path)
        with contextlib.suppress(FileNotFoundError):  # somebody else makes room at the same time
            os.rename(path, old)
        shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold a lock file for the length of the block; whoever comes second waits until the first has left.

    The lock ends with the process that holds it, however that ends. It also holds between machines whose common disk
    has locks.

    Args:
        path: the lock file, made for the time of the block.

    Yields:
        Whether there is a lock. A disk without locks gives none: then work is done twice, and files are whole all the
        same.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, held = _lock(path)
    try:
        yield held
    finally:
        path.unlink(missing_ok=True)  # before the lock ends: who waits for it sees that the file is another one
        os.close(descriptor)


def _lock(path: Path) -> tuple[int, bool]:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor, True
        except FileNotFoundError:
            pass  # whoever had the lock has removed the file
        except OSError:
            return descriptor, False
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def sweep(folder: Path, pattern: str) -> None:
    """Remove what killed writers of files like ``pattern`` left half written; for who holds the lock they write under.

    Example:
        ``sweep(folder, "rank*.npz")``
    """
    for left in folder.glob(f".*{_MARK}{pattern}"):
        _remove(left)


def _own_name(path: Path) -> Path:
    """Return a hidden name beside a path, with its ending, which some writers go by."""
    # The number of a process would not do: machines with one disk count for themselves.
    return path.with_name(f".{secrets.token_hex(8)}{_MARK}{path.name}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
