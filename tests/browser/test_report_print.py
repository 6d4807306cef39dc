"""A printed report: small, no figure cut, no heading alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gnnqlab.lab.training.report import write_report
from gnnqlab.run.run import Run
from tests.browser.accessibility import findings, needs_axe
from tests.lab.synthetic import make_run, make_timeline
from tests.lab.synthetic_folder import Folder

DRAWN = "() => [...document.querySelectorAll('.plot')].every((each) => each.querySelector('.main-svg'))"
SHEET = {"width": 718, "height": 1039}
"""A4 without its margins, in pixels of CSS."""
BOXES = "() => [...document.querySelectorAll('figure')].map((each) => each.getBoundingClientRect().height)"
BEYOND = """() => [...document.querySelectorAll('figure')].map((each) =>
  each.querySelector('.main-svg').getBoundingClientRect().right - each.getBoundingClientRect().right)"""


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The report of a run with a timeline and one with everything that a live view shows, on a dark screen."""
    place = tmp_path_factory.mktemp("printed")
    folder = Folder(place, workers=4, noise=0.3)
    folder.write(range(60))
    run = make_run("adaqp", workers=4, bits=4, epochs=60)
    run.timeline = make_timeline(overlapped=True)
    report = write_report([Run(folder.path), run], place / "report.html")
    opened = browser.new_page(viewport=SHEET, color_scheme="dark")
    opened.goto(report.as_uri())
    opened.wait_for_function(DRAWN)
    yield opened
    opened.close()


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_has_no_serious_finding_of_accessibility(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    assert findings(page) == []


def test_every_figure_fits_on_a_sheet_in_light_colours(page: Any, screenshots: Path) -> None:
    assert max(page.evaluate(BOXES)) > SHEET["height"], "on the screen one is taller"
    page.emulate_media(media="print")
    page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
    page.screenshot(path=screenshots / "report-print.png", full_page=True)
    heading = 60  # the first figure of a section stays with its heading
    assert max(page.evaluate(BOXES)) + heading < SHEET["height"]
    assert max(page.evaluate(BEYOND)) <= 0
    ground, ink = page.evaluate(
        "() => ['backgroundColor', 'color'].map((what) => getComputedStyle(document.body)[what])"
    )
    assert (ground, ink) == ("rgb(255, 255, 255)", "rgb(31, 35, 40)")
    letters = page.evaluate("() => getComputedStyle(document.querySelector('.xtick text')).fill")
    assert letters == "rgb(31, 35, 40)", "dark letters on paper, whatever the screen's theme"


def test_printed_report_is_smaller_than_2_megabytes(page: Any, screenshots: Path) -> None:
    assert len(page.pdf(prefer_css_page_size=True, path=screenshots / "report.pdf")) < 2_000_000


def test_the_screen_is_as_before_afterwards(page: Any) -> None:
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("() => window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("() => getComputedStyle(document.querySelector('.xtick text')).fill") == "rgb(230, 232, 234)"
    assert page.locator("pattern").count() > 0, "hatching is back"


def test_a_table_of_four_runs_is_whole_on_paper_and_on_any_page(
    browser: Any, tmp_path: Path, screenshots: Path
) -> None:
    runs = [make_run(system, epochs=6) for system in ("vanilla", "adaqp", "fixed-bits", "fixed-bits")]
    opened = browser.new_page(viewport={"width": 900, "height": 1000})
    opened.goto(write_report(runs, tmp_path / "four.html").as_uri())
    opened.wait_for_function(DRAWN)
    beyond = """() => { const table = document.querySelector("table");
      return table.getBoundingClientRect().right - table.parentElement.getBoundingClientRect().right; }"""
    for media, width in (("screen", 420), ("screen", 900), ("screen", 1280), ("print", SHEET["width"])):
        opened.set_viewport_size({"width": width, "height": 1000})
        opened.emulate_media(media=media)
        opened.locator("table").first.screenshot(path=screenshots / f"report-table-{media}-{width}.png")
        assert opened.evaluate(beyond) < 1, (media, width)
    opened.close()
