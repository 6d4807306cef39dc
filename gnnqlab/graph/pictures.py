"""Small pictures: palette images as PNG, and the picture on a graph's card."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gnnqlab.graph.arrays import GraphArrays

__all__ = ["IMAGES", "LEVELS", "card_picture", "data_address", "grey_levels", "write_png"]

IMAGES: dict[str, tuple[int, int]] = {"digits": (8, 8)}
"""Height and width of the images of graphs whose features are pixels in ``[0, 1]``, by name of the graph."""
LEVELS = 3
"""Number of shades of an image: more cannot be distinguished at a dozen pixels, and take twice the bytes."""
Color = tuple[int, int, int, int]
"""Red, green, blue and opacity, each from 0 to 255."""
_INK: tuple[int, int, int] = (86, 130, 180)  # visible on light and dark pages
_EXAMPLES = 4


def write_png(pixels: NDArray[np.uint8], palette: Sequence[Sequence[int]]) -> bytes:
    """Encode palette indices as a PNG (PNG specification, third edition, colour type 3).

    Args:
        pixels: indices of colours, uint8 ``(height, width)``, the first line on top.
        palette: up to 256 colours, each red, green, blue and opacity.

    Raises:
        ValueError: if there are more colours, or an index is out of range.

    Example:
        >>> write_png(np.array([[0, 1]], dtype=np.uint8), [(0, 0, 0, 0), (255, 0, 0, 255)])[1:4]
        b'PNG'
    """
    if not 1 <= len(palette) <= 256:
        raise ValueError(f"a palette must have 1 to 256 colours, got {len(palette)}")
    if pixels.size and int(pixels.max()) >= len(palette):
        raise ValueError(f"pixels must be numbers of {len(palette)} colours, got {int(pixels.max())}")
    height, width = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1)  # each line starts with its filter type
    colors = bytes(value for color in palette for value in color[:3])
    opacity = bytes(color[3] for color in palette)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),  # 8 bits per pixel, colour type 3: palette
        (b"PLTE", colors),
        *([(b"tRNS", opacity)] if min(opacity) < 255 else []),  # opacity, if a colour is not opaque
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    # A chunk: length, name, data, and a checksum of name and data.
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def data_address(picture: bytes) -> str:
    """Encode a PNG as a data URL, for a page or a figure."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def grey_levels(graph: GraphArrays) -> NDArray[np.uint8] | None:
    """Return the nodes' images in `LEVELS` shades, uint8 ``(N, height, width)``, or None if features are not images.

    Example:
        >>> from gnnqlab.graph.sources import load
        >>> grey_levels(load("digits")).shape, grey_levels(load("sbm:40,2,4"))
        ((1797, 8, 8), None)
    """
    shape = IMAGES.get(graph.name)
    features = getattr(graph.features, "numpy", None)  # SparseRows have none, and are not images
    if shape is None or features is None or graph.num_features != shape[0] * shape[1]:
        return None
    levels = np.rint(np.clip(features(), 0, 1) * (LEVELS - 1)).astype(np.uint8)
    return levels.reshape(-1, *shape)


def card_picture(graph: GraphArrays) -> tuple[bytes, str, int]:
    """Return a small picture of a graph, its caption and its display width: images of each class, else degrees.

    Example:
        >>> from gnnqlab.graph.sources import load
        >>> card_picture(load("digits"))[1]
        'images of four nodes of each class'
    """
    levels = grey_levels(graph)
    palette: list[Color] = [(*_INK, round(255 * level / (LEVELS - 1))) for level in range(LEVELS)]
    if levels is not None and not graph.multi_label and graph.num_classes:
        rows = _examples(levels, graph.labels.numpy(), graph.num_classes)
        return write_png(rows, palette), "images of four nodes of each class", 2 * rows.shape[1]
    degrees = graph.in_degrees.numpy()
    words = f"histogram of in-degrees, {int(degrees.min())} to {int(degrees.max())}"
    return write_png(_bars(degrees), [palette[0], palette[-1]]), words, 220


def _examples(levels: NDArray[np.uint8], labels: NDArray[np.int64], classes: int) -> NDArray[np.uint8]:
    """Arrange the first few images of each class, one column per class, with two empty pixels between images."""
    height, width = levels.shape[1] + 2, levels.shape[2] + 2
    sheet = np.zeros((_EXAMPLES * height, classes * width), np.uint8)
    for label in range(classes):
        for line, node in enumerate(np.flatnonzero(labels == label)[:_EXAMPLES]):
            # The last two lines and columns of a cell stay empty, as a margin.
            place = np.s_[line * height : (line + 1) * height - 2, label * width : (label + 1) * width - 2]
            sheet[place] = levels[node]
    return sheet


def _bars(degrees: NDArray[np.int64], bars: int = 22, height: int = 48) -> NDArray[np.uint8]:
    # At most one bar for each integer.
    counts, _ = np.histogram(degrees, bins=min(bars, int(degrees.max() - degrees.min()) + 1))
    heights = np.ceil(height * counts / max(int(counts.max()), 1)).astype(int)
    bar_width = 220 // len(counts)  # width of a bar and its gap
    sheet = np.zeros((height, bar_width * len(counts)), np.uint8)
    for number, bar_height in enumerate(heights):
        sheet[height - bar_height :, number * bar_width : (number + 1) * bar_width - 2] = 1
    return sheet
