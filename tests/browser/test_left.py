"""Outputs of views in a notebook that is saved by hand: figures and tables for readers without a kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.accessibility import findings, needs_axe
from tests.browser.lab_page import LabPage

VIEW = "application/vnd.jupyter.widget-view+json"
FIGURE = "application/vnd.plotly.v1+json"
CELLS = [
    'import gnnqlab as gq\nfrom gnnqlab import course\ngraph = gq.load("sbm:300,4,8")\n'
    "parts = gq.partition(graph, workers=2)\n"
    "gq.course.MessagePlayer(parts, hidden=8, epochs=3)",
    'gq.course.PartitionExplorer(graph, partitioner="random", parts=3, most_parts=8)',
    "gq.course.EpochPlayer(gq.partition(course.ten_nodes(), course.Halves(), workers=2), epochs=1)",
    "gq.course.AssignerPlayer(parts, hidden=8, epochs=3)",
    'run = gq.launch("sbm:300,4,8", workers=2, hidden=8, epochs=30, out="left").wait(progress=False)\nrun.live()',
    'gq.runs("left")',
    'tuner = gq.Tuner("sbm:300,4,8", workers=2, measure=False)\ntuner',
]
"""All show a figure, except for the sixth, a table; the last one is probed after its cell."""
RUNS = 5
OUTPUTS = "[...document.querySelectorAll('.jp-OutputArea-output')]"
GRAPHS = f"{OUTPUTS}.map((each) => each.querySelectorAll('.main-svg, img').length)"
SHOWN = f"{GRAPHS}.length === {len(CELLS)} && {GRAPHS}.every((each, place) => each || place === {RUNS})"
FRONT = f"{OUTPUTS}.at(-1).querySelector('.js-plotly-plot')?.data[0].x.length === 11"
KEPT = "[...globalThis[Symbol.for('gnnqlab.left')].figures.values()]"
SEARCHED = f"""() => [...window.jupyterapp.shell.widgets("main")].find((each) => each.sessionContext && each.content)
  .content.widgets.flatMap((each) => each.model.outputs.toJSON()).filter((each) => "{VIEW}" in each.data).length"""
PICTURES = f"{KEPT}.filter((each) => each.picture).length"


@pytest.fixture(scope="module")
def lab(open_notebook: Any) -> Iterator[LabPage]:
    lab: LabPage = open_notebook("left", CELLS)
    lab.page.set_viewport_size({"width": 1320, "height": 9000})  # JupyterLab draws only cells near the screen
    lab.run_all()
    lab.page.wait_for_function(f"() => {SHOWN}")
    lab.page.wait_for_function("() => document.querySelector('.gnnqlab-runs tbody tr')")
    lab.page.get_by_text("Sent per epoch", exact=True).wait_for()
    lab.page.wait_for_function(f"() => {FRONT}")  # nothing changes a figure from now on
    yield lab


def _saved(server: tuple[str, Path]) -> list[dict[str, Any]]:
    """Return the last output of every cell."""
    cells = json.loads((server[1] / "left.ipynb").read_text())["cells"]
    return [cell["outputs"][-1] for cell in cells]


def test_the_file_has_figures_and_tables_and_no_view(lab: LabPage, server: tuple[str, Path], screenshots: Path) -> None:
    lab.page.wait_for_function(f"() => {PICTURES} === 8")
    lab.save()
    saved = _saved(server)
    assert [sorted(output["data"]) for output in saved if VIEW in output["data"]] == []
    assert [FIGURE in output["data"] for output in saved] == [place != RUNS for place in range(len(CELLS))]
    pictures = [output["data"].get("image/svg+xml", "") for output in saved]
    assert ["".join(picture)[:4] for picture in pictures].count("<svg") == len(CELLS) - 1, "GitHub shows the picture"
    assert "<table>" in "".join(saved[RUNS]["data"]["text/html"])
    lab.page.screenshot(path=screenshots / "left-live.png")
    assert lab.page.evaluate(f"() => {SHOWN}"), "the page itself is unchanged"
    lab.page.get_by_role("button", name="Next").first.click()
    lab.page.wait_for_function(f"() => {OUTPUTS}[0].querySelector('.js-plotly-plot').layout.title.text[0] === '2'")


@needs_axe
@pytest.mark.parametrize("theme", ["Dark", "Light"])
def test_views_have_no_serious_finding_of_accessibility(lab: LabPage, theme: str, screenshots: Path) -> None:
    lab.command("apputils:change-theme", theme=f"JupyterLab {theme}")
    lab.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{str(theme == 'Light').lower()}'")
    lab.page.screenshot(path=screenshots / f"left-{theme}.png")
    assert findings(lab.page, scope=".jp-OutputArea-output") == []


def test_views_are_back_when_the_page_is_loaded_again(lab: LabPage, screenshots: Path) -> None:
    lab.reload()
    lab.page.wait_for_function("() => document.querySelectorAll('.widget-slider').length > 4")
    lab.page.wait_for_function(f"() => {SHOWN}")
    assert lab.page.get_by_text("model not found").count() == 0
    lab.page.screenshot(path=screenshots / "left-reloaded.png")


def test_without_its_kernel_every_view_is_a_figure_or_a_table(
    lab: LabPage, server: tuple[str, Path], screenshots: Path
) -> None:
    lab.save()
    lab.restart()
    lab.errors.clear()
    lab.page.reload()
    lab.page.wait_for_function(f"() => {SHOWN}")
    lab.wait_for_kernel()
    assert lab.page.evaluate(SEARCHED) == 0, "JupyterLab would search 2 s for an output with a view's name"
    lab.page.screenshot(path=screenshots / "left-alone.png")
    assert lab.page.get_by_text("model not found").count() == lab.page.get_by_text("Loading widget").count() == 0
    assert lab.page.locator(".jp-OutputArea-output table caption").get_by_text("1 run,").is_visible()
    assert lab.page.locator(".jupyter-widgets").count() == 0
    assert lab.errors == [] and lab.elsewhere == []
