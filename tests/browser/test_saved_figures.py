"""Stored figures of notebooks, on a narrow and a wide page: nothing overlaps, is cut off, or is too small to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.browser.text_boxes import faults, pictures

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
PLOTLY = "application/vnd.plotly.v1+json"
WIDTH, WIDE = 720, 1390
"""Pixels that JupyterLab leaves on pages of 900 and 1600."""
SMALLEST = 10.0
"""Size of the smallest letters in pixels."""
LINE_GAP = 3.0
"""Pixels by which boxes of two lines may overlap: a box is as high as the tallest possible letter."""
_MEASURE = """([figure, width]) => {
  const place = document.getElementById("place");
  Plotly.newPlot(place, figure.data, { ...figure.layout, width }, { staticPlot: true });
  const ground = place.getBoundingClientRect();
  const seen = [...place.querySelectorAll("text")].filter((text) => {
    const style = getComputedStyle(text);
    return text.textContent.trim() && text.getBBox().width && style.visibility !== "hidden" && Number(style.opacity);
  });
  const texts = seen.map((text) => {
    const box = text.getBoundingClientRect(), { a, b } = text.getScreenCTM();
    const written = [text, ...text.querySelectorAll("tspan")].filter((each) =>
      [...each.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()));
    const sizes = written.map((each) => parseFloat(getComputedStyle(each).fontSize) * Math.hypot(a, b));
    const [left, top, right, bottom] =
      [box.left - ground.left, box.top - ground.top, box.right - ground.left, box.bottom - ground.top];
    return { words: text.textContent, size: Math.min(...sizes), left, top, right, bottom };
  });
  return { texts, width: ground.width, height: place.querySelector(".main-svg").getBoundingClientRect().height };
}"""


def saved_figures() -> Iterator[tuple[str, Any]]:
    """Yield notebook and cell, and the figure; a figure that many notebooks have, once."""
    known = set()
    for path in sorted(FOLDER.glob("*.ipynb")):
        for number, cell in enumerate(nbformat.read(path, as_version=4).cells):
            for output in cell.get("outputs", []):
                figure = output.get("data", {}).get(PLOTLY)
                if figure is not None and (text := json.dumps(figure)) not in known:
                    known.add(text)
                    yield f"{path.name}, cell {number}", figure


def flaws(drawn: dict[str, Any]) -> list[str]:
    """Return the flaws in the text of a drawn figure, one line each."""
    found, texts = [], drawn["texts"]
    for text in texts:
        words = repr(text["words"])
        if text["size"] < SMALLEST - 0.05:
            found.append(f"{words} is {text['size']:.1f} px")
        if (
            min(text["left"], text["top"]) < -1
            or text["right"] > drawn["width"] + 1
            or text["bottom"] > drawn["height"] + 1
        ):
            found.append(f"{words} is cut off")
    for one, other in combinations(texts, 2):
        wide = min(one["right"], other["right"]) - max(one["left"], other["left"])
        high = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
        if wide > 1 and high > LINE_GAP:
            found.append(f"{one['words']!r} lies on {other['words']!r}")
    return found


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    from plotly.offline import get_plotlyjs

    opened = browser.new_page(viewport={"width": WIDE, "height": 1000})
    opened.set_content('<!DOCTYPE html><style>body { margin: 0 }</style><div id="place"></div>')
    opened.add_script_tag(content=get_plotlyjs())
    yield opened
    opened.close()


@pytest.mark.parametrize("width", [WIDTH, WIDE])
def test_words_of_saved_figures_can_be_read(page: Any, width: int) -> None:
    found = {name: flaws(page.evaluate(_MEASURE, [figure, width])) for name, figure in saved_figures()}
    assert len(found) > 80
    assert not {name: some[:6] for name, some in found.items() if some}


def test_words_of_saved_pictures_are_neither_cut_off_nor_overlapping(browser: Any) -> None:
    opened, found, count = browser.new_page(viewport={"width": WIDE, "height": 1000}), {}, 0
    for path in sorted(FOLDER.glob("*.ipynb")):
        for number, picture in pictures(path):
            opened.set_content(f"<!DOCTYPE html><body>{picture}</body>")
            found[f"{path.name}, cell {number}"] = faults(opened, "body > svg")
            count += 1
    opened.set_content('<!DOCTYPE html><svg width="60" height="20"><text y="15">a title without an end</text></svg>')
    assert "clipped" in faults(opened)[0]
    opened.close()
    assert count > 60 and not {name: some for name, some in found.items() if some}


def _drawn(page: Any, **layout: Any) -> list[str]:
    figure = {"data": [{"y": [1, 2], "x": [1, 2]}], "layout": {"height": 300, **layout}}
    return flaws(page.evaluate(_MEASURE, [figure, WIDTH]))


def test_overlapping_small_and_cut_off_text_is_detected(page: Any) -> None:
    note = {"text": "a note", "x": 1.5, "y": 1.5, "showarrow": False}
    assert _drawn(page, annotations=[note]) == []
    assert _drawn(page, annotations=[note, {**note, "text": "another"}]) == ["'a note' lies on 'another'"]
    assert _drawn(page, annotations=[{**note, "font": {"size": 9}}]) == ["'a note' is 9.0 px"]
    assert "is cut off" in _drawn(page, title={"text": "a title without an end " * 9, "x": 0})[0]
    ticks = _drawn(page, yaxis={"type": "log", "range": [-1, 0.6], "dtick": "D1"})
    assert any("px" in flaw for flaw in ticks), "Plotly's own digits between powers of ten"
