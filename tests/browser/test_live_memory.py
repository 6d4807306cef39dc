"""Memory of the browser for the live view of a long run: 10 000 epochs of 8 workers, and growing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab_page import LabPage
from tests.lab.synthetic_folder import Folder
from tests.slow_down import in_time

EPOCHS, WORKERS = 10_000, 8
MORE, TIMES = 200, 2
"""Number of epochs that are added at a time, and number of additions."""
GOAL_MB, GOAL_S = 150, 2.0
GRAPH = "document.querySelector('.js-plotly-plot')"
LAST = f"({GRAPH}?.data?.[0]?.x?.at(-1) ?? -1)"
DRAWN = f"() => {LAST} === {EPOCHS - 1} && document.querySelectorAll('.js-plotly-plot .scatterlayer path').length > 0"
OPEN = """import time
began = time.time()
view = gq.Run({path!r}).live()
view"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path, system="adaqp", workers=WORKERS, epochs=2 * EPOCHS, noise=0.1)
    folder.write(range(EPOCHS), traffic=False)
    for begin in range(0, EPOCHS, 500):  # a part of the messages is enough: no more of them is ever read
        folder.write(range(begin, begin + 50), records=False)
    return folder


class Heap:
    """Measures a page's memory with Chromium's developer tools."""

    def __init__(self, page: Any) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("HeapProfiler.enable")
        self._session.send("Performance.enable")

    def used_mb(self) -> float:
        """Collect garbage, and return the megabytes that scripts of the page still hold."""
        for _ in range(3):  # memory freed by one collection may allow the next one to free more
            self._session.send("HeapProfiler.collectGarbage")
        metrics = {each["name"]: each["value"] for each in self._session.send("Performance.getMetrics")["metrics"]}
        return float(metrics["JSHeapUsedSize"]) / 1e6


def test_a_long_run_opens_soon_and_takes_little(folder: Folder, open_notebook: Any, screenshots: Path) -> None:
    lab: LabPage = open_notebook("memory", ["import gnnqlab as gq"])
    lab.run_all()
    assert "torch" in lab.python("import gnnqlab as gq, torch\nprint(torch)")
    heap = Heap(lab.page)
    before = heap.used_mb()

    seconds = []
    for _ in range(2):  # the first one imports Plotly, in the kernel and in the page
        lab.run_cell(0, OPEN.format(path=str(folder.path)))
        lab.page.wait_for_function(f"() => !{GRAPH}")
        lab.page.wait_for_function(DRAWN)
        seconds.append(time.time() - float(lab.python("print(began)")))
    assert lab.page.evaluate(f"() => {GRAPH}.data.length") > 30
    lab.page.screenshot(path=screenshots / "live-long.png")
    opened = heap.used_mb() - before

    last = EPOCHS
    for _ in range(TIMES):
        folder.write(range(last, last + MORE))
        last += MORE
        lab.page.wait_for_function(f"() => {LAST} === {last - 1}")
    grown = heap.used_mb() - before
    print(
        f"\n{EPOCHS} epochs of {WORKERS} workers: on the screen after {seconds[0]:.2f} s, opened again "
        f"{seconds[1]:.2f} s (goal {GOAL_S:g} s); "
        f"{opened:.0f} MB of the page, {grown:.0f} MB {TIMES * MORE} epochs later (goal {GOAL_MB} MB)"
    )
    assert max(opened, grown) <= GOAL_MB
    assert in_time(min(seconds), GOAL_S)
    folder.state("finished")
    assert lab.elsewhere == [] and lab.errors == [], lab.errors
