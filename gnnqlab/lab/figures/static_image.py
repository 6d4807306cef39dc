"""A figure as a picture that stays sharp on every screen and small in a notebook.

Drawn as lines and letters (SVG), most figures take less than a photograph of them. One with thousands of points takes
far more; it becomes a photograph with two pixels to one of the page, in a table of colours, framed as SVG so that it
stands as large as the others. A picture cannot follow a page from light to dark: no ink has a contrast of 4.5 with both
white and JupyterLab's #111, whose own contrast is 18.9, below 4.5 squared. So it brings its ground with it.

Lines, letters and surfaces of a figure have a few hundred colours, most of them the steps from a letter's edge to its
ground. The format's own table of colours holds 256; each pixel then takes one byte, which packs far better than four: a
third to a quarter of the bytes of a browser's own picture, and no worse to see.
"""

from __future__ import annotations

import atexit
import base64
import functools
import os
import re
import shutil
import struct
import zlib
from typing import TYPE_CHECKING

import numpy as np

from gnnqlab.graph.pictures import write_png

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    from plotly.graph_objects import Figure

__all__ = ["indexed", "pixels", "size", "svg_of"]

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


_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_WIDTH = 720
"""Pixels of a picture: a page of 900 has the room beside JupyterLab's own, which cuts wider ones off."""
_MANY = 30_000
"""Letters from which a photograph may be smaller."""
_OWN_NAME = re.compile(r'id="defs-([0-9a-f]+)"')


def svg_of(figure: Figure) -> str | None:
    """Return the figure as SVG, or ``None`` with ``GNNQLAB_PICTURES=off``, without a browser, or if drawing fails.

    A figure without a height is 360 pixels high, as its place on a page would be. The same figure is the same text.
    """
    if not _picture_server():
        return None
    height = int(figure.layout.height or 360)
    try:
        drawn = _same_names(_draw(figure, "svg", height, 1).decode())
        if len(drawn) > _MANY:
            drawn = min(drawn, _framed(indexed(_draw(figure, "png", height, 2)), height), key=len)
        return drawn
    except Exception:
        return None


def _draw(figure: Figure, kind: str, height: int, scale: int) -> bytes:
    import kaleido

    size = {"format": kind, "width": _WIDTH, "height": height, "scale": scale}
    return bytes(kaleido.calc_fig_sync(figure.to_dict(), opts=size))


def _same_names(svg: str) -> str:
    """Plotly names what a drawing refers to by chance; one by content stays, and is this figure's alone."""
    chance = _OWN_NAME.search(svg)
    if chance is None:
        return svg
    plain = svg.replace(chance[1], "")
    return svg.replace(chance[1], f"{zlib.crc32(plain.encode()):08x}")


def _framed(png: bytes, height: int) -> str:
    data = base64.b64encode(png).decode()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">'
        f'<image width="{_WIDTH}" height="{height}" href="data:image/png;base64,{data}"/></svg>'
    )


@functools.cache
def _picture_server() -> bool:
    """Start kaleido's browser once per process (a picture then takes 0.3 s instead of 3); whether there is one."""
    if os.environ.get("GNNQLAB_PICTURES") == "off":
        return False
    browser = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        return False
    try:
        import kaleido

        kaleido.start_sync_server(path=browser, silence_warnings=True)
        atexit.register(kaleido.stop_sync_server, silence_warnings=True)
    except Exception:
        return False
    return True
