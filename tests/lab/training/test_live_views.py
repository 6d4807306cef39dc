"""The figures of the live view."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.lab.training.live import LiveView
from gnnqlab.lab.training.live_views import draw_live, live_frame, live_values
from gnnqlab.run.run import Run
from gnnqlab.train.heartbeat import Heartbeat
from tests.cases import each
from tests.lab.synthetic_folder import Folder


def test_the_age_of_rows_is_shown_where_a_system_has_one(make: Callable[..., Folder], tmp_path: Path) -> None:
    folder = make(system="pipegcn")
    model = folder.read(range(5))
    assert model.ages["staleness"][1].tolist() == [0, 1, 1, 1, 1], "the first epoch has no stale rows to use"
    folder._append("decisions.jsonl", [{"epoch": 3, "what": "fresh rows", "why": ""}])
    folder._append("decisions.jsonl", [{"epoch": 4, "what": "rows of the epoch before", "why": ""}])
    model.poll()
    assert model.ages["staleness"][1].tolist() == [0, 1, 1, 0, 1]
    assert live_values(model)[-1] == {"x": [0, 1, 2, 3, 4], "y": [0, 1, 1, 0, 1]}
    assert [note.text for note in draw_live(model).layout.annotations][-1] == "Staleness of halo rows"
    plain = Folder(tmp_path / "other").read(range(5))
    assert plain.ages == {} and len(live_values(plain)) == len(live_values(model)) - 1


def test_recorded_ages_and_thresholds_come_before_the_schedule(make: Callable[..., Folder]) -> None:
    folder = make(system="pipegcn", workers=1)
    lines = [{"epoch": epoch, "rank": 0, "staleness": 3, "epsilon": 0.5 * epoch} for epoch in range(3)]
    folder._append("records-rank0.jsonl", lines)
    model = folder.read()
    assert model.ages["staleness"][1].tolist() == [3, 3, 3] and model.ages["epsilon"][1].tolist() == [0, 0.5, 1]


def test_a_cache_shows_its_threshold_and_the_share_sent_by_layer(make: Callable[..., Folder]) -> None:
    folder = make(workers=1)
    said = {"rank": 0, "time_s": 1.0, "loss": 1.0, "epsilon": 0.05, "sent_0": 0.25}
    lines = [{"epoch": n, **said, "sent_1": 1 / (n + 1)} for n in range(3)]
    folder._append("records-rank0.jsonl", lines)
    model = folder.read()
    assert live_values(model)[-2:] == [{"x": [0, 1, 2], "y": [25, 25, 25]}, {"x": [0, 1, 2], "y": [100, 50, 33.333]}]
    figure = draw_live(model)
    assert [trace.name for trace in figure.data[-2:]] == ["layer 0", "layer 1"]
    assert [note.text for note in figure.layout.annotations][-2:] == ["Threshold ε of the cache", "Rows sent, by layer"]


def change_epochs(folder: Folder, **of_epochs: dict[int, float]) -> None:
    """Set a column of both workers' records in some epochs."""
    for path in (folder.path / f"records-rank{rank}.jsonl" for rank in range(2)):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for column, values in of_epochs.items():
            for epoch, value in values.items():
                lines[epoch][column] = value
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@each("workers", [1, 2])
def test_one_worker_has_no_panels_of_messages(tmp_path: Path, workers: int) -> None:
    model = Folder(tmp_path / str(workers), workers=workers).read(range(6))
    figure = draw_live(model)
    of_messages = [trace for trace in figure.data if trace.type == "heatmap" or getattr(trace, "stackgroup", None)]
    assert bool(of_messages) == (workers > 1)
    assert ("Bits per element" in [note.text for note in figure.layout.annotations]) == (workers > 1)
    assert ("One worker waits for no rows and sends none." in figure.layout.meta["caption"]) == (workers == 1)
    assert len(live_values(model)) == len(figure.data)
    assert len(list(figure.select_yaxes())) == (8 if workers > 1 else 4), "no empty axes"


def test_live_figure_draws_the_recorded_values(make: Callable[..., Folder]) -> None:
    model = make().read(range(10))
    figure = draw_live(model)
    loss, train, val, test = figure.data[:4]
    assert list(loss.y) == pytest.approx([2.0 / (epoch + 1) for epoch in range(10)], rel=1e-4)
    assert list(val.x) == [0, 2, 4, 6, 8] and set(val.y) == {25} and set(train.y) == {50} and set(test.y) == {75}
    by_epoch, by_worker = figure.data[4 : 4 + len(PHASES)], figure.data[4 + len(PHASES) : 4 + 2 * len(PHASES)]
    assert list(by_epoch[0].x) == list(range(1, 10)), "without the first epoch, which includes the setup"
    assert set(by_epoch[0].y) == {6.0} and list(by_worker[0].x) == [4.0, 8.0], (
        "mean of 4 and 8 ms; one value per worker"
    )
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


