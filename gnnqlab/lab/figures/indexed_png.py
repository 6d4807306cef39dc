"""A picture in at most 256 colours: a third to a quarter of the bytes of a browser's own, and no worse to see.

Lines, letters and surfaces of a figure have a few hundred colours, most of them the steps from a letter's edge to its
ground. The format's own table of colours holds 256; each pixel then takes one byte, which packs far better than four.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from gnnqlab.graph.pictures import write_png

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

__all__ = ["indexed", "pixels", "size"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = ">IIBBBBB"
_COLORS = 256


def size(png: bytes) -> tuple[int, int]:
    """Return width and height of a picture in pixels.

    Example:
        >>> size(indexed(_written(2, 1, 6, 0, b"\\x00" + bytes(8))))
        (2, 1)
    """
    width, height = struct.unpack(">II", png[16:24])
    return int(width), int(height)


def pixels(png: bytes) -> Bytes:
    """Read a picture as Chromium writes it: eight bits a channel, four of them, rows whole or less the row above.

    Args:
        png: the file (PNG, second edition, sections 9 and 11).

    Returns:
        Red, green, blue and opacity, ``height × width × 4``.

    Raises:
        ValueError: if the picture is of another kind.
    """
    kind, packed = _parts(png)
    width, height, *rest = kind
    if rest != [8, 6, 0, 0, 0]:
        raise ValueError(f"a picture must have eight bits a channel, four channels and no interlacing, got {rest}")
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 4 * width)
    written = rows[:, 1:].reshape(height, width, 4)
    if not rows[:, 0].any():
        return written
    if (rows[:, 0] == 2).all():
        return np.cumsum(written, axis=0, dtype=np.uint8)
    found = sorted(set(rows[:, 0].tolist()))
    raise ValueError(f"a picture's rows must be whole or differences down, got filters {found}")


def indexed(png: bytes) -> bytes:
    """Write a picture again with a table of colours; with at most 256 colours it is the same, pixel by pixel.

    With more, the table takes one colour after another, each time the one farthest from all taken so far, times the
    root of its pixels (Gonzalez' rule, weighted); every pixel gets the nearest. Figures err by less than one of 255.

    Args:
        png: as :func:`pixels` reads it.

    Raises:
        ValueError: as :func:`pixels`.

    Example:
        >>> two = _written(2, 1, 6, 0, bytes([0, 255, 0, 0, 255, 0, 0, 255, 128]))
        >>> int(indexed(two)[25]), indexed(two).count(b"PLTE")
        (3, 1)
    """
    picture = pixels(png)
    height, width, _ = picture.shape
    known, places, counts = np.unique(
        np.ascontiguousarray(picture).view(np.uint32).reshape(-1), return_inverse=True, return_counts=True
    )
    colors = known.view(np.uint8).reshape(-1, 4)
    taken, nearest = _table(colors.astype(np.float64), counts)
    return write_png(nearest[places].reshape(height, width), colors[taken].tolist())


def _table(colors: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[list[int], NDArray[np.uint8]]:
    """Which colours stay, and the place among them of each colour's nearest."""
    weight = np.sqrt(counts)
    taken = [int(np.argmax(counts))]
    distance = ((colors - colors[taken[0]]) ** 2).sum(1)
    nearest = np.zeros(len(colors), np.uint8)
    while len(taken) < min(_COLORS, len(colors)):
        new = int(np.argmax(distance * weight))
        to_new = ((colors - colors[new]) ** 2).sum(1)
        closer = to_new < distance
        nearest[closer] = len(taken)
        distance[closer] = to_new[closer]
        taken.append(new)
    return taken, nearest


def _parts(png: bytes) -> tuple[tuple[int, ...], bytes]:
    """The header's numbers and the packed rows."""
    if png[:8] != _SIGNATURE:
        raise ValueError(f"a picture must begin as PNG does, got {png[:8]!r}")
    at, kind, packed = 8, (), []
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        if name == b"IHDR":
            kind = struct.unpack(_HEADER, body)
        elif name == b"IDAT":
            packed.append(body)
        at += 12 + length
    return kind, b"".join(packed)


def _file(kind: tuple[int, ...], more: list[tuple[bytes, bytes]], packed: bytes) -> bytes:
    parts = [(b"IHDR", struct.pack(_HEADER, *kind)), *more, (b"IDAT", packed), (b"IEND", b"")]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )


def _written(width: int, height: int, channels: int, interlaced: int, rows: bytes) -> bytes:
    """A picture of rows as they are, each after its filter; for examples and tests."""
    return _file((width, height, 8, channels, 0, 0, interlaced), [], zlib.compress(rows))
