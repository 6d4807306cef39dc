"""Players and the partition explorer in a real JupyterLab: by keyboard, with figures that follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser.lab_page import GIVEN_UP, LabPage, lab_fixture

CELLS = [
    'import gnnqlab as gq\ngraph = gq.load("sbm:300,4,8")\nparts = gq.partition(graph, workers=2)\n'
    "gq.course.MessagePlayer(parts, hidden=8, epochs=3)",
    'gq.course.PartitionExplorer(graph, partitioner="random", parts=3, most_parts=8)',
]
IMPATIENT = """const usual = AbortSignal.timeout.bind(AbortSignal);
AbortSignal.timeout = (ms) => usual(ms === 2000 ? 0 : ms);"""
"""anywidget stops waiting for a module after 2 s, as on a busy machine; here at once."""
TITLES = "Array.from(document.querySelectorAll('.js-plotly-plot'), (each) => each.layout.title?.text ?? '')"
DRAWN = "Array.from(document.querySelectorAll('.js-plotly-plot')).every((each) => each.querySelector('.main-svg'))"


lab = lab_fixture("players", CELLS, f"{TITLES}.length === 4 && {TITLES}.every((each) => each) && {DRAWN}")


def test_a_player_walks_by_keyboard(lab: LabPage, screenshots: Path) -> None:
    assert lab.page.evaluate(f"() => {TITLES}")[0].startswith("1 · ")
    lab.page.get_by_role("slider", name="Step", exact=True).focus()
    for number in (2, 3):
        lab.page.keyboard.press("ArrowRight")
        lab.page.wait_for_function(f"() => {TITLES}[0].startsWith('{number} · ')")
    lab.page.screenshot(path=screenshots / "player.png")


def test_arrow_keys_turn_a_list_and_stay_in_it(lab: LabPage) -> None:
    row = lab.page.get_by_role("combobox", name="Row", exact=True)
    row.focus()
    before = row.input_value()
    lab.page.keyboard.press("ArrowDown")
    assert row.input_value() != before
    assert row.evaluate("(each) => each === document.activeElement"), "the page did not move to another cell"
    lab.page.keyboard.press("ArrowUp")
    assert row.input_value() == before


def test_arrow_keys_reach_a_slider_where_the_page_takes_them_first(lab: LabPage) -> None:
    # As in Notebook 7: shortcuts handle a key before the page's elements, unless an element has an attribute against
    # it.
    lab.page.evaluate("""() => document.addEventListener("keydown", (event) => {
      if (window.spared || event.target.closest("[data-lm-suppress-shortcuts]")) return;
      event.preventDefault(); event.stopPropagation();
    }, true)""")
    try:
        step = lab.page.get_by_role("slider", name="Step", exact=True)
        step.focus()
        before = step.get_attribute("aria-valuenow")
        lab.page.keyboard.press("ArrowRight")
        lab.page.wait_for_function(
            "(before) => document.activeElement.getAttribute('aria-valuenow') !== before", arg=before
        )
        lab.page.keyboard.press("ArrowLeft")
    finally:
        lab.page.evaluate("() => { window.spared = true; }")


def test_notebook_7_shows_views_whole(lab: LabPage) -> None:
    height = """() => {
      const area = document.querySelector(".noUi-handle").closest(".jp-Cell-outputArea");
      const cell = area.closest(".jp-CodeCell");
      cell.classList.add("jp-mod-outputsScrolled");
      const kept = getComputedStyle(area).maxHeight;
      document.body.dataset.notebook = "notebooks";
      const whole = getComputedStyle(area).maxHeight;
      delete document.body.dataset.notebook;
      cell.classList.remove("jp-mod-outputsScrolled");
      return [kept, whole];
    }"""
    kept, whole = lab.page.evaluate(height)
    assert kept != "none", "in JupyterLab only an output with this setting gets a box that scrolls"
    assert whole == "none"


def test_labels_are_left_of_their_toggle_buttons_and_aligned(lab: LabPage) -> None:
    # Both positions in one call: between two calls a page may move, if a figure above is drawn again.
    places = """(label) => {
      const rows = [...document.querySelectorAll(".widget-toggle-buttons")];
      const row = rows.find((each) => each.innerText.includes(label));
      return [".widget-label", "button"].map((part) => {
        const { left, right, top, bottom } = row.querySelector(part).getBoundingClientRect();
        return { left, right, middle: (top + bottom) / 2 };
      });
    }"""
    for label in ("Bits", "Cut by"):
        words, button = lab.page.evaluate(places, label)
        assert words["right"] <= button["left"], label
        assert abs(words["middle"] - button["middle"]) < 8, label


def test_the_explorer_cuts_anew(lab: LabPage, screenshots: Path) -> None:
    assert "3 workers" in lab.page.evaluate(f"() => {TITLES}")[1]
    lab.page.get_by_role("slider", name="Parts", exact=True).focus()
    lab.page.keyboard.press("ArrowRight")
    lab.page.wait_for_function(f"() => {TITLES}[1].includes('4 workers')")
    lab.page.screenshot(path=screenshots / "explorer.png")


def test_a_narrow_page_has_the_whole_explorer(lab: LabPage, screenshots: Path) -> None:
    beyond = """() => [...document.querySelectorAll('.jp-OutputArea-output')].map((output) => {
      const edge = output.getBoundingClientRect().right;
      const inside = [...output.querySelectorAll('.main-svg, .widget-slider, .widget-text, .widget-toggle-button')];
      return Math.max(0, ...inside.map((each) => each.getBoundingClientRect().right - edge));
    })"""
    usual = lab.page.viewport_size
    widths = "Array.from(document.querySelectorAll('.js-plotly-plot'), (each) => each.layout.width)"
    lab.page.set_viewport_size({"width": 900, "height": 1500})
    try:
        lab.page.wait_for_function(f"() => {widths}.every((each) => each < 800) && Math.max(...({beyond})()) === 0")
        lab.page.screenshot(path=screenshots / "explorer-900.png")
    finally:
        lab.page.set_viewport_size(usual)
    lab.page.wait_for_function(f"() => {widths}.every((each) => each > 900)")


def test_figures_have_aria_labels(lab: LabPage) -> None:
    figures = lab.page.get_by_role("img").filter(has=lab.page.locator(".main-svg"))
    names = figures.evaluate_all("(all) => all.map((each) => each.getAttribute('aria-label'))")
    assert len(names) == 4 and all(len(name) > 30 for name in names)


def test_plotly_code_is_sent_once_without_errors_or_external_requests(lab: LabPage) -> None:
    counted = "import ipywidgets.widgets.widget as w\nprint(sum('code' in each.keys for each in w._instances.values()))"
    assert lab.python(counted).strip() == "1"
    assert lab.errors == [] and lab.elsewhere == []


def test_a_figure_follows_though_anywidget_gave_its_module_up(open_notebook: Any) -> None:
    lab: LabPage = open_notebook("impatient", CELLS[:1], before=IMPATIENT)
    said: list[str] = []
    lab.page.on("pageerror", lambda error: said.append(str(error)))
    lab.run_all()
    lab.page.wait_for_function(f"() => {TITLES}[0]?.startsWith('1 · ') && {DRAWN}")
    assert any(GIVEN_UP in text for text in said), "otherwise this test proves nothing"
    lab.page.get_by_role("slider", name="Step", exact=True).focus()
    lab.page.keyboard.press("ArrowRight")
    lab.page.wait_for_function(f"() => {TITLES}[0].startsWith('2 · ')")
