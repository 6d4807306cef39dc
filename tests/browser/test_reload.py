"""A page that is reloaded while a run trains gets its live view back, on a busy machine and on a slow page too.

``GNNQLAB_RELOADS=50`` reloads the page so often, with ``GNNQLAB_BUSY=4`` loops that keep processors busy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab_page import LabPage

RELOADS, BUSY = int(os.environ.get("GNNQLAB_RELOADS", "1")), int(os.environ.get("GNNQLAB_BUSY", "0"))
BEGIN = [
    "import os; os.nice(10)  # the page goes first; workers train on what is left\nimport gnnqlab as gq",
    # Over a slow link workers wait more than they compute, so that the page has the processors.
    'run = gq.launch("digits", system="adaqp", period=20, workers=2, epochs=200000, detach=True, link="2mbit", '
    'wire="paced")\nrun.live()',
]
STOP = "run.stop()"
GRAPH = "document.querySelector('.js-plotly-plot')"
EPOCHS = f"({GRAPH}?.data?.[0]?.x?.at(-1) ?? -1)"
DRAWN = "document.querySelectorAll('.js-plotly-plot .scatterlayer path').length > 0"
BOXES = "document.querySelectorAll('.jp-OutputArea-output .js-plotly-plot').length"
NOT_FOUND = "widget model not found"
# On a slow page timeouts end late. Here those of 100 ms, from the first one of a search on, end in their order, and
# some seconds after the answer with all models has arrived.
LATE = """() => {
  const begin = window.setTimeout;
  const held = [];
  let [searching, over] = [false, false];
  window.setTimeout = (what, ms, ...given) => {
    searching ||= ms === 100 && new Error().stack.includes("get_model");
    return searching && !over && ms === 100 ? held.push(() => what(...given)) : begin(what, ms, ...given);
  };
  window.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => {
        const text = data instanceof ArrayBuffer ? new TextDecoder().decode(data) : String(data);
        if (text.includes("update_states")) begin(() => { over = true; held.forEach((what) => begin(what)); }, 4000);
      });
    }
  };
}"""
# A page that stops the search for an output's model, in one order on any machine: JupyterLab searches for the model;
# then the reply with all models arrives; when all are made, the clock shows that the 2 s of the search are over, and
# timeouts end in the order in which they began.
GIVES_UP = """() => {
  const [begin, now] = [window.setTimeout, Date.now];
  const [held, messages] = [[], []];
  let [searching, answered, over, managing, ahead] = [false, false, false, null, 0];
  function endWhenMade() {
    if (!managing?.restoredStatus) return begin(endWhenMade, 20);
    [over, ahead] = [true, 2000];
    held.forEach((what) => begin(what));
  }
  Date.now = () => now() + ahead;
  window.setTimeout = (what, ms, ...given) => {
    const from = ms === 100 && !over ? new Error().stack : "";
    if (!searching && from.includes("renderModel")) {
      searching = true;
      begin(() => messages.splice(0).forEach((hear) => hear()));
      endWhenMade();
    }
    const pauses = searching && /renderModel|bringBack/.test(from);
    return pauses ? held.push(() => what(...given)) : begin(what, ms, ...given);
  };
  window.WebSocket = class extends WebSocket {
    set onmessage(hear) {
      super.onmessage = (event) => {
        const text = event.data instanceof ArrayBuffer ? new TextDecoder().decode(event.data) : String(event.data);
        answered ||= text.includes("update_states");
        if (messages.length || (answered && !searching)) messages.push(() => hear.call(this, event));
        else hear.call(this, event);
      };
    }
  };
  const managers = new WeakSet(); // the views' own, which learns of the manager
  managers.add = (manager) => WeakSet.prototype.add.call(managers, (managing = manager));
  globalThis[Symbol.for("gnnqlab.left")] = { managers, figures: new Map() };
}"""
SLOW = f"""(() => {{
  try {{ ({{ late: {LATE}, gives_up: {GIVES_UP} }})[sessionStorage.slow]?.(); }}
  catch {{ /* a page that keeps nothing */ }}
}})()"""


@pytest.fixture(scope="module")
def lab(open_notebook: Any) -> Iterator[LabPage]:
    lab: LabPage = open_notebook("reload", BEGIN, before=SLOW)
    lab.run_all()
    lab.page.wait_for_function(f"() => {EPOCHS} > 3")
    yield lab
    lab.python(STOP)


@pytest.fixture
def busy() -> Iterator[None]:
    """Start loops that keep processors busy, as many as ``GNNQLAB_BUSY`` says; by default none."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _reload(lab: LabPage) -> float:
    """Reload the page; return the seconds until the view was back, with all epochs, once and growing."""
    before, began = lab.page.evaluate(f"() => {EPOCHS}"), time.monotonic()
    lab.reload()
    lab.page.wait_for_function(f"() => {EPOCHS} >= {before} && {DRAWN}")
    back_s = time.monotonic() - began
    last = lab.page.evaluate(f"() => {EPOCHS}")
    lab.page.wait_for_function(f"() => {EPOCHS} > {last}")
    assert lab.page.evaluate(f"() => {BOXES}") == 1
    return back_s


@pytest.mark.timeout(1200 * (1 + RELOADS))
def test_a_view_is_back_after_every_reload_beside_busy_loops(lab: LabPage, busy: None, screenshots: Path) -> None:
    took = []
    for number in range(RELOADS):
        took.append(_reload(lab))
        print(f"reload {number}: back after {took[-1]:.1f} s", flush=True)
    lab.page.screenshot(path=screenshots / "reload-busy.png")
    print(f"{RELOADS} reloads beside {BUSY} loops: back after {min(took):.1f} to {max(took):.1f} s")


# Simulates a file that another page saved: it has the view alone.
NAMELESS = """() => {
  const book = [...window.jupyterapp.shell.widgets("main")].find((each) => each.sessionContext && each.content);
  for (const { outputs } of book.content.model.cells)
    for (let place = 0; place < outputs.length; place += 1)
      if (outputs.get(place).metadata.gnnqlab) outputs.set(place, { ...outputs.get(place).toJSON(), metadata: {} });
}"""


def _slow(lab: LabPage, way: str) -> None:
    """Select in which way the page is slow once it is reloaded."""
    lab.page.evaluate("(way) => { sessionStorage.slow = way; }", way)


def test_view_is_restored_when_widget_models_load_late(lab: LabPage, screenshots: Path) -> None:
    lab.errors.clear()
    _slow(lab, "late")
    _reload(lab)
    assert not any(NOT_FOUND in text for text in lab.errors), (
        "the file has no view for JupyterLab to search, only its name"
    )
    assert lab.page.get_by_text("model not found").count() == 0


def test_an_output_that_was_given_up_is_drawn_once_its_model_is_there(lab: LabPage, screenshots: Path) -> None:
    lab.errors.clear()
    lab.page.evaluate(NAMELESS)
    _slow(lab, "gives_up")
    _reload(lab)
    lab.page.screenshot(path=screenshots / "reload-slow.png")
    assert any(NOT_FOUND in text for text in lab.errors), "otherwise this test proves nothing"
    assert lab.page.get_by_text("model not found").count() == 0
    assert lab.elsewhere == []
