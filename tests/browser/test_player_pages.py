"""Pages of players in Chromium: they play, step by keyboard, fit every width, and load nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.lab.tuner.tuner_page import write_tuner_page
from tests.browser.accessibility import findings, needs_axe
from tests.browser.text_boxes import faults

SIZES = ((360, 900), (900, 900), (1600, 900))
TITLE = "document.getElementById('title').textContent"
LAST = "Number(document.getElementById('step').max)"
NAMES = ("epoch", "message", "assigner", "partition", "tuner")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Exports a player on first use, because a grid of figures takes seconds."""
    folder = tmp_path_factory.mktemp("players")

    @functools.cache
    def export(name: str) -> Path:
        path = folder / f"{name}.html"
        parts = gq.partition(course.ten_nodes(), course.Halves(), workers=2)
        if name == "epoch":
            return course.EpochPlayer(parts).export(path)
        if name == "message":
            return course.MessagePlayer(parts, hidden=8, epochs=2).export(path)
        if name == "assigner":
            return course.AssignerPlayer(parts, hidden=8, layers=2, group_size=10).export(path)
        if name == "partition":
            return course.PartitionExplorer("sbm:100,4,6", parts=2, most_parts=2).export(path)
        tuner = gq.Tuner("sbm:60,3,6", workers=2, hidden=8, layers=2, measure=False)
        return write_tuner_page(tuner.model, path, links=("10mbit",))

    return export


@pytest.fixture
def opened(browser: Any, exported: Callable[[str], Path]) -> Iterator[Any]:
    """Opens a page of a player; a request to another place, or an error of its script, fails the test."""
    pages: list[Any] = []
    wrong: list[str] = []

    def open_one(name: str, *, width: int = 900, height: int = 900, dark: bool = False, after: str = "") -> Any:
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", has_touch=True
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:", "blob:")) else wrong.append(request.url),
        )
        page.goto(exported(name).as_uri() + after)
        page.wait_for_selector("svg")
        pages.append(page)
        return page

    yield open_one
    for page in pages:
        page.close()
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_text_is_neither_clipped_nor_overlapping_at_any_width(opened: Any, name: str, screenshots: Path) -> None:
    for dark, (width, height) in enumerate(SIZES):
        page = opened(name, width=width, height=height, dark=bool(dark % 2))
        for number in range(page.evaluate(LAST) + 1):
            if number:
                page.get_by_role("button", name="Next").click()
            found = faults(page)
            if name == "epoch":  # rows in transit pass the names of nodes
                found = [fault for fault in found if "b |" not in fault and "| 32b" not in fault]
            assert found == [], (width, page.evaluate(TITLE))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{width} px: it scrolls sideways"
        page.screenshot(path=screenshots / f"player-{name}-{width}.png", full_page=True)


@needs_axe
@pytest.mark.parametrize("name", NAMES)
def test_no_page_has_a_serious_finding_of_accessibility(opened: Any, name: str) -> None:
    for dark in (False, True):
        assert findings(opened(name, dark=dark)) == []


@needs_axe
def test_an_unnamed_control_and_pale_text_are_found(browser: Any) -> None:
    page = browser.new_page()
    page.set_content(
        '<!doctype html><html lang="en"><title>t</title><main><input><p style="color: #ccc">pale</p></main>'
    )
    assert [each.partition(":")[0] for each in findings(page)] == ["color-contrast", "label"]
    page.close()


@pytest.mark.parametrize("name", ["epoch", "message", "assigner"])
def test_keys_step_through_a_player(opened: Any, name: str) -> None:
    page = opened(name)
    titles = [page.evaluate(TITLE)]
    for key in ("ArrowRight", "ArrowRight", "End"):
        page.keyboard.press(key)
        titles.append(page.evaluate(TITLE))
    assert len(set(titles)) == 4
    for key in ("Home", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate(TITLE) == titles[1]


def test_keys_and_touch_change_a_choice(opened: Any) -> None:
    page = opened("tuner")
    words = "document.getElementById('words').textContent"
    assert page.get_by_role("img").first.locator("text", has_text="wait for messages").count() == 1, "its legend"
    before = page.evaluate(words)
    page.get_by_role("slider", name="λ").focus()
    page.keyboard.press("Home")
    assert page.evaluate(words) != before
    before = page.evaluate(words)
    page.get_by_role("radiogroup", name="Group size").get_by_text("10", exact=True).tap()
    assert page.evaluate(words) != before


def test_an_opened_player_moves_by_itself_and_pauses(opened: Any) -> None:
    page = opened("epoch", after="?play")
    cursor = "document.getElementById('figure').data.at(-1).x[0]"
    before = page.evaluate(cursor)
    page.wait_for_function(f"(before) => {cursor} > before", arg=before)
    page.keyboard.press(" ")
    assert page.locator("#play").text_content() == "Play"


def test_another_way_keeps_the_pace_and_ends_sooner(opened: Any) -> None:
    page = opened("epoch")
    page.get_by_label("An epoch in").select_option("10")
    ends = {}
    for way in ("Vanilla", "2 bits"):
        page.get_by_label(way, exact=True).check()
        page.keyboard.press("End")
        page.evaluate("() => document.activeElement.blur()")
        page.keyboard.press("End")
        ends[way] = page.evaluate("document.getElementById('figure').data.at(-1).x[0]")
    assert ends["2 bits"] < ends["Vanilla"]


def test_a_page_around_sets_the_theme(opened: Any) -> None:
    page = opened("partition")
    page.evaluate("window.postMessage({ gnnqlabTheme: 'dark' }, '*')")
    page.wait_for_function("getComputedStyle(document.body).backgroundColor === 'rgb(20, 23, 26)'")
    inks = "[...document.querySelectorAll('svg text')].map((text) => getComputedStyle(text).fill)"
    assert "rgb(230, 232, 234)" in page.evaluate(inks) and "rgb(31, 35, 40)" not in page.evaluate(inks)
