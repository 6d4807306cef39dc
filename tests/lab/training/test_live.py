"""The live view on a page: it follows a run at its pace, ends with it, and is a picture where no kernel runs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import gnnqlab as gq
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.lab.training.live import LiveView
from gnnqlab.lab.training.live_panel import Pace
from gnnqlab.lab.training.live_views import draw_live, live_values
from gnnqlab.run.run import Run
from tests.lab.synthetic_folder import Folder
from tests.slow_down import wait_until


@pytest.fixture
def live_panel(make: Callable[..., Folder], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Folder, LiveView]]:
    pytest.importorskip("anywidget")
    monkeypatch.setattr("gnnqlab.lab.training.live_panel._STATUS_S", 0.02)
    monkeypatch.setattr("gnnqlab.lab.training.live_panel._DRAW_S", 0.02)
    monkeypatch.setattr("gnnqlab.lab.training.live_panel._SHARE", 10.0)
    monkeypatch.setattr("gnnqlab.lab.figures.updates._IDLE_S", 0.05)
    folder = make()
    view = LiveView(Run(folder.path))
    yield folder, view
    view.close()


def _until(true: Callable[[], bool], what: str) -> None:
    wait_until(true, what=what)


def _drawing() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("gnnqlab")]


def test_the_screen_follows_a_run_and_its_thread_ends_with_it(live_panel: tuple[Folder, LiveView]) -> None:
    folder, view = live_panel
    panel = view.panel
    panel.access.shown = True
    assert "application/vnd.jupyter.widget-view+json" in view._repr_mimebundle_()[0]
    folder.write(range(5))
    _until(lambda: panel.figure.data and len(panel.figure.data[0]["x"]) == 5, "five epochs on the screen")
    _until(lambda: "epoch 5/100" in panel.words.value, "the words, which follow the figure")
    assert panel.stop.description == "Stop" and not panel.stop.disabled
    panel.worker.value = 1
    _until(lambda: set(panel.figure.data[4]["y"]) == {8.0}, "the breakdown of worker 1")
    folder.state("stalled", "rank 1 <stands> still")
    _until(lambda: 'role="alert"' in panel.words.value, "an alert")
    assert "rank 1 &lt;stands&gt; still" in panel.words.value
    folder.write(range(5, 7))
    folder.state("finished")
    _until(lambda: "finished" in panel.words.value and len(panel.figure.data[0]["x"]) == 7, "the end")
    _until(lambda: panel.stop.disabled, "the button, which follows the words")
    assert 'role="alert"' not in panel.words.value
    held = json.loads(panel.figure.spec)
    assert len(held["data"][0]["x"]) == 7, "a page that is loaded again has them"
    _until(lambda: not _drawing(), "the end of the thread")


def test_the_first_epoch_waits_for_no_drawing_of_the_words_before_it(
    live_panel: tuple[Folder, LiveView], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, view = live_panel
    panel = view.panel
    panel.access.shown = True
    _until(lambda: "epoch 0/100" in panel.words.value and not panel.updater.is_requested, "the words")
    figures_drawn = []

    def delay_s(cost_s: float) -> float:
        """Return a long delay up to that of the first figure, as if these drawings had used up their share of time."""
        if figures_drawn:
            return 0.0
        if panel.model.has_epochs:
            figures_drawn.append(cost_s)
        return 1000.0

    monkeypatch.setattr(panel._pace, "delay_s", delay_s)
    panel._due_s = time.monotonic() + 1000
    folder.write(range(1))
    _until(lambda: panel.figure.data and len(panel.figure.data[0]["x"]) == 1, "the first epoch")
    folder.write(range(1, 3))
    _until(lambda: len(panel.figure.data[0]["x"]) == 3, "those after it, soon")


def test_a_closed_view_ends_its_thread_and_leaves_the_run_alone(live_panel: tuple[Folder, LiveView]) -> None:
    folder, view = live_panel
    with view:
        view.panel.updater.request()
        assert _drawing()
    _until(lambda: not _drawing(), "the end of the thread")
    assert Run(folder.path).status == "running"


def test_a_dark_page_gets_a_dark_figure_of_the_same_numbers(live_panel: tuple[Folder, LiveView]) -> None:
    folder, view = live_panel
    folder.write(range(5))
    light = view.panel.figure.layout["paper_bgcolor"]
    view.panel.access.shown = True
    view.panel.access.dark = True
    assert view.panel.figure.layout["paper_bgcolor"] != light
    _until(lambda: view.panel.figure.data and len(view.panel.figure.data[0]["x"]) == 5, "five epochs on the screen")


def test_where_no_kernel_runs_it_is_a_bundle(make: Callable[..., Folder], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnnqlab.lab.figures.static_image._picture_server", lambda: False)
    folder = make()
    folder.write(range(5))
    view = Run(folder.path).live()
    monkeypatch.setattr("gnnqlab.lab.training.live.shows_static", lambda: True)
    outputs, _ = view._repr_mimebundle_()
    assert set(outputs) == {"text/plain", "application/vnd.plotly.v1+json", "text/html"}
    assert "epoch 5/100" in outputs["text/plain"] and "<table>" in outputs["text/html"]
    assert isinstance(view.show(), FigureData) and "panel" not in view.__dict__


@pytest.mark.parametrize(("state", "said"), [("finished", "finished"), ("failed", "worker 1 is gone")])
def test_a_notebook_saved_with_pictures_has_the_run_to_its_end(
    state: str, said: str, make: Callable[..., Folder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnnqlab.lab.figures.static_image._picture_server", lambda: False)
    monkeypatch.setenv("GNNQLAB_STATIC", "1")
    folder = make()
    folder.write(range(5))

    waits = []

    def wait(seconds: float) -> None:
        """End the run in place of the second pause of `Run.wait`."""
        waits.append(seconds)
        if len(waits) == 2:
            folder.write(range(5, 100))
            folder.state(state, cause="worker 1 is gone")

    monkeypatch.setattr("gnnqlab.run.run.time", SimpleNamespace(**{**vars(time), "sleep": wait}))
    outputs, _ = Run(folder.path).live()._repr_mimebundle_()
    assert len(waits) == 2, "the view waits for the end of the run"
    assert "epoch 100/100" in outputs["text/plain"] and said in outputs["text/plain"]


def test_a_real_run_grows_is_found_again_and_stopped(tmp_path: Path) -> None:
    # Over a slow link the run cannot end before it is stopped, and its workers wait more than they compute.
    settings = {"bits": 4, "workers": 2, "hidden": 16, "link": "2mbit", "wire": "paced"}
    run = gq.launch("digits", system="fixed-bits", epochs=1_000_000, out=tmp_path, **settings)
    with run:
        view = run.live()
        _until(lambda: view.poll().model.recorded_epochs >= 5, "five epochs in the view")
        some = view.model.recorded_epochs
        again = gq.runs(tmp_path)[-1].live().poll()
        assert again.model.recorded_epochs >= some and len(again.to_frame()) >= 5
        view.stop()
        assert run.status == "stopped" and "stopped" in view.status
    values = live_values(view.model)
    forward = draw_live(view.model).data[4 + 2 * len(PHASES)]
    assert forward.name == "forward" and set(forward.y) == {4.0}
    assert values[0]["x"][0] == 0 and len(values[0]["x"]) >= 5


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _pace(clock: Clock) -> Pace:
    return Pace(share=0.005, credit_s=0.1, least_s=1.0, most_s=10.0, clock=clock)


def test_redraws_start_at_one_second_then_stay_within_the_time_share() -> None:
    clock = Clock()
    pace = _pace(clock)
    begun, spent, waits = clock.now, 0.0, []
    for _ in range(200):
        spent += 0.03
        waits.append(pace.delay_s(0.03))
        clock.now += waits[-1]
    assert waits[:3] == [1.0, 1.0, 1.0]
    assert spent <= 0.1 + 0.005 * (clock.now - begun) + 1e-9
    assert round(waits[-1], 6) == 6.0  # 0.03 s at half a per cent


def test_no_drawing_waits_longer_than_the_most() -> None:
    clock = Clock()
    pace = _pace(clock)
    assert pace.delay_s(3.0) == 10.0, "a slow drawing, as of a long run at its first display"
    clock.now += 10.0
    assert pace.delay_s(0.02) == 4.0, "it does not delay the next ones"
    clock.now += 4.0
    assert pace.delay_s(3.0) == 10.0


def test_a_page_just_opened_moves_at_once() -> None:
    clock = Clock()
    pace = _pace(clock)
    pace.delay_s(3.0)
    pace.refill()
    assert pace.delay_s(0.03) == 1.0
    clock.now += 1e6
    pace.delay_s(0.09)
    assert pace.delay_s(0.09) == 10.0, "no more than the credit is saved"