def test_text_replaces_empty_axes_before_the_first_epoch_ends(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.state("running")
    model = folder.model
    (folder.path / "heartbeat").mkdir(exist_ok=True)
    heartbeats = [Heartbeat(folder.path / "heartbeat" / f"rank{rank}", rank) for rank in range(2)]
    for heartbeat in heartbeats:
        heartbeat.phase("partition")
    model.poll()
    assert "· partitioning the graph" in model.sentence
    for heartbeat, phases in zip(heartbeats, (("encode", "wait"), ("compute",)), strict=True):
        heartbeat.phase("compute", epoch=0)
        for phase in phases:
            heartbeat.phase(phase)
    model.poll()
    figure = draw_live(model, dark=True)
    assert "epoch 1, step 2: computing" in model.sentence and "epoch 1, step 2: computing" in str(figure.layout)
    assert not figure.data and figure.layout.height < 150
    folder.write(range(1))
    model.poll()
    assert model.remaining_s == pytest.approx(99 * model.records[0]["epoch_s"][0]), "known from the first epoch on"
    for heartbeat in heartbeats:
        heartbeat.phase("compute", epoch=1)
    model._epoch_seen = (1, -math.inf)  # the epoch takes long
    model.poll()
    assert re.search(r"epoch 2, (33|50) % done: computing", model.sentence)
    assert all(axis.title.text for axis in draw_live(model).select_xaxes())


def test_an_epoch_with_an_assignment_sets_no_scale_and_is_named(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.write(range(10))
    change_epochs(folder, assign_s={1: 2.0, 8: 2.0})
    figure = draw_live(folder.read())
    totals = np.sum([trace.y for trace in figure.data[4 : 4 + len(PHASES)]], axis=0)
    usual = np.delete(totals, [0, 7]).max()
    assert usual < figure.layout.yaxis3.range[1] < 1.5 * usual < totals[0]
    named = [trace for trace in figure.data if "mode" in trace and trace.mode == "text"]
    assert [list(trace.x) for trace in named] == [[1, 8]] and re.fullmatch(r"↑ 20\d\d ms", named[0].text[0])
    assert list(named[0].textposition) == ["bottom right", "bottom left"], "inside the panel at both ends"


def test_of_high_epochs_side_by_side_the_highest_is_named(make: Callable[..., Folder]) -> None:
    folder = make()
    folder.write(range(40))
    change_epochs(folder, assign_s={5: 3.0, 7: 5.0, 18: 3.0, 22: 2.0, 38: 2.0})
    (named,) = [trace for trace in draw_live(folder.read()).data if "mode" in trace and trace.mode == "text"]
    assert list(named.x) == [7, 18, 38], (
        "5 would lie under the label of 7, and the label of 22, on its left, under that of 18"
    )


def test_no_legend_lies_on_a_panel(make: Callable[..., Folder]) -> None:
    model = make().read(range(10))
    layout = draw_live(model).layout.to_plotly_json()
    legends = [each for name, each in layout.items() if name.startswith("legend")]
    panels = [axis["domain"] for name, axis in layout.items() if name.startswith("yaxis")]
    assert len(legends) == 5 and all(each["yanchor"] == "top" and each["orientation"] == "h" for each in legends)
    assert not any(low <= each["y"] <= high for each in legends for low, high in panels)


def test_live_frame_without_records_is_empty(make: Callable[..., Folder]) -> None:
    model = make().model
    model.poll()
    figure = draw_live(model)
    assert live_frame(model).empty and "epoch 0/100" in figure.layout.meta["caption"]


def test_figures_of_long_runs_stay_small(make: Callable[..., Folder]) -> None:
    folder = make(workers=4, epochs=10_000)
    folder.write(range(10_000), traffic=False)
    for begin in range(0, 10_000, 500):  # every 20th epoch's messages are enough for these figures
        for rank in range(4):
            rows = [[1, "forward", (rank + 1) % 4, rank, width, 9, 90, 8, 0.1] for width in (2, 4, 8)]
            lines = [{"epoch": epoch, "rows": rows} for epoch in range(begin, begin + 500, 20)]
            folder._append(f"traffic-rank{rank}.jsonl", lines)
    model = folder.read()
    size = len(draw_live(model).to_json())
    print(f"\n10 000 epochs of 4 workers: figure of {size / 1e3:.0f} kB")
    assert size < 200_000
    assert len(live_frame(model)) <= 24
