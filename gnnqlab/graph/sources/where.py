"""Folders of downloaded graphs, and the error of a missing one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["ROOT_VARIABLE", "data_root", "find_folder", "missing_data"]

ROOT_VARIABLE = "GNNQLAB_DATA"


def data_root(root: str | Path | None = None) -> Path:
    """Return the folder with one folder or file per downloaded graph.

    In this order: the argument; the environment variable ``GNNQLAB_DATA``; ``datasets/downloads``
    in the working directory if that has a ``datasets`` folder; ``~/.cache/gnnqlab/data``. The folder
    need not exist.

    Example:
        >>> data_root("here").name
        'here'
    """
    if root is not None:
        return Path(root).expanduser()
    if os.environ.get(ROOT_VARIABLE):
        return Path(os.environ[ROOT_VARIABLE]).expanduser()
    if Path("datasets").is_dir():
        return Path("datasets", "downloads")
    return Path("~/.cache/gnnqlab/data").expanduser()


def find_folder(root: Path, names: Iterable[str], files: Iterable[str]) -> Path | None:
    """Return the first folder that holds all ``files``, or ``None``.

    Candidates for each name are ``root/NAME``, ``root/NAME_*`` (DGL adds a hash to its folder
    names), the folders directly below those (archives often contain a top-level folder), and the
    same in DGL's own download folder.
    """
    files = tuple(files)
    for base in (root, _dgl_root()):
        for name in names:
            for folder in (base / name, *sorted(base.glob(f"{name}_*"))):  # glob has no fixed order
                subfolders = sorted(child for child in folder.iterdir() if child.is_dir()) if folder.is_dir() else []
                for candidate in (folder, *subfolders):
                    if all((candidate / file).is_file() for file in files):
                        return candidate
    return None


def missing_data(name: str, files: Iterable[str], folder: Path, *, url: str | None, reason: str | None) -> RuntimeError:
    """Build the error of a missing graph: the files, their folder, and the reason of the failed download."""
    source = f" (from {url}, unpacked)" if url else ""
    cause = f" and cannot be downloaded: {' '.join(reason.split())}" if reason else ""
    return RuntimeError(
        f"graph {name!r} is not on this machine{cause}; put {', '.join(files)}{source} into {folder}, or set "
        f"{ROOT_VARIABLE} to the folder that holds {folder.name}/"
    )


def _dgl_root() -> Path:
    return Path(os.environ.get("DGL_DOWNLOAD_DIR", "~/.dgl")).expanduser()
