"""Static pictures of figures, sharp on every screen and small in a notebook.

As vector graphics (SVG), most figures take fewer bytes than as a bitmap. A figure with thousands of points takes far
more; it becomes a bitmap at twice the resolution of the page, with a colour palette, wrapped in SVG so that it is as
large as the others. No ink has a contrast of 4.5 with both white and JupyterLab's #111, because their own contrast is
18.9, below 4.5 squared. So a picture has its own background, and vector graphics have a style that recolours text and
background where the reader's system is dark.

Lines, letters and areas of a figure have a few hundred colours, most of them from anti-aliasing. A palette of PNG holds
256; each pixel then takes one byte, which compresses far better than four: a third to a quarter of the bytes of the
browser's own bitmap, without a visible difference.

For a paper, :func:`save` writes a figure with a given width and font size as PDF, SVG or PNG.
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
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gnnqlab.lab.figures.theme import dark_rules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    from plotly.graph_objects import Figure

__all__ = ["BROWSERS", "encode_indexed", "pixels", "save", "size", "svg_of", "with_dark_colors"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = ">IIBBBBB"
_COLORS = 256


def size(png: bytes) -> tuple[int, int]:
    """Return width and height of a picture in pixels.

    Example:
        >>> size(encode_indexed(_encode_rows(2, 1, 6, 0, b"\\x00" + bytes(8))))
        (2, 1)
    """
    width, height = struct.unpack(">II", png[16:24])
    return int(width), int(height)


def pixels(png: bytes) -> Bytes:
    """Decode a PNG as Chromium writes it: 8-bit RGBA, rows unfiltered or as differences to the row above.

    Args:
        png: the file (PNG, second edition, sections 9 and 11).

    Returns:
        Red, green, blue and opacity, uint8 ``(height, width, 4)``.

    Raises:
        ValueError: if the picture has another format.
    """
    header, packed_rows = _parts(png)
    width, height, *rest = header  # rest: depth, colour type, compression, filter, interlace
    if rest != [8, 6, 0, 0, 0]:
        raise ValueError(f"a picture must be 8-bit RGBA without interlacing, got header fields {rest}")
    rows = np.frombuffer(zlib.decompress(packed_rows), np.uint8).reshape(height, 1 + 4 * width)
    values = rows[:, 1:].reshape(height, width, 4)  # the first byte of each row is its filter
    if not rows[:, 0].any():
        return values
    if (rows[:, 0] == 2).all():  # differences to the row above, modulo 256
        return np.cumsum(values, axis=0, dtype=np.uint8)
    filters = sorted(set(rows[:, 0].tolist()))
    raise ValueError(f"rows of a picture must have PNG's filter 0 (none) or 2 (up), got filters {filters}")


def encode_indexed(png: bytes) -> bytes:
    """Encode a picture with a colour palette; with at most 256 colours every pixel is unchanged.

    With more, colours enter the palette one by one, each time the one with the largest squared distance from the
    palette times the square root of its pixel count (Gonzalez' rule, weighted); every pixel gets the nearest one. The
    error of figures is below 1 of 255.

    Args:
        png: as :func:`pixels` reads it.

    Raises:
        ValueError: as :func:`pixels`.

    Example:
        >>> two = _encode_rows(2, 1, 6, 0, bytes([0, 255, 0, 0, 255, 0, 0, 255, 128]))
        >>> int(encode_indexed(two)[25]), encode_indexed(two).count(b"PLTE")
        (3, 1)
    """
    picture = pixels(png)  # (height, width, 4)
    height, width, _ = picture.shape
    # Four bytes of a pixel viewed as one integer, because unique rows would be far slower to find.
    color_codes, places, counts = np.unique(
        np.ascontiguousarray(picture).view(np.uint32).reshape(-1), return_inverse=True, return_counts=True
    )
    colors = color_codes.view(np.uint8).reshape(-1, 4)
    palette, nearest_entries = _table(colors.astype(np.float64), counts)
    from gnnqlab.graph.pictures import write_png  # at its first use: the package of graphs needs PyTorch

    return write_png(nearest_entries[places].reshape(height, width), colors[palette].tolist())


def _table(colors: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[list[int], NDArray[np.uint8]]:
    """Return the indices of the colours in the palette, and the palette entry nearest to each colour."""
    weight = np.sqrt(counts)  # (colours,)
    palette = [int(np.argmax(counts))]  # starts with the most frequent colour
    distance = ((colors - colors[palette[0]]) ** 2).sum(1)  # squared, to the nearest colour of the palette
    nearest_entries = np.zeros(len(colors), np.uint8)
    while len(palette) < min(_COLORS, len(colors)):
        new_color = int(np.argmax(distance * weight))  # Gonzalez' rule, weighted
        new_distance = ((colors - colors[new_color]) ** 2).sum(1)
        is_closer = new_distance < distance
        nearest_entries[is_closer] = len(palette)
        distance[is_closer] = new_distance[is_closer]
        palette.append(new_color)
    return palette, nearest_entries


def _parts(png: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the fields of the header and the compressed rows."""
    if png[:8] != _SIGNATURE:
        raise ValueError(f"a picture must begin with PNG's signature, got {png[:8]!r}")
    start, kind, packed_rows = 8, (), []  # after the signature
    while start < len(png):
        length, name = struct.unpack(">I4s", png[start : start + 8])
        body = png[start + 8 : start + 8 + length]
        if name == b"IHDR":
            kind = struct.unpack(_HEADER, body)
        elif name == b"IDAT":
            packed_rows.append(body)
        start += 12 + length  # with length, name and checksum of the chunk, 4 bytes each
    return kind, b"".join(packed_rows)


def _file(kind: tuple[int, ...], extra_chunks: list[tuple[bytes, bytes]], packed_rows: bytes) -> bytes:
    parts = [(b"IHDR", struct.pack(_HEADER, *kind)), *extra_chunks, (b"IDAT", packed_rows), (b"IEND", b"")]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )


