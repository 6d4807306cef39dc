"""The epoch player in a real JupyterLab: step by step by keyboard, another way to train, a narrow page."""

from __future__ import annotations

from pathlib import Path

from tests.browser.lab_page import LabPage, lab_fixture

CELL = """import gnnqlab as gq
from gnnqlab import course
gq.course.EpochPlayer(gq.partition(course.ten_nodes(), course.Halves(), workers=2))"""
TITLE = "(document.querySelector('.js-plotly-plot')?.layout.title?.text || '')"
WORDS = "(document.querySelector('.widget-html [role=status]')?.textContent || '')"


lab = lab_fixture("epoch", [CELL], f"{TITLE} && document.querySelector('.js-plotly-plot .main-svg')")


def test_it_goes_step_by_step_by_keyboard(lab: LabPage, screenshots: Path) -> None:
    titles = [lab.page.evaluate(f"() => {TITLE}")]
    lab.page.get_by_role("slider", name="Step", exact=True).focus()
    for _ in range(3):
        lab.page.keyboard.press("ArrowRight")
        lab.page.wait_for_function(f"(before) => {TITLE} !== before", arg=titles[-1])
        titles.append(lab.page.evaluate(f"() => {TITLE}"))
    assert len(set(titles)) == 4
    lab.page.screenshot(path=screenshots / "epoch-step.png")


def test_selecting_two_bits_changes_the_text_of_the_step(lab: LabPage, screenshots: Path) -> None:
    lab.page.get_by_role("slider", name="Step", exact=True).press("Home")
    lab.page.get_by_role("slider", name="Step", exact=True).press("ArrowRight")
    before = lab.page.evaluate(f"() => {WORDS}")
    lab.page.locator("button", has_text="2 bits").click()
    lab.page.wait_for_function(f"(before) => {WORDS} !== before", arg=before)
    lab.page.screenshot(path=screenshots / "epoch-two-bits.png")


def test_a_narrow_page_has_all_of_it(lab: LabPage, screenshots: Path) -> None:
    usual = lab.page.viewport_size
    lab.page.set_viewport_size({"width": 900, "height": 1500})
    try:
        lab.page.wait_for_function("() => document.querySelector('.js-plotly-plot').layout.width < 800")
        lab.page.screenshot(path=screenshots / "epoch-900.png")
        assert lab.page.locator(".noUi-target").first.bounding_box()["width"] > 100, "a slider, not only its handle"
    finally:
        lab.page.set_viewport_size(usual)


def test_the_chosen_way_is_a_pressed_button_of_a_named_group(lab: LabPage) -> None:
    ways = lab.page.get_by_role("group", name="Way", exact=True)
    ways.get_by_role("button", name="Stale", exact=True).click()
    ways.get_by_role("button", name="Stale", exact=True, pressed=True).wait_for()
    assert ways.get_by_role("button", pressed=True).count() == 1


def test_words_change_in_an_element_that_stays_so_that_they_are_announced(lab: LabPage) -> None:
    step = lab.page.get_by_role("slider", name="Step", exact=True)
    step.press("Home")
    words = lab.page.locator(".widget-html [role=status]")
    kept = words.element_handle()
    before = words.text_content()
    step.press("ArrowRight")
    lab.page.wait_for_function("([kept, before]) => kept.textContent !== before", arg=[kept, before])
    assert words.count() == 1 and kept.evaluate("(each) => each.isConnected")


def test_a_button_that_its_own_step_disables_gives_the_focus_to_the_slider(lab: LabPage) -> None:
    step = lab.page.get_by_role("slider", name="Step", exact=True)
    step.press("Home")
    step.press("ArrowRight")
    back = lab.page.get_by_role("button", name="Back", exact=True)
    lab.page.wait_for_function("(back) => !back.disabled", arg=back.element_handle())
    back.press("Enter")
    lab.page.wait_for_function("(back) => back.disabled", arg=back.element_handle())
    assert step.evaluate("(each) => each === document.activeElement")
