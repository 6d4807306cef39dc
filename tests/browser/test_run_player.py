"""The epoch of a launched run: stepped and played in JupyterLab, and as a page without a kernel, in its own time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab.course.players.run_walk import RunWalk
from tests.browser.accessibility import findings, needs_axe
from tests.browser.lab_page import LabPage, lab_fixture
from tests.browser.text_boxes import faults

CELL = """import gnnqlab as gq
run = gq.launch("digits", system="adaqp", model="gcn", workers=2, epochs=4, wait=True)
gq.course.EpochPlayer(run)"""
TITLE = "(document.querySelector('.js-plotly-plot')?.layout.title?.text || '')"
PAGE_TITLE = "(document.getElementById('title')?.textContent || '')"
CURSOR = "document.getElementById('figure').data.at(-1).x[0]"
STEP = "Number(document.getElementById('step').value)"
SPAN = "document.getElementById('figure').axes.xaxis2.range"
GO = """(number) => {
  const slider = document.getElementById("step");
  slider.value = number;
  slider.dispatchEvent(new Event("input"));
}"""
FRAMES = """async () => {
  for (let drawn = 0; drawn < 20; drawn += 1) await new Promise((done) => requestAnimationFrame(done));
}"""
"""Waits for as many frames as would have moved a playing epoch on."""
COVERED = ".js-plotly-plot .imagelayer image"


lab = lab_fixture("run-player", [CELL], f"{TITLE} && document.querySelector('.js-plotly-plot .main-svg')")


@pytest.fixture(scope="module")
def walk_and_page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunWalk, Any]]:
    place = tmp_path_factory.mktemp("run-page")
    settings = {"workers": 2, "epochs": 4, "model": "gcn"}
    player = gq.course.EpochPlayer(gq.launch("digits", system="adaqp", out=place, wait=True, **settings))
    page = browser.new_page(viewport={"width": 900, "height": 1000}, has_touch=True)
    page.on("request", lambda request: None if request.url.startswith(("file:", "data:", "blob:")) else pytest.fail())
    page.goto(player.export(place / "run.html").as_uri())
    page.wait_for_selector("#figure svg image")
    assert isinstance(player.walk, RunWalk)
    yield player.walk, page
    page.close()


def _pace(page: Any, seconds: int) -> None:
    """Select in how many seconds an epoch plays, and take the focus from the list, so that the page receives keys."""
    page.get_by_label("An epoch in").select_option(str(seconds))
    page.evaluate("() => document.activeElement.blur()")


def test_it_steps_and_plays_in_a_notebook(lab: LabPage, screenshots: Path) -> None:
    titles = [lab.page.evaluate(f"() => {TITLE}")]
    lab.page.get_by_role("slider", name="Step", exact=True).focus()
    for _ in range(3):
        lab.page.keyboard.press("ArrowRight")
        lab.page.wait_for_function(f"(before) => {TITLE} !== before", arg=titles[-1])
        titles.append(lab.page.evaluate(f"() => {TITLE}"))
    assert [title.partition(" ")[0] for title in titles] == ["1", "2", "3", "4"]
    assert lab.page.locator("button", has_text="2 bits").count() == 0, "the run has one system"
    lab.page.screenshot(path=screenshots / "run-player-step.png")
    lab.page.locator(".widget-play button").first.click()
    lab.page.wait_for_function(f"() => Number({TITLE}.split(' ')[0]) > 8")
    lab.page.locator(".widget-play button").first.click()
    lab.page.screenshot(path=screenshots / "run-player-played.png")
    assert lab.page.locator(COVERED).count() > 2
    range_axis = "document.querySelector('.js-plotly-plot').layout.xaxis2.range"
    before = lab.page.evaluate(f"() => {range_axis}")
    lab.page.get_by_role("slider", name="Shown (ms)").first.focus()
    for _ in range(5):
        lab.page.keyboard.press("PageUp")
    lab.page.wait_for_function(f"(before) => {range_axis}[0] > before[0]", arg=before)
    assert not lab.errors and not lab.elsewhere


def test_a_page_steps_by_keyboard(walk_and_page: tuple[RunWalk, Any], screenshots: Path) -> None:
    walk, page = walk_and_page
    page.keyboard.press("End")
    page.wait_for_function(f"() => {STEP} === {len(walk.steps) - 1}")
    page.keyboard.press("Home")
    for number in range(1, 6):
        page.keyboard.press("ArrowRight")
        page.wait_for_function(f"(title) => {PAGE_TITLE}.startsWith(title)", arg=f"{number + 1} · ")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"() => {PAGE_TITLE}.startsWith('5 · ')")
    assert page.evaluate(f"() => {CURSOR}") == pytest.approx(walk.steps[4].middle, abs=1e-3)
    assert page.locator("#words").text_content().startswith(f"{walk.steps[4].start:.2f} to ")
    page.screenshot(path=screenshots / "run-page-900.png", full_page=True)


def _spans(page: Any, before: list[float]) -> list[float]:
    """Return the shown span of the time axis in milliseconds once it differs from ``before``."""
    page.wait_for_function(f"(before) => String({SPAN}) !== String(before)", arg=before)
    return [float(each) for each in page.evaluate(f"() => {SPAN}")]


def test_the_time_axis_zooms_by_keyboard_wheel_and_touch(walk_and_page: tuple[RunWalk, Any], screenshots: Path) -> None:
    walk, page = walk_and_page
    page.evaluate(GO, 0)
    whole = [float(each) for each in page.evaluate(f"() => {SPAN}")]
    assert whole == pytest.approx([0, walk.milliseconds], rel=1e-3)
    length = whole[1]
    page.get_by_role("button", name="Zoom in").focus()
    page.keyboard.press("Enter")
    half = _spans(page, whole)
    assert half == pytest.approx([length / 4, 3 * length / 4], rel=1e-3)
    page.keyboard.press("+")
    quarter = _spans(page, half)
    assert quarter == pytest.approx([3 * length / 8, 5 * length / 8], rel=1e-3)
    page.keyboard.press("ArrowRight")
    moved = _spans(page, quarter)
    assert moved == pytest.approx([each + length / 16 for each in quarter], rel=1e-3)
    assert page.evaluate(f"() => {CURSOR}") is None, "the first step is not shown"
    assert faults(page) == []
    page.screenshot(path=screenshots / "run-page-zoomed.png", full_page=True)
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("End")
    followed = _spans(page, moved)
    assert followed[0] <= page.evaluate(f"() => {CURSOR}") <= followed[1] == pytest.approx(length, rel=1e-3)
    page.keyboard.press("Shift+ArrowLeft")
    earlier = _spans(page, followed)
    assert earlier == pytest.approx([each - length / 16 for each in followed], rel=1e-3)
    lanes = page.locator(".hold").bounding_box()
    page.mouse.move(lanes["x"] + lanes["width"] / 4, lanes["y"] + 20)
    page.mouse.wheel(0, 1)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    wheeled = _spans(page, earlier)
    assert wheeled[1] - wheeled[0] == pytest.approx(length / 8, rel=1e-2)
    at = earlier[0] + length / 16  # the time under the pointer stays there
    assert (at - wheeled[0]) / (length / 8) == pytest.approx(0.25, abs=0.02)
    page.keyboard.down("Shift")
    page.mouse.wheel(0, 60)
    page.keyboard.up("Shift")
    moved = _spans(page, wheeled)
    assert moved[0] - wheeled[0] == pytest.approx(length / 80, rel=1e-2)
    page.mouse.down()
    page.mouse.move(lanes["x"] + 3 * lanes["width"] / 4, lanes["y"] + 20)
    page.mouse.up()
    assert _spans(page, moved)[0] == pytest.approx(moved[0] - length / 16, rel=1e-2)
    page.get_by_role("button", name="Whole epoch").click()
    page.wait_for_function(f"() => {SPAN}[0] === 0")
    _touch(page, lanes, start=(0.4, 0.6), end=(0.3, 0.7))
    pinched = _spans(page, whole)
    assert pinched == pytest.approx([length / 4, 3 * length / 4], rel=2e-2), "two fingers zoom"
    _touch(page, lanes, start=(0.4,), end=(0.3,))
    assert _spans(page, pinched)[0] == pytest.approx(length * 0.3, rel=2e-2), "one finger moves"
    page.get_by_role("button", name="Whole epoch").click()
    page.wait_for_function(f"() => {SPAN}[0] === 0")


def _touch(page: Any, lanes: dict[str, float], *, start: tuple[float, ...], end: tuple[float, ...]) -> None:
    """Move fingers over the lanes; their places are fractions of the width."""
    session = page.context.new_cdp_session(page)
    for kind, places in (("touchStart", start), ("touchMove", end), ("touchEnd", ())):
        points = [
            {"x": lanes["x"] + place * lanes["width"], "y": lanes["y"] + 20, "id": number}
            for number, place in enumerate(places)
        ]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


@needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_has_no_serious_finding_of_accessibility(walk_and_page: tuple[RunWalk, Any], scheme: str) -> None:
    walk_and_page[1].emulate_media(color_scheme=scheme)
    assert findings(walk_and_page[1]) == []


def test_a_page_plays_in_the_time_of_the_run(walk_and_page: tuple[RunWalk, Any], screenshots: Path) -> None:
    walk, page = walk_and_page
    _pace(page, 90)  # it cannot end before it is stopped
    flying = next(step for step in walk.steps if walk.messages_in_transit(step.middle))
    page.evaluate(GO, flying.number)
    page.wait_for_function(f"(middle) => Math.abs({CURSOR} - middle) < 1e-3", arg=flying.middle)
    begin = page.evaluate(f"() => {CURSOR}")
    page.keyboard.press(" ")
    page.wait_for_function(f"(begin) => {CURSOR} !== begin", arg=begin)
    page.keyboard.press(" ")
    assert page.locator("#play").text_content() == "Play"
    page.evaluate(FRAMES)
    at, number = page.evaluate(f"() => [{CURSOR}, {STEP}]")
    assert walk.steps[number].start - 0.01 <= at <= walk.steps[number].end + 0.01, "the text is of that time"
    marks = page.evaluate("() => document.getElementById('figure').data.at(-2).x.filter((x) => x !== null)")
    assert len(marks) >= len(walk.messages_in_transit(at)) and at >= flying.start
    page.evaluate(FRAMES)
    assert page.evaluate(f"() => {CURSOR}") == at, "it has stopped"
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("() => getComputedStyle(document.body).backgroundColor === 'rgb(20, 23, 26)'")
    page.screenshot(path=screenshots / "run-page-1600-dark.png", full_page=True)
    _pace(page, 10)
    page.keyboard.press(" ")
    page.wait_for_function(f"() => {STEP} === {len(walk.steps) - 1}")
    page.wait_for_function("() => document.getElementById('play').textContent === 'Play'")