def _encode_rows(width: int, height: int, channels: int, interlace: int, rows: bytes) -> bytes:
    """Return a picture of raw rows, each with its filter byte in front; for examples and tests."""
    return _file((width, height, 8, channels, 0, 0, interlace), [], zlib.compress(rows))


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""Programs that can draw figures, in the order in which they are looked for."""
_WIDTH = 720
"""Width of a picture in pixels, which fits a page of 900 in JupyterLab; wider ones would be cut off."""
_HEIGHT = 360
"""Height of a figure without one, in pixels."""
_TITLE = 30
"""Pixels of the top margin that a title takes."""
_PIXELS_PER_CM = 96 / 2.54
_MANY = 30_000
"""Length of an SVG above which a bitmap may be smaller."""
_OWN_NAME = re.compile(r'id="defs-([0-9a-f]+)"')


def svg_of(figure: Figure) -> str | None:
    """Return the figure as SVG, or ``None`` with ``GNNQLAB_PICTURES=off``, without a browser, or if drawing fails.

    A figure without a height is 360 pixels high. The same figure gives the same text.
    """
    if not _picture_server():
        return None
    height = int(figure.layout.height or _HEIGHT)
    try:
        svg = with_dark_colors(_same_names(_draw(figure, "svg", _WIDTH, height, 1).decode()))
        if len(svg) > _MANY:
            svg = min(svg, _wrap_in_svg(encode_indexed(_draw(figure, "png", _WIDTH, height, 2)), height), key=len)
        return svg
    except Exception:
        return None


def save(
    figure: Figure,
    path: str | Path,
    *,
    width: str | float = "column",
    height: float | None = None,
    font: float = 8.0,
    family: str = "",
    title: bool = False,
) -> Path:
    """Write a figure for a paper: as PDF, SVG or PNG (300 pixels per inch), by the ending of the path.

    The whole figure is scaled so that its text has the size ``font``; lines, markers and margins follow. It has no
    title by default, because a paper has captions.

    Args:
        figure: Plotly's figure, which stays as it is.
        path: file to write; its folder is created.
        width: ``"column"`` (8.5 cm, of a paper with two columns), ``"page"`` (17.8 cm), or centimetres.
        height: centimetres; by default that of the figure at the same scale.
        font: size of the text in points (1/72 inch).
        family: family of the text, such as ``"Times New Roman"``; by default that of the figure.
        title: True to keep the title.

    Returns:
        The path.

    Raises:
        ValueError: if the ending is another one, or a size is out of its range.
        RuntimeError: without the package kaleido, or without a browser, which draws the figure.

    Example:
        >>> from plotly.graph_objects import Figure
        >>> save(Figure(), "figure.eps")
        Traceback (most recent call last):
        ValueError: a figure is saved as .pdf, .svg or .png, got 'figure.eps'; ...
    """
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("pdf", "svg", "png"):
        raise ValueError(
            f"a figure is saved as .pdf, .svg or .png, got {path.name!r}; figure.write_html writes an interactive page"
        )
    width_cm = _centimetres("width", width)
    if not 4 <= font <= 72:
        raise ValueError(f"font must be the size of the text in points, from 4 to 72, got {font}")
    if reason := _missing_for_pictures():
        raise RuntimeError(f"saving a figure needs {reason}")
    drawn = type(figure)(figure)  # a copy
    if family:
        drawn.update_layout(font={"family": family})
    if not title and drawn.layout.title.text:
        top = drawn.layout.margin.t
        own_height = int(drawn.layout.height or _HEIGHT) - (_TITLE if top else 0)
        drawn.update_layout(title={"text": ""}, height=own_height, margin={"t": top and max(top - _TITLE, 8)})
    # Pixels of the figure's own text become `font` points; a pixel of CSS is 1/96 inch, a point 1/72.
    text_pixels = float(drawn.layout.font.size or drawn.layout.template.layout.font.size or 12)
    scale = font * 96 / 72 / text_pixels
    for update in (drawn.update_xaxes, drawn.update_yaxes):
        update(title_font_size=text_pixels)  # Plotly writes titles of axes larger
    layout_width = round(width_cm * _PIXELS_PER_CM / scale)
    scale = width_cm * _PIXELS_PER_CM / layout_width  # exactly the width, although the layout has whole pixels
    layout_height = int(drawn.layout.height or _HEIGHT)
    if height is not None:
        layout_height = round(_centimetres("height", height) * _PIXELS_PER_CM / scale)
    drawn.update_layout(width=layout_width, height=layout_height, autosize=False)
    picture = _draw(drawn, kind, layout_width, layout_height, scale * (300 / 96 if kind == "png" else 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_same_names(picture.decode()).encode() if kind == "svg" else picture)
    return path


def _centimetres(name: str, value: str | float) -> float:
    """Return a size in centimetres."""
    known = {"column": 8.5, "page": 17.8} if name == "width" else {}
    if isinstance(value, str) and value in known:
        return known[value]
    if isinstance(value, str) or not 2 <= value <= 120:
        words = "".join(f"{word!r} ({size} cm), " for word, size in known.items())
        raise ValueError(f"{name} must be {words}{'or ' if words else ''}2 to 120 centimetres, got {value!r}")
    return float(value)


def _draw(figure: Figure, kind: str, width: int, height: int, scale: float) -> bytes:
    import kaleido

    size = {"format": kind, "width": width, "height": height, "scale": scale}
    return bytes(kaleido.calc_fig_sync(figure.to_dict(), opts=size))


def with_dark_colors(svg: str) -> str:
    """Return a picture of a light page with the theme's colours of a dark page, where the reader's system is dark.

    The style in the file recolours text, axes, grid and background; colours of data stay.

    Example:
        >>> picture = with_dark_colors('<svg><path style="fill: rgb(31, 35, 40);"/></svg>')
        >>> "prefers-color-scheme: dark" in picture, picture.count("rgb(230, 232, 234)")
        (True, 2)
    """
    rules = [f'svg [style*="{name}: {before}"]{{{name}:{after}!important}}' for name, before, after in dark_rules()]
    head, end, rest = svg.partition(">")
    return f"{head}{end}<style>@media (prefers-color-scheme: dark){{{''.join(rules)}}}</style>{rest}"


def _same_names(svg: str) -> str:
    """Replace Plotly's random ids by a checksum of the content, unique on a page and the same at every drawing."""
    random_id = _OWN_NAME.search(svg)
    if random_id is None:
        return svg
    content = svg.replace(random_id[1], "")  # content without the random id
    return svg.replace(random_id[1], f"{zlib.crc32(content.encode()):08x}")


