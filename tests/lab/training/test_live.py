"""The live view: what it reads of a folder that grows, what it draws, and that it ends with the run."""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.lab.training.live import LiveView
from gnnqlab.lab.training.live_model import GrowingColumns
from gnnqlab.lab.training.live_views import draw_live, live_frame, live_values
from gnnqlab.launch.folder import append_event
from gnnqlab.launch.run import Run
from gnnqlab.train.heartbeat import Heartbeat
from tests.cases import each
from tests.lab.synthetic_folder import Folder


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Folder]:
    return lambda **settings: Folder(tmp_path, **settings)


# -- reading ------------------------------------------------------------------------------------------------------


def test_a_model_reads_on_from_where_it_stopped(make: Callable[..., Folder]) -> None:
    folder = make()
    model = folder.model
    assert not model.look() or model.standing.state == "running"
    assert model.done == 0 and "epoch 0/100" in model.sentence and model.left_s is None
    folder.write(range(4))
    assert model.look() and model.done == 4
    folder.write(range(4, 6), ranks=[0])
    assert model.look() and model.done == 4, "worker 1 has not written epoch 4"
    assert not model.look()
    assert model.records[0]["loss"].tolist() == [2.0 / (epoch + 1) for epoch in range(6)]
    assert (
        model.sentence
        == "run 20260101-000000-run · running · epoch 4/100 · 00:09 left · loss 0.3333 · validation 25.0 %"
    )


def test_torn_lines_are_read_when_they_are_whole(make: Callable[..., Folder]) -> None:
    folder = make(workers=1)
    model = folder.model
    folder.write(range(2))
    path = folder.path / "records-rank0.jsonl"
    text = path.read_text()
    path.write_text(text[:-30])
    model.look()
    assert len(model.records[0]) == 1
    path.write_text(text)
    model.look()
    assert model.records[0]["epoch"].tolist() == [0, 1]


def test_a_model_made_anew_sees_what_the_first_one_saw(make: Callable[..., Folder]) -> None:
    folder = make()
    first = folder.model
    for begin in range(0, 20, 5):
        folder.write(range(begin, begin + 5))
        first.look()
    second = folder.model
    second.look()
    assert live_values(first) == live_values(second)


def test_a_dead_or_stalled_worker_is_told_at_the_next_look(make: Callable[..., Folder]) -> None:
    folder = make()
    model = folder.model
    model.look()
    assert model.under_way and model.trouble == ""
    folder.state("stalled", "rank 1 stands still in epoch 3")
    assert model.look_at_status() and model.trouble == "rank 1 stands still in epoch 3" and model.under_way
    folder.state("running")
    append_event(folder.path, "slow", text="rank 0 computes for 40 s")
    assert model.look_at_status() and model.trouble == "rank 0 computes for 40 s"
    append_event(folder.path, "recovered")
    assert model.look_at_status() and model.trouble == ""
    folder.state("failed", "rank 1 was killed by SIGKILL in epoch 3")
    assert model.look_at_status() and not model.under_way
    assert model.sentence.endswith("rank 1 was killed by SIGKILL in epoch 3")
    assert not model.look_at_status(), "nothing new"


def test_epochs_of_long_runs_are_passed_over_among_messages_only(make: Callable[..., Folder]) -> None:
    folder = make(epochs=3000)
    folder.write(range(3000))
    model = folder.model
    model.look()
    assert len(model.records[0]) == 3000 == model.done
    epochs = sorted(model.traffic[0].elements)
    assert 64 <= len(epochs) <= 1024 and epochs[0] == 0 and epochs[-1] == 2999
    folder.write(range(3000, 6000))
    model.look()
    later = [epoch for epoch in sorted(model.traffic[0].elements) if epoch >= 2999]
    assert max(after - before for before, after in itertools.pairwise(later)) < 3000 / 8, "no long gap"
    assert model.traffic[1].bytes_by_sender.tolist() == [1216.0, 0.0], "800 + 400 and twice 8 bytes of parameters"


