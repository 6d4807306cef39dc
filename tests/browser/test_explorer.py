"""The partition explorer's drawn graph in a real JupyterLab: a node's label, and its heat map."""

from __future__ import annotations

from pathlib import Path

from tests.browser.lab_page import LabPage, lab_fixture

CELLS = ['import gnnqlab as gq\ngq.PartitionExplorer("digits", parts=4)']
TITLES = "Array.from(document.querySelectorAll('.js-plotly-plot'), (each) => each.layout.title?.text ?? '')"
DRAWN = "Array.from(document.querySelectorAll('.js-plotly-plot')).every((each) => each.querySelector('.main-svg'))"
MAP = "document.querySelectorAll('.js-plotly-plot')[1]"


lab = lab_fixture("explorer", CELLS, f"{TITLES}.length === 3 && {TITLES}.every((each) => each) && {DRAWN}")


def _middle(lab: LabPage, figure: int, x: float, y: float) -> tuple[float, float]:
    """Return the position of a figure's point on the screen, by the last axes, which those of a map are."""
    found = lab.page.evaluate(
        """([number, x, y]) => {
          const graph = document.querySelectorAll('.js-plotly-plot')[number];
          graph.scrollIntoView({ block: 'center' });
          const { xaxis2, yaxis2, xaxis, yaxis } = graph._fullLayout, across = xaxis2 ?? xaxis, down = yaxis2 ?? yaxis;
          const box = graph.getBoundingClientRect();
          return [box.left + across._offset + across.c2p(x), box.top + down._offset + down.c2p(y)];
        }""",
        [figure, x, y],
    )
    return found[0], found[1]


def test_node_hover_label_lists_the_rows_it_waits_for(lab: LabPage, screenshots: Path) -> None:
    node, x, y = lab.page.evaluate(
        f"""() => {{
          const over = {MAP}._fullData.find((trace) => trace.type === 'heatmap');
          for (let y = 0; y < over.z.length; y++) for (let x = 0; x < over.z[y].length; x++)
            if (over.text[y][x].startsWith('marginal')) return [over.z[y][x], x, y];
        }}"""
    )
    said = lab.python(
        "from gnnqlab.lab.figures.waiting import dependencies_of\n"
        "_parts = gq.partition('digits', gq.partitioners.METIS(), workers=4)\n"
        f"_found = dependencies_of(_parts)\nprint(_found.owner[{node}], int(_parts.graph.labels[{node}]))\n"
        f"print(_found.describe({node}))"
    )
    numbers, waits = said.strip().splitlines()
    owner, label = numbers.split()
    lab.page.mouse.move(*_middle(lab, 1, x, y))
    lab.page.wait_for_function(f"() => {MAP}.querySelector('.hoverlayer text')")
    shown = lab.page.evaluate(f"() => {MAP}.querySelector('.hoverlayer').textContent")
    assert f"node {node}, class {label}worker {owner}, marginal: {waits}" in shown
    lab.page.screenshot(path=screenshots / "explorer-hover.png")


def test_a_click_on_a_cell_shows_the_rows_of_its_pair(lab: LabPage, screenshots: Path) -> None:
    lab.page.mouse.click(*_middle(lab, 0, 1, 0))
    lab.page.wait_for_function(f"() => {TITLES}[1].endsWith('rows from worker 0 to worker 1')")
    lab.page.screenshot(path=screenshots / "explorer-pair.png")
    for width, theme in ((900, "Dark"), (1600, "Dark"), (1600, "Light"), (900, "Light")):
        lab.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        lab.page.set_viewport_size({"width": width, "height": 1900})
        ink = "rgb(31, 35, 40)" if theme == "Light" else "rgb(230, 232, 234)"
        lab.page.wait_for_function(
            f"""() => {{ const title = {MAP}.querySelector('.gtitle');
            return title && getComputedStyle(title).fill === '{ink}'; }}"""
        )
        shape = lab.page.evaluate(
            f"() => {{ const box = {MAP}._fullLayout; return [box.width, box.height, box.meta.tall]; }}"
        )
        lab.page.screenshot(path=screenshots / f"explorer-{width}-{theme}.png")
        wide, high, tall = shape
        assert abs(high - tall["fixed"] - tall["share"] * (wide - tall["beside"])) <= 1, "cells stay squares"
    assert lab.errors == [] and lab.elsewhere == []
