"""The live view in a real JupyterLab: new points, a kernel restart, a worker that dies, Stop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab_page import LabPage, lives
from tests.slow_down import wait_until

BEGIN = [
    "import os; os.nice(10)  # the page goes first; workers train on what is left\nimport gnnqlab as gq",
    # Over a slow link workers wait more than they compute, so that the page has the processors.
    'run = gq.launch("digits", system="adaqp", period=20, workers=2, epochs=20000, detach=True, link="2mbit", '
    'wire="paced")\n'
    "view = run.live()\nview",
]
AGAIN = "import gnnqlab as gq\nview = gq.runs()[-1].live()\nview"
GRAPH = "document.querySelector('.js-plotly-plot')"
DRAWN = "document.querySelectorAll('.js-plotly-plot .scatterlayer path').length > 0"
EPOCHS = f"({GRAPH}?.data?.[0]?.x?.at(-1) ?? -1)"
STOP_NAME = re.compile(r"(^|\W)Stop$")  # an icon precedes it
STOP = "import gnnqlab as gq\nfor run in gq.runs(): run.stop()"


@pytest.fixture(scope="module")
def lab(open_notebook: Any) -> Iterator[LabPage]:
    lab: LabPage = open_notebook("live", BEGIN)
    lab.run_all()
    yield lab
    lab.python(STOP)


def _wait_for(lab: LabPage, condition: str) -> None:
    from playwright.sync_api import TimeoutError as Late

    try:
        lab.page.wait_for_function(f"() => {condition}")
    except Late as error:
        said = lab.page.locator("[role=status], [role=alert]").all_inner_texts()
        raise AssertionError(f"{condition}: the figure ends at epoch {_epochs(lab)}; {said}") from error


def _epochs(lab: LabPage) -> int:
    return int(lab.page.evaluate(f"() => {EPOCHS}"))


def _processes(lab: LabPage) -> set[int]:
    guard = "import gnnqlab.run.folder as files\nprint(files.read_json(gq.runs()[-1].folder / 'guard.json'))"
    told = lab.python(guard)
    return {int(number) for number in re.findall(r"\[(\d+), \d+\]", told)}


def test_points_arrive_while_it_trains(lab: LabPage, screenshots: Path) -> None:
    _wait_for(lab, f"{EPOCHS} > 3")
    some = _epochs(lab)
    _wait_for(lab, f"{EPOCHS} > {some}")
    _wait_for(lab, "/· running · epoch \\d+\\/20000 · \\d+:\\d+ left/.test(document.body.innerText)")
    lab.page.screenshot(path=screenshots / "live.png")
    assert lab.page.get_by_role("button", name=STOP_NAME).count() == 1
    assert lab.page.get_by_role("combobox", name="Epochs of", exact=True).count() == 1
    assert lab.page.get_by_role("status").filter(has_text="run 2").count() == 1


def test_the_breakdown_of_one_worker_can_be_chosen(lab: LabPage) -> None:
    mean = lab.page.evaluate(f"() => {GRAPH}.data[4].y.join()")
    box = lab.page.get_by_role("combobox", name="Epochs of", exact=True)
    box.select_option(index=1)
    _wait_for(lab, f"{GRAPH}.data[4].y.join() !== '{mean}'")


def test_a_dark_page_gets_a_dark_figure(lab: LabPage, screenshots: Path) -> None:
    ground = f"{GRAPH}.layout.paper_bgcolor"
    light = lab.page.evaluate(f"() => {ground}")
    lab.command("apputils:change-theme", theme="JupyterLab Dark")
    _wait_for(lab, f"{ground} !== '{light}'")
    lab.page.screenshot(path=screenshots / "live-dark.png")
    lab.command("apputils:change-theme", theme="JupyterLab Light")
    _wait_for(lab, f"{ground} === '{light}'")


def test_reloaded_page_restores_the_view_and_continues_updating(lab: LabPage, screenshots: Path) -> None:
    _wait_for(lab, f"{EPOCHS} > 3")
    lab.page.get_by_role("combobox", name="Epochs of", exact=True).select_option(index=1)
    before = _epochs(lab)
    lab.reload()
    _wait_for(lab, f"{EPOCHS} >= {before} && {DRAWN}")
    some = _epochs(lab)
    _wait_for(lab, f"{EPOCHS} > {some}")
    _wait_for(lab, "/· running · epoch/.test(document.body.innerText)")
    lab.page.screenshot(path=screenshots / "live-reloaded.png")
    # The selection from before the reload is still there, and can be changed.
    box = lab.page.get_by_role("combobox", name="Epochs of", exact=True)
    assert box.input_value() == "worker 0"
    one = lab.page.evaluate(f"() => {GRAPH}.data[4].y.join()")
    box.select_option(index=0)
    _wait_for(lab, f"{GRAPH}.data[4].y.join() !== '{one}'")


def test_page_has_no_errors_and_no_external_requests_before_restart(lab: LabPage) -> None:
    # This precedes the restart: after it, JupyterLab itself logs errors of widgets without a kernel.
    assert lab.errors == [] and lab.elsewhere == []


def test_after_a_kernel_restart_the_run_is_found_again_and_still_grows(lab: LabPage) -> None:
    before = _epochs(lab)
    processes = _processes(lab)
    assert len(processes) >= 4, "guard, agent and two workers"
    lab.restart()
    assert all(map(lives, processes)), "a detached run does not end with its kernel"
    lab.run_cell(0, AGAIN)
    _wait_for(lab, f"document.querySelectorAll('.js-plotly-plot').length > 0 && {EPOCHS} > {before}")
    some = _epochs(lab)
    _wait_for(lab, f"{EPOCHS} > {some}")
    assert "False" in lab.python("print('run' in globals())"), "the handle of the first kernel is gone"


def test_stop_ends_all_processes_by_keyboard_too(lab: LabPage) -> None:
    processes = _processes(lab)
    lab.page.get_by_role("combobox", name="Epochs of", exact=True).focus()
    lab.page.keyboard.press("Shift+Tab")
    assert lab.page.evaluate("() => document.activeElement.textContent").strip() == "Stop"
    lab.page.keyboard.press("Enter")
    _wait_for(lab, "/· stopped ·/.test(document.body.innerText)")
    wait_until(lambda: not any(map(lives, processes)), what=f"all of {processes} end")
    assert lab.page.get_by_role("button", name=STOP_NAME).is_disabled()
    threads = "import threading\nprint([each.name for each in threading.enumerate()])"
    wait_until(lambda: "gnnqlab" not in lab.python(threads), what="the thread of the view ends")


def test_live_view_names_a_killed_worker(lab: LabPage, screenshots: Path) -> None:
    lab.run_cell(0, BEGIN[1])
    _wait_for(lab, f"/· running ·/.test(document.body.innerText) && {EPOCHS} > 3")
    lab.python("import os, signal, gnnqlab.run.folder as files\n"
               "os.kill(files.read_json(run.folder / 'guard.json')['workers']['1'][0], signal.SIGKILL)")  # fmt: skip
    alert = lab.page.get_by_role("alert").filter(has_text="SIGKILL")
    alert.wait_for()
    lab.page.screenshot(path=screenshots / "live-failed.png")
    assert "rank 1" in alert.inner_text()


def test_page_makes_no_external_requests(lab: LabPage) -> None:
    assert lab.elsewhere == []
