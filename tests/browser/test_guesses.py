"""Guesses, hints and the map of the course in a real JupyterLab: typed by keyboard, drawn, folded, and linked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab_page import LabPage

CELLS = [
    'from gnnqlab import course\nguess = course.guess("01", fewer_bytes=None, points=None)\nguess',
    "guess.compare(fewer_bytes=12.4, points=0.3)",
    'for answer in (512, 500, 501):\n    course.check("01.payload", answer)',
    "course.progress()",
]


@pytest.fixture(scope="module")
def lab(open_notebook: Any) -> Iterator[LabPage]:
    lab: LabPage = open_notebook("guesses", CELLS)
    lab.run_all()
    lab.page.get_by_text("Right answers: 0 of 90").wait_for()
    yield lab


def test_the_solution_is_folded_under_the_third_wrong_answer(lab: LabPage) -> None:
    assert lab.page.get_by_text("Bits or bytes?").count() == 1
    solution = lab.page.locator("details", has_text="256 · 2 / 8 = 64")
    assert solution.get_attribute("open") is None
    solution.locator("summary").click()
    assert solution.get_attribute("open") == ""


def test_run_all_goes_on_without_a_guess_and_a_typed_one_is_drawn(lab: LabPage, screenshots: Path) -> None:
    assert lab.page.get_by_text("You have not guessed yet").count() == 1
    field = lab.page.get_by_role("textbox", name="bytes of an epoch in 2 bits")
    field.fill("few")
    field.press("Tab")
    lab.page.get_by_role("alert").filter(has_text="must be a number (times fewer), got 'few'").wait_for()
    field.fill("4")
    field.press("Tab")
    lab.page.get_by_text("times fewer ✓").wait_for()
    lab.run_all()
    lab.page.get_by_text("you were off by 3.1 ×").wait_for()
    figure = lab.page.get_by_role("img", name="bytes of an epoch in 2 bits: measured 12.4, guessed 4")
    assert figure.locator("path").count() == 1 and figure.locator("circle").count() == 1
    lab.page.screenshot(path=screenshots / "guesses.png")
    assert lab.page.get_by_role("textbox", name="bytes of an epoch in 2 bits").input_value() == "4", (
        "the new form has the guess"
    )


def test_the_map_links_to_the_notebooks_and_fits_the_page(lab: LabPage, screenshots: Path) -> None:
    links = lab.page.locator(".jp-OutputArea-output a[href*='.ipynb']")
    assert links.count() == 29
    assert "04_messages_in_few_bits.ipynb" in (links.nth(3).get_attribute("href") or "")
    boxes = [links.nth(number).bounding_box() for number in range(29)]
    cell = lab.page.locator(".jp-OutputArea").last.bounding_box()
    assert all(box["x"] + box["width"] <= cell["x"] + cell["width"] for box in boxes)
    cut = "(each) => each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1"
    assert not any(links.nth(number).evaluate(cut) for number in range(29)), "text fits its box"
    links.first.scroll_into_view_if_needed()
    lab.page.screenshot(path=screenshots / "map.png")


def test_nothing_is_fetched_elsewhere(lab: LabPage) -> None:
    assert lab.elsewhere == [] and lab.errors == []
