"""Pictures of figures: sharp, small, the same each time, and as large on the page as each other."""

from typing import Any

import pytest
from plotly.graph_objects import Figure

from gnnqlab.lab.figures import still
from gnnqlab.lab.figures.still import _written

PIXELS = _written(2, 1, 6, 0, b"\x00" + bytes([9, 9, 9, 255]) * 2)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a browser would draw, and the sizes it was asked for."""
    kaleido = pytest.importorskip("kaleido")
    drawing = '<svg id="defs-a1b2c3"><g clip="url(#clipa1b2c3xy)"/></svg>'
    known: dict[str, Any] = {"svg": drawing, "png": PIXELS, "asked": []}

    def draw(figure: object, opts: dict[str, Any]) -> bytes:
        known["asked"].append(opts)
        made = known[opts["format"]]
        return made.encode() if isinstance(made, str) else made

    monkeypatch.setattr(kaleido, "calc_fig_sync", draw)
    monkeypatch.setattr(still, "_picture_server", lambda: True)
    return known


def test_a_drawing_has_names_by_content(drawn: dict[str, Any]) -> None:
    first = still.svg_of(Figure())
    assert first is not None and "a1b2c3" not in first
    drawn["svg"] = drawn["svg"].replace("a1b2c3", "77ffee")
    assert still.svg_of(Figure()) == first
    drawn["svg"] = drawn["svg"].replace("<g ", "<g x='1' ")
    other = still.svg_of(Figure())
    assert other is not None and other[:20] != first[:20], "two figures on one page share no names"
    assert [each["format"] for each in drawn["asked"]] == ["svg"] * 3


def test_what_is_large_as_a_drawing_is_a_photograph_of_two_pixels_to_one(drawn: dict[str, Any]) -> None:
    drawn["svg"] = "<svg>" + "<path/>" * 9000 + "</svg>"
    shown = still.svg_of(Figure(layout={"height": 500}))
    assert shown is not None and shown.startswith('<svg xmlns="http://www.w3.org/2000/svg" width="720" height="500"')
    assert 'href="data:image/png;base64,' in shown and len(shown) < 600
    asked = [(each["format"], each["scale"], each["height"]) for each in drawn["asked"]]
    assert asked == [("svg", 1, 500), ("png", 2, 500)]


def test_a_drawing_smaller_than_its_photograph_stays(drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn["svg"] = "<svg>" + "<path/>" * 9000 + "</svg>"
    monkeypatch.setattr(still, "indexed", lambda png: bytes(90_000))
    assert still.svg_of(Figure()) == drawn["svg"]


def test_no_browser_is_started_where_pictures_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    kaleido = pytest.importorskip("kaleido")
    monkeypatch.setenv("GNNQLAB_PICTURES", "off")
    monkeypatch.setattr(kaleido, "start_sync_server", lambda **_: pytest.fail("a browser was started"))
    still._picture_server.cache_clear()
    assert still.svg_of(Figure()) is None
    still._picture_server.cache_clear()
