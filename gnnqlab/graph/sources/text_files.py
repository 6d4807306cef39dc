"""Lines of text files of graphs, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import zlib
from pathlib import Path

__all__ = ["lines_of"]


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text in UTF-8, or else in Latin-1, also of one compressed as ``.gz`` or ``.bz2``.

    Raises:
        ValueError: if the compression is damaged.
    """
    suffix = path.suffix.lower()
    try:
        content = path.read_bytes()
        content = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(suffix, bytes)(content)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise ValueError(f"{path} must be a file that can be read and unpacked: {error}; fetch it again") from error
    try:
        text = content.decode("utf-8-sig")  # without the byte order mark of Windows
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.splitlines()