def test_widths_are_summed_over_epochs_that_all_workers_have(make: Callable[..., Folder]) -> None:
    folder = make(epochs=6000)
    model = folder.model
    for begin in range(0, 6000, 2000):
        folder.write(range(begin, begin + 2000), ranks=[0], bits=4)
        folder.write(range(begin, begin + 2000), ranks=[1], bits=8)
        model.look()
    folder.write(range(6000, 6003), ranks=[0], bits=4)
    model.look()
    assert 64 <= len(model.common_epochs) <= 1024 and max(model.common_epochs) == 5999
    means = live_values(model)[4 + 2 * len(PHASES)]["y"]
    assert max(means) == min(means) == 6, "as many elements of 4 bits as of 8"


def test_a_glance_at_a_long_run_is_followed_by_all_of_it(make: Callable[..., Folder]) -> None:
    folder = make(epochs=5000)
    folder.write(range(3000), traffic=False)
    folder.write(range(3000, 3001), ranks=[0], traffic=False)  # rank 1 is still at it
    model = folder.model
    model.glance()
    first, second = (growing["epoch"].tolist() for growing in model.records)
    assert first[-1] == 3000 and second == first[:-1] and 200 <= len(first) <= 220
    whole = folder.model
    whole.look()
    assert model.done == 3000 and model.left_s == whole.left_s
    assert model.look()
    assert model.records[0]["epoch"].tolist() == list(range(3001))
    assert live_values(model) == live_values(whole)