def _wrap_in_svg(png: bytes, height: int) -> str:
    data = base64.b64encode(png).decode()
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">'
        f'<image width="{_WIDTH}" height="{height}" href="data:image/png;base64,{data}"/></svg>'
    )


def _picture_server() -> bool:
    """Return True if pictures are drawn for pages without scripts: not with ``GNNQLAB_PICTURES=off``."""
    return os.environ.get("GNNQLAB_PICTURES") != "off" and not _missing_for_pictures()


@functools.cache
def _missing_for_pictures() -> str:
    """Start kaleido's browser once per process (a picture then takes 0.3 s instead of 3).

    Returns:
        The missing piece and the way out, in words; empty if the browser runs.
    """
    try:
        import kaleido
    except ImportError as error:
        return f"the package kaleido, got {error}; pip install 'gnnqlab[lab]'"
    browser = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, BROWSERS)), None)
    way_out = "install chromium, or name a browser by the variable BROWSER_PATH"
    if browser is None:
        return f"Chromium or Chrome, found none of {', '.join(BROWSERS)}; {way_out}"
    try:
        kaleido.start_sync_server(path=browser, silence_warnings=True)
        atexit.register(kaleido.stop_sync_server, silence_warnings=True)
    except Exception as error:
        return f"a browser that starts, got from {browser}: {type(error).__name__}: {error}; {way_out}"
    return ""
