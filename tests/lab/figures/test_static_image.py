"""Pictures of figures: sharp, small, identical each time, of equal size, with a colour table."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from plotly.graph_objects import Figure

from gnnqlab.lab.figures import static_image
from gnnqlab.lab.figures.static_image import _HEADER, _encode_rows, _file, _parts, encode_indexed, pixels, size

_RNG = np.random.default_rng(5)


def _written_down(picture: np.ndarray) -> bytes:
    """Filter each row as Chromium does: its difference from the row above."""
    height, width, _ = picture.shape
    less = np.diff(picture, axis=0, prepend=np.zeros((1, width, 4), np.uint8))
    rows = np.concatenate([np.full((height, 1), 2, np.uint8), less.reshape(height, -1)], axis=1)
    return _encode_rows(width, height, 6, 0, rows.tobytes())


def read_indexed(png: bytes) -> np.ndarray:
    """Decode an indexed PNG independently, from its chunks alone."""
    (width, height, depth, kind, *_), packed = _parts(png)
    assert (depth, kind) == (8, 3)
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        name, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length]) == (zlib.crc32(name + body),)
        chunks[name] = body
        at += 12 + length
    table = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    opacity = np.frombuffer(chunks.get(b"tRNS", b"\xff" * len(table)), np.uint8)
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width)
    assert not rows[:, 0].any()
    return np.concatenate([table, opacity[:, None]], axis=1)[rows[:, 1:]]


@pytest.mark.parametrize("opaque", [True, False])
def test_few_colors_stay_as_they_are(opaque: bool) -> None:
    colors = _RNG.integers(0, 256, (256, 4)).astype(np.uint8)
    if opaque:
        colors[:, 3] = 255
    picture = colors[_RNG.integers(0, 256, (33, 47))]
    png = _written_down(picture)
    assert (pixels(png) == picture).all() and size(png) == (47, 33)
    assert (read_indexed(encode_indexed(png)) == picture).all() and size(encode_indexed(png)) == (47, 33)


def test_pixels_get_the_nearest_color_of_a_full_palette() -> None:
    picture = np.full((40, 50, 4), 255, np.uint8)
    picture[..., :3] = _RNG.integers(0, 256, (40, 50, 3))
    read = read_indexed(encode_indexed(_written_down(picture))).astype(int)
    table = np.unique(read.reshape(-1, 4), axis=0)
    assert 200 < len(table) <= 256
    far = ((picture.reshape(-1, 1, 4).astype(int) - table) ** 2).sum(2).min(1)
    assert (((picture.astype(int) - read) ** 2).sum(2).reshape(-1) == far).all()


def test_a_smooth_scale_errs_little() -> None:
    steps = np.linspace(0, 255, 600).astype(np.uint8)
    picture = np.full((20, 600, 4), 255, np.uint8)
    picture[..., 0], picture[..., 1], picture[..., 2] = steps, steps[::-1], np.roll(steps, 99)
    assert abs(read_indexed(encode_indexed(_written_down(picture))).astype(int) - picture).max() <= 3


def test_pictures_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="must begin with PNG's signature"):
        pixels(b"GIF89a..")
    with pytest.raises(ValueError, match="must be 8-bit RGBA"):
        pixels(_file((2, 1, 8, 2, 0, 0, 0), [], zlib.compress(bytes(7))))
    with pytest.raises(ValueError, match=r"got filters \[4\]"):
        pixels(_encode_rows(2, 1, 6, 0, b"\x04" + bytes(8)))
    assert struct.calcsize(_HEADER) == 13


PIXELS = _encode_rows(2, 1, 6, 0, b"\x00" + bytes([9, 9, 9, 255]) * 2)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the browser by one that returns fixed pictures and records the sizes of each call."""
    kaleido = pytest.importorskip("kaleido")
    drawing = '<svg id="defs-a1b2c3"><g clip="url(#clipa1b2c3xy)"/></svg>'
    known: dict[str, Any] = {"svg": drawing, "png": PIXELS, "asked": []}

    def draw(figure: object, opts: dict[str, Any]) -> bytes:
        known["asked"].append(opts)
        made = known[opts["format"]]
        return made.encode() if isinstance(made, str) else made

    monkeypatch.setattr(kaleido, "calc_fig_sync", draw)
    monkeypatch.setattr(static_image, "_picture_server", lambda: True)
    return known


def test_a_drawing_has_names_by_content(drawn: dict[str, Any]) -> None:
    first = static_image.svg_of(Figure())
    assert first is not None and "a1b2c3" not in first
    drawn["svg"] = drawn["svg"].replace("a1b2c3", "77ffee")
    assert static_image.svg_of(Figure()) == first
    drawn["svg"] = drawn["svg"].replace("<g ", "<g x='1' ")
    other = static_image.svg_of(Figure())
    assert other is not None and other[:20] != first[:20], "two figures on one page share no names"
    assert [each["format"] for each in drawn["asked"]] == ["svg"] * 3


def test_large_svg_is_replaced_by_a_png_at_double_resolution(drawn: dict[str, Any]) -> None:
    drawn["svg"] = "<svg>" + "<path/>" * 9000 + "</svg>"
    shown = static_image.svg_of(Figure(layout={"height": 500}))
    assert shown is not None and shown.startswith('<svg xmlns="http://www.w3.org/2000/svg" width="720" height="500"')
    assert 'href="data:image/png;base64,' in shown and len(shown) < 600
    asked = [(each["format"], each["scale"], each["height"]) for each in drawn["asked"]]
    assert asked == [("svg", 1, 500), ("png", 2, 500)]


def test_a_drawing_smaller_than_its_photograph_stays(drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn["svg"] = "<svg>" + "<path/>" * 9000 + "</svg>"
    monkeypatch.setattr(static_image, "encode_indexed", lambda png: bytes(90_000))
    assert static_image.svg_of(Figure()) == drawn["svg"]


def test_no_browser_is_started_where_pictures_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    kaleido = pytest.importorskip("kaleido")
    monkeypatch.setenv("GNNQLAB_PICTURES", "off")
    monkeypatch.setattr(kaleido, "start_sync_server", lambda **_: pytest.fail("a browser was started"))
    static_image._picture_server.cache_clear()
    assert static_image.svg_of(Figure()) is None
    static_image._picture_server.cache_clear()