def test_a_glance_at_a_short_run_is_a_look(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.write(range(5))
    model = folder.model
    model.glance()
    assert len(model.records[0]) == 5 and not model.look()


def test_numbers_of_growing_records_survive_growth() -> None:
    growing = GrowingColumns()
    for begin in range(0, 1000, 7):
        growing.add({"epoch": epoch, "loss": epoch / 2} for epoch in range(begin, min(begin + 7, 1000)))
    assert growing["epoch"].tolist() == list(range(1000)) and np.isnan(growing["val_score"]).all()


# -- old rows -----------------------------------------------------------------------------------------------------


def test_the_age_of_rows_is_shown_where_a_system_has_one(make: Callable[..., Folder], tmp_path: Path) -> None:
    folder = make(system="pipegcn")
    folder.write(range(5))
    model = folder.model
    model.look()
    assert model.ages["staleness"][1].tolist() == [0, 1, 1, 1, 1], "the first epoch waits for its own rows"
    folder._append("decisions.jsonl", [{"epoch": 3, "what": "fresh rows", "why": ""}])
    folder._append("decisions.jsonl", [{"epoch": 4, "what": "rows of the epoch before", "why": ""}])
    model.look()
    assert model.ages["staleness"][1].tolist() == [0, 1, 1, 0, 1]
    assert live_values(model)[-1] == {"x": [0, 1, 2, 3, 4], "y": [0, 1, 1, 0, 1]}
    assert [note.text for note in draw_live(model).layout.annotations][-1] == "Age of halo rows"
    other = Folder(tmp_path / "other")
    other.write(range(5))
    plain = other.model
    plain.look()
    assert plain.ages == {} and len(live_values(plain)) == len(live_values(model)) - 1


def test_recorded_ages_and_thresholds_come_before_the_schedule(make: Callable[..., Folder]) -> None:
    folder = make(system="pipegcn", workers=1)
    lines = [{"epoch": epoch, "rank": 0, "staleness": 3, "epsilon": 0.5 * epoch} for epoch in range(3)]
    folder._append("records-rank0.jsonl", lines)
    model = folder.model
    model.look()
    assert model.ages["staleness"][1].tolist() == [3, 3, 3] and model.ages["epsilon"][1].tolist() == [0, 0.5, 1]


def test_a_cache_shows_its_threshold_and_the_share_sent_by_layer(make: Callable[..., Folder]) -> None:
    folder = make(workers=1)
    said = {"rank": 0, "time_s": 1.0, "loss": 1.0, "epsilon": 0.05, "sent_0": 0.25}
    lines = [{"epoch": n, **said, "sent_1": 1 / (n + 1)} for n in range(3)]
    folder._append("records-rank0.jsonl", lines)
    model = folder.model
    model.look()
    assert live_values(model)[-2:] == [{"x": [0, 1, 2], "y": [25, 25, 25]}, {"x": [0, 1, 2], "y": [100, 50, 33.333]}]
    figure = draw_live(model)
    assert [trace.name for trace in figure.data[-2:]] == ["layer 0", "layer 1"]
    assert [note.text for note in figure.layout.annotations][-2:] == ["Threshold ε of the cache", "Rows sent, by layer"]


@each("workers", [1, 2])
def test_one_worker_has_no_panels_of_messages(tmp_path: Path, workers: int) -> None:
    folder = Folder(tmp_path / str(workers), workers=workers)
    folder.write(range(6))
    model = folder.model
    model.look()
    figure = draw_live(model)
    of_messages = [trace for trace in figure.data if trace.type == "heatmap" or getattr(trace, "stackgroup", None)]
    assert bool(of_messages) == (workers > 1)
    assert ("Bits an element" in [note.text for note in figure.layout.annotations]) == (workers > 1)
    assert ("One worker waits for no rows and sends none." in figure.layout.meta["caption"]) == (workers == 1)
    assert len(live_values(model)) == len(figure.data)
    assert len(list(figure.select_yaxes())) == (8 if workers > 1 else 4), "no empty axes"


# -- drawing ------------------------------------------------------------------------------------------------------


def test_what_is_drawn_is_what_was_written(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.write(range(10))
    model = folder.model
    model.look()
    figure = draw_live(model)
    loss, train, val, test = figure.data[:4]
    assert list(loss.y) == pytest.approx([2.0 / (epoch + 1) for epoch in range(10)], rel=1e-4)
    assert list(val.x) == [0, 2, 4, 6, 8] and set(val.y) == {25} and set(train.y) == {50} and set(test.y) == {75}
    by_epoch, by_worker = figure.data[4 : 4 + len(PHASES)], figure.data[4 + len(PHASES) : 4 + 2 * len(PHASES)]
    assert list(by_epoch[0].x) == list(range(1, 10)), "without the first epoch, which sets things up"
    assert set(by_epoch[0].y) == {6.0} and list(by_worker[0].x) == [4.0, 8.0], "mean of 4 and 8 ms; each worker's own"
    mean = {trace.name: list(trace.y) for trace in figure.data if trace.name in ("forward", "backward")}
    assert mean == {"forward": [4.0] * 10, "backward": [8.0] * 10}
    share = {trace.name: trace.y for trace in figure.data if str(trace.name).endswith("bits")}
    assert set(share["4 bits"]) == {50} == set(share["8 bits"]) and set(share["2 bits"]) == {0}
    pairs = next(trace for trace in figure.data if trace.type == "heatmap")
    assert [list(row) for row in pairs.z] == [[None, 1216.0], [1216.0, None]] and pairs.text[0][1] == "1.22 kB"
    sent = {trace.name.split()[0]: trace.y for trace in figure.data if getattr(trace, "stackgroup", "") == "volume"}
    assert set(sent["payload"]) == {2000} and set(sent["parameters"]) == {48}
    assert "epoch 10/100" in figure.layout.meta["caption"] and "Median epoch 40 ms" in figure.layout.meta["caption"]


def test_a_worker_can_be_chosen_for_the_breakdown(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.write(range(10))
    view = LiveView(Run(folder.path))
    assert set(view.show(worker=1).figure.data[4].y) == {8.0}
    with pytest.raises(ValueError, match="worker must be one of 0 to 1, got 2"):
        view.show(worker=2)


def test_before_the_first_epoch_ends_words_stand_in_place_of_empty_axes(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.state("running")
    model = folder.model
    (folder.path / "heartbeat").mkdir(exist_ok=True)
    heartbeats = [Heartbeat(folder.path / "heartbeat" / f"rank{rank}", rank) for rank in range(2)]
    for heartbeat in heartbeats:
        heartbeat.phase("partition")
    model.look()
    assert "· partitioning the graph" in model.sentence
    for heartbeat, phases in zip(heartbeats, (("encode", "wait"), ("compute",)), strict=True):
        heartbeat.phase("compute", epoch=0)
        for phase in phases:
            heartbeat.phase(phase)
    model.look()
    figure = draw_live(model, dark=True)
    assert "epoch 1, step 2: computing" in model.sentence and "epoch 1, step 2: computing" in str(figure.layout)
    assert not figure.data and figure.layout.height < 150
    folder.write(range(1))
    model.look()
    assert model.left_s == pytest.approx(99 * model.records[0]["epoch_s"][0]), "known from the first epoch on"
    for heartbeat in heartbeats:
        heartbeat.phase("compute", epoch=1)
    model._epoch_seen = (1, -math.inf)  # it takes long
    model.look()
    assert re.search(r"epoch 2, (33|50) % done: computing", model.sentence)
    assert all(axis.title.text for axis in draw_live(model).select_xaxes())


def test_an_epoch_with_an_assignment_sets_no_scale_and_is_named(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.write(range(10))
    for rank in range(2):
        lines = [json.loads(line) for line in (folder.path / f"records-rank{rank}.jsonl").read_text().splitlines()]
        lines[1]["assign_s"] = lines[8]["assign_s"] = 2.0
        (folder.path / f"records-rank{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = folder.model
    model.look()
    figure = draw_live(model)
    totals = np.sum([trace.y for trace in figure.data[4 : 4 + len(PHASES)]], axis=0)
    usual = np.delete(totals, [0, 7]).max()
    assert usual < figure.layout.yaxis3.range[1] < 1.5 * usual < totals[0]
    named = [trace for trace in figure.data if "mode" in trace and trace.mode == "text"]
    assert [list(trace.x) for trace in named] == [[1, 8]] and re.fullmatch(r"↑ 20\d\d ms", named[0].text[0])
    assert list(named[0].textposition) == ["bottom right", "bottom left"], "inside the panel at both of its ends"


def test_of_high_epochs_side_by_side_the_highest_is_named(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.write(range(40))
    for rank in range(2):
        lines = [json.loads(line) for line in (folder.path / f"records-rank{rank}.jsonl").read_text().splitlines()]
        for epoch, seconds in ((5, 3.0), (7, 5.0), (18, 3.0), (22, 2.0), (38, 2.0)):
            lines[epoch]["assign_s"] = seconds
        (folder.path / f"records-rank{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    model = folder.model
    model.look()
    (named,) = [trace for trace in draw_live(model).data if "mode" in trace and trace.mode == "text"]
    assert list(named.x) == [7, 18, 38], "5 lies under the words of 7, and 22 speaks to the left, where 18 speaks"


def test_no_legend_lies_on_a_panel(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.write(range(10))
    model = folder.model
    model.look()
    layout = draw_live(model).layout.to_plotly_json()
    legends = [each for name, each in layout.items() if name.startswith("legend")]
    panels = [axis["domain"] for name, axis in layout.items() if name.startswith("yaxis")]
    assert len(legends) == 5 and all(each["yanchor"] == "top" and each["orientation"] == "h" for each in legends)
    assert not any(low <= each["y"] <= high for each in legends for low, high in panels)


def test_nothing_recorded_is_an_empty_table(make: Callable[..., Folder]) -> None:
    model = make().model
    model.look()
    figure = draw_live(model)
    assert live_frame(model).empty and "epoch 0/100" in figure.layout.meta["caption"]


def test_figures_of_long_runs_stay_small(make: Callable[..., Folder]) -> None:
    folder = make(workers=4, epochs=10_000)
    folder.write(range(10_000), traffic=False)
    for begin in range(0, 10_000, 500):  # every 20th epoch's messages are enough for these
        for rank in range(4):
            rows = [[1, "forward", (rank + 1) % 4, rank, width, 9, 90, 8, 0.1] for width in (2, 4, 8)]
            lines = [{"epoch": epoch, "rows": rows} for epoch in range(begin, begin + 500, 20)]
            folder._append(f"traffic-rank{rank}.jsonl", lines)
    model = folder.model
    begun = time.process_time()
    model.look()
    seconds = time.process_time() - begun
    size = len(draw_live(model).to_json())
    print(f"\n10 000 epochs of 4 workers: read in {seconds:.2f} s of processor time, figure of {size / 1e3:.0f} kB")
    assert size < 200_000
    assert len(live_frame(model)) <= 24


# -- the view -----------------------------------------------------------------------------------------------------


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
    until = time.monotonic() + 10
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.01)


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
    assert panel.stop.disabled and 'role="alert"' not in panel.words.value
    held = json.loads(panel.figure.spec)
    assert len(held["data"][0]["x"]) == 7, "a page that is loaded again finds them"
    _until(lambda: not _drawing(), "the end of the thread")


def test_the_first_epoch_waits_for_no_drawing_of_the_words_before_it(live_panel: tuple[Folder, LiveView]) -> None:
    folder, view = live_panel
    panel = view.panel
    panel.access.shown = True
    _until(lambda: "epoch 0/100" in panel.words.value and not panel.updater.asked, "the words")
    panel._due_s = time.monotonic() + 1000  # as if the words had used up what drawing may cost
    folder.write(range(1))
    _until(lambda: panel.figure.data and len(panel.figure.data[0]["x"]) == 1, "the first epoch")
    folder.write(range(1, 3))
    _until(lambda: len(panel.figure.data[0]["x"]) == 3, "those after it, soon")


def test_a_closed_view_ends_its_thread_and_leaves_the_run_alone(live_panel: tuple[Folder, LiveView]) -> None:
    folder, view = live_panel
    with view:
        view.panel.updater.ask()
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
    monkeypatch.setattr("gnnqlab.lab.figures.still._picture_server", lambda: False)
    folder = make()
    folder.write(range(5))
    view = Run(folder.path).live()
    monkeypatch.setattr("gnnqlab.lab.training.live.shows_static", lambda: True)
    outputs, _ = view._repr_mimebundle_()
    assert set(outputs) == {"text/plain", "application/vnd.plotly.v1+json", "text/html"}
    assert "epoch 5/100" in outputs["text/plain"] and "<table>" in outputs["text/html"]
    assert isinstance(view.show(), Bundle) and "panel" not in view.__dict__


@pytest.mark.parametrize(("state", "said"), [("finished", "finished"), ("failed", "worker 1 is gone")])
def test_a_notebook_saved_with_pictures_has_the_run_to_its_end(
    state: str, said: str, make: Callable[..., Folder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnnqlab.lab.figures.still._picture_server", lambda: False)
    monkeypatch.setenv("GNNQLAB_STATIC", "1")
    folder = make()
    folder.write(range(5))

    def end() -> None:
        folder.write(range(5, 100))
        folder.state(state, cause="worker 1 is gone")

    ending = threading.Timer(0.3, end)
    ending.start()
    outputs, _ = Run(folder.path).live()._repr_mimebundle_()
    ending.join()
    assert "epoch 100/100" in outputs["text/plain"] and said in outputs["text/plain"]


# -- a real run ---------------------------------------------------------------------------------------------------


def test_a_real_run_grows_is_found_again_and_stopped(tmp_path: Path) -> None:
    run = gq.launch("digits", system="fixed-bits", bits=4, workers=2, epochs=3000, hidden=16, out=tmp_path)
    with run:
        view = run.live()
        _until_s = time.monotonic() + 60
        while view.look().model.done < 5:
            assert time.monotonic() < _until_s, view.status
            time.sleep(0.05)
        some = view.model.done
        again = gq.runs(tmp_path)[-1].live().look()
        assert again.model.done >= some and len(again.to_frame()) >= 5
        view.stop()
        assert run.status == "stopped" and "stopped" in view.status
    values = live_values(view.model)
    forward = draw_live(view.model).data[4 + 2 * len(PHASES)]
    assert forward.name == "forward" and set(forward.y) == {4.0}
    assert values[0]["x"][0] == 0 and len(values[0]["x"]) >= 5
