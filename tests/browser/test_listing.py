"""The run browser in a real JupyterLab: sorting, filtering, ticking, comparing and deleting, by keyboard and mouse."""

from __future__ import annotations

import re
from pathlib import Path

from tests.browser.lab_page import LabPage, lab_fixture

CELL = """import gnnqlab as gq
shape = dict(workers=1, layers=2, hidden=8, epochs=6, out="listing", wait=True)
for asked in (dict(seed=0), dict(seed=1), dict(system="fixed-bits", bits=4, workers=2)):
    gq.launch("sbm:60,3,6", **{**shape, **asked})
browser = gq.runs("listing").browse()
browser"""
LINES = ".gnnqlab-runs tbody tr[data-run]"


lab = lab_fixture("listing", [CELL], f"document.querySelectorAll('{LINES}').length === 3")


def _systems(lab: LabPage) -> list[str]:
    return [text.split(" ")[0] for text in lab.page.locator(f"{LINES} td[data-column=system]").all_inner_texts()]


def _press(lab: LabPage, name: str) -> None:
    lab.page.get_by_role("button", name=re.compile(rf"(^|\W){name}$")).click()


def test_a_column_sorts_and_words_filter(lab: LabPage, screenshots: Path) -> None:
    heading = lab.page.locator("button[data-column=system]")
    heading.focus()
    lab.page.keyboard.press("Enter")
    assert _systems(lab) == ["fixed-bits", "vanilla", "vanilla"]
    assert lab.page.locator("th[aria-sort=ascending]").inner_text().startswith("system")
    lab.page.keyboard.press("Enter")
    assert _systems(lab) == ["vanilla", "vanilla", "fixed-bits"]
    words = lab.page.get_by_role("searchbox", name="Filter runs by words")
    words.fill("bits 4")
    assert _systems(lab) == ["fixed-bits"] and lab.page.get_by_text("1 of 3 runs").is_visible()
    words.fill("")
    lab.page.screenshot(path=screenshots / "runs.png")


def test_a_narrow_page_has_all_of_the_table(lab: LabPage, screenshots: Path) -> None:
    usual = lab.page.viewport_size
    cut = """() => {
      const { scrollWidth, clientWidth } = document.querySelector(".gnnqlab-runs .scroll");
      return scrollWidth - clientWidth;
    }"""
    settings = lab.page.locator(".gnnqlab-runs tr.more")
    lab.page.set_viewport_size({"width": 900, "height": 1500})
    try:
        settings.first.wait_for()
        assert lab.page.evaluate(cut) == 0
        assert "2 workers" in " ".join(settings.all_inner_texts())
        lab.page.get_by_role("combobox", name="Sort by").select_option(label="by workers")
        assert _systems(lab) == ["fixed-bits", "vanilla", "vanilla"]
        lab.page.screenshot(path=screenshots / "runs-900.png")
        lab.page.set_viewport_size({"width": 1600, "height": 1500})
        settings.first.wait_for(state="detached")
        assert lab.page.evaluate(cut) == 0
    finally:
        lab.page.set_viewport_size(usual)


def test_ticked_runs_are_compared_with_the_pinned_one(lab: LabPage, screenshots: Path) -> None:
    lab.page.get_by_role("checkbox", name=re.compile("Tick fixed-bits")).focus()
    lab.page.keyboard.press("Space")
    lab.page.get_by_role("radio", name=re.compile("vanilla")).first.check()
    assert lab.page.locator(f"{LINES}.pinned").count() == 1
    assert "×" in lab.page.locator(f"{LINES}.ticked td[data-column=faster]").inner_text()
    _press(lab, "Compare")
    lab.page.get_by_text("2 runs, compared with").wait_for()
    lab.page.wait_for_function("() => document.querySelector('.js-plotly-plot .scatterlayer')")
    assert lab.python("print(len(browser.panel.table.ticked), browser.panel.table.pinned != '')").split() == [
        "1",
        "True",
    ]
    lab.page.screenshot(path=screenshots / "runs-compared.png")
    _press(lab, "Pareto front")
    lab.page.get_by_text("1 settings, 1 runs").wait_for()


def test_the_sweep_of_all_runs_is_drawn_and_too_few_for_a_verdict_are_refused(lab: LabPage, screenshots: Path) -> None:
    ticked = lab.page.get_by_role("checkbox", name=re.compile("Tick fixed-bits"))
    ticked.uncheck()
    _press(lab, "Sweep")
    lab.page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot .parcoords .y-axis').length === 4")
    assert "system" in lab.page.locator(".parcoords .axis-title").first.text_content()
    lab.page.screenshot(path=screenshots / "runs-sweep.png")
    _press(lab, "Importance")
    lab.page.get_by_role("alert").get_by_text("needs at least 4 finished runs, got 3").wait_for()
    ticked.check()


def test_deleted_runs_leave_the_table_and_undo_brings_them_back(lab: LabPage) -> None:
    for button, there in (("Delete", 2), ("Undo", 3), ("Delete", 2)):
        if button == "Delete":
            lab.page.get_by_role("checkbox", name=re.compile("Tick fixed-bits")).check()
        _press(lab, button)
        lab.page.wait_for_function(f"() => document.querySelectorAll('{LINES}').length === {there}")
        assert lab.python("print(len(gq.runs('listing')))").strip() == str(there)
    assert _systems(lab) == ["vanilla", "vanilla"]


def test_resume_without_a_selected_run_shows_an_alert(lab: LabPage) -> None:
    _press(lab, "Resume")
    lab.page.get_by_role("alert").get_by_text("tick a run in the table first").wait_for()


def test_page_has_no_errors_and_no_external_requests(lab: LabPage) -> None:
    assert lab.elsewhere == [] and lab.errors == []
