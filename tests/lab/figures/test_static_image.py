"""Pictures of figures: sharp, small, identical each time, of equal size, with a colour table."""

from __future__ import annotations

import re
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plotly.graph_objects import Figure

import gnnqlab as gq
from gnnqlab.lab.figures import static_image
from gnnqlab.lab.figures.bundle import FigureData
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
        known["figure"] = figure
        made = known[opts["format"]]
        return made.encode() if isinstance(made, str) else made

    monkeypatch.setattr(kaleido, "calc_fig_sync", draw)
    monkeypatch.setattr(static_image, "_missing_for_pictures", lambda: "")
    monkeypatch.delenv("GNNQLAB_PICTURES", raising=False)
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
    assert static_image.svg_of(Figure()) == static_image.with_dark_colors(drawn["svg"])


def test_no_browser_is_started_where_pictures_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNNQLAB_PICTURES", "off")
    monkeypatch.setattr(static_image, "_missing_for_pictures", lambda: pytest.fail("a browser was started"))
    assert static_image.svg_of(Figure()) is None


def chart() -> Figure:
    return gq.charts.lines(pd.DataFrame({"loss": [2.0, 1.0]}), y="loss", title="A descent", x_axis="epoch")


def test_a_saved_figure_has_the_width_and_the_size_of_text_asked_for(drawn: dict[str, Any], tmp_path: Path) -> None:
    drawn["pdf"] = b"%PDF"
    figure = chart()
    for width, centimetres in (("column", 8.5), ("page", 17.8), (12.0, 12.0)):
        path = gq.charts.save(figure, tmp_path / "figures" / "one.pdf", width=width, height=5, font=9)
        asked = drawn["asked"][-1]
        assert path.read_bytes() == b"%PDF" and asked["format"] == "pdf"
        assert asked["scale"] * asked["width"] / 96 * 2.54 == pytest.approx(centimetres)
        assert asked["scale"] * asked["height"] / 96 * 2.54 == pytest.approx(5, abs=0.02)
        text_pt = asked["scale"] * figure.layout.template.layout.font.size / 96 * 72
        assert text_pt == pytest.approx(9, rel=5e-3)
    gq.charts.save(figure, tmp_path / "one.png", font=9)
    assert drawn["asked"][-1]["scale"] == pytest.approx(300 / 72 * 9 / 13, rel=5e-3)


def test_a_saved_figure_has_a_title_only_if_asked_and_the_original_stays(drawn: dict[str, Any], tmp_path: Path) -> None:
    figure = chart()
    before = figure.to_dict()
    FigureData(figure, pd.DataFrame()).save(tmp_path / "one.svg", family="Times")
    without, size = drawn["figure"], drawn["asked"][-1]
    assert (without["layout"]["title"]["text"], without["layout"]["font"]["family"]) == ("", "Times")
    gq.charts.save(figure, tmp_path / "two.svg", title=True)
    assert drawn["figure"]["layout"]["title"]["text"] == "A descent" and figure.to_dict() == before
    assert drawn["asked"][-1]["height"] - size["height"] == 30, "the room of the title"
    assert (tmp_path / "one.svg").read_text() == (tmp_path / "two.svg").read_text(), "names by content, in both"


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("one.eps", {}, r"saved as .pdf, .svg or .png, got 'one.eps'"),
        (
            "one.pdf",
            {"width": "half"},
            r"width must be 'column' \(8.5 cm\), 'page' .* 2 to 120 centimetres, got 'half'",
        ),
        ("one.pdf", {"width": 720}, r"2 to 120 centimetres, got 720"),
        ("one.pdf", {"height": "column"}, r"height must be 2 to 120 centimetres, got 'column'"),
        ("one.pdf", {"font": 0.8}, r"size of the text in points, from 4 to 72, got 0.8"),
    ],
)
def test_a_size_or_a_format_that_is_none_is_refused(
    drawn: dict[str, Any], tmp_path: Path, name: str, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        gq.charts.save(chart(), tmp_path / name, **settings)
    assert not drawn["asked"] and not list(tmp_path.iterdir())


def test_what_a_saved_figure_lacks_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("kaleido")
    static_image._missing_for_pictures.cache_clear()
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        with pytest.raises(RuntimeError, match="needs Chromium or Chrome, found none of chromium, .*BROWSER_PATH"):
            gq.charts.save(chart(), tmp_path / "one.pdf")
        static_image._missing_for_pictures.cache_clear()
        monkeypatch.setitem(sys.modules, "kaleido", None)
        with pytest.raises(RuntimeError, match=r"needs the package kaleido, got .*pip install 'gnnqlab\[lab\]'"):
            gq.charts.save(chart(), tmp_path / "one.pdf")
    finally:
        static_image._missing_for_pictures.cache_clear()


@pytest.mark.slow
def test_a_page_of_a_pdf_is_as_wide_as_a_column(tmp_path: Path) -> None:
    pytest.importorskip("kaleido")
    if reason := static_image._missing_for_pictures():
        pytest.skip(reason)
    page = gq.charts.save(chart(), tmp_path / "one.pdf").read_bytes()
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", page)
    assert box is not None and float(box[1]) == pytest.approx(8.5 / 2.54 * 72, abs=1.0)
