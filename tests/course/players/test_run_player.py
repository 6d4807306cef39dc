"""The epoch of a launched run: bytes of its records, rows of its shards, drawn, as film, as page, and refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab.course.players.epoch_player import EpochPlayer, RunModel, _EpochControls
from gnnqlab.course.players.run_walk import Moment, RunWalk
from tests.pages import light_values

SETTINGS: dict[str, Any] = {"system": "fixed-bits", "bits": 2, "model": "gcn", "layers": 2, "hidden": 8, "epochs": 4}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[gq.Run]:
    place = tmp_path_factory.mktemp("player")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GNNQLAB_CACHE", str(place / "cache"))
        yield gq.launch("sbm:90,3,6", workers=3, timeline_every=1, out=place / "runs", wait=True, **SETTINGS)


@pytest.fixture(scope="module")
def player(run: gq.Run) -> EpochPlayer:
    return gq.course.EpochPlayer(run, epoch=2)


@pytest.fixture(scope="module")
def walk(player: EpochPlayer) -> RunWalk:
    assert isinstance(player.walk, RunWalk)
    return player.walk


def model(player: EpochPlayer) -> RunModel:
    assert isinstance(player.model, RunModel)
    return player.model


def mean(values: list[tuple[float, float]]) -> tuple[float, float]:
    return sum(x for x, _ in values) / len(values), sum(y for _, y in values) / len(values)


def flying(walk: RunWalk) -> Moment:
    return next(step for step in walk.steps if walk.messages_in_transit(step.middle))


def test_bytes_are_those_of_the_records_and_rows_those_of_the_shards(run: gq.Run, walk: RunWalk) -> None:
    records = run.records.query("epoch == 2")
    assert walk.num_bytes == records[["bytes_payload", "bytes_params"]].to_numpy().sum()
    assert {m.timing for m in walk.messages} == {"now"} and len(walk.messages) == 4 * 6
    for message in walk.messages:
        plan = walk.parts.shards[message.receiver].plan(message.place.direction)
        assert message.rows == ((2, plan.from_peer(message.sender).num_rows),)
    for shard in walk.parts.shards:
        seconds = {activity.kind: 0.0 for activity in walk.activities}
        for activity in walk.activities:
            if activity.rank == shard.rank:
                seconds[activity.kind] += activity.end - activity.start
        own = records[records["rank"] == shard.rank].iloc[0]
        for what in ("reduce", "optimizer"):
            assert seconds[what] == pytest.approx(1e3 * own[f"{what}_s"], rel=1e-6)


def test_marks_pass_from_sender_to_receiver(player: EpochPlayer, walk: RunWalk) -> None:
    drawing = model(player)._drawing
    assert len(drawing.grid.nodes) == 90
    for track in drawing.tracks:
        sender, receiver = (drawing.centres[rank] for rank in (track.message.sender, track.message.receiver))
        assert math.dist(track.start, sender) < math.dist(track.start, receiver)
        assert math.dist(track.end, receiver) < math.dist(track.end, sender)
    step = flying(walk)
    *_, marks, cursor = drawing.changed_traces(step)
    way = walk.messages_in_transit(step.middle)
    assert sum(x is not None for x in marks["x"]) >= len(way) and cursor["x"] == [round(step.middle, 4)] * 2
    hidden = [x for x, track in zip(marks["x"], drawing.tracks) if track.message.progress(step.middle) is None]
    assert hidden == [None] * len(hidden)


def test_few_rows_pass_one_by_one_from_their_nodes(run: gq.Run, walk: RunWalk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnnqlab.course.players.run_views._ONE_BY_ONE", 99)
    drawing = RunModel(run, epoch=2)._drawing
    assert len(drawing.tracks) == sum(message.num_rows for message in walk.messages)
    message = next(m for m in walk.messages if m.place.direction == "backward")
    ways = [track for track in drawing.tracks if track.message == message]
    copies = walk.parts.shards[message.sender].plan("forward").from_peer(message.receiver).ids.tolist()
    assert [track.end for track in ways] == [drawing._cell[node] for node in copies], "the owner receives gradients"
    owned = {drawing._cell[node] for node in walk.parts.shards[message.sender].owned.tolist()}
    assert {track.start for track in ways} <= owned


def test_nodes_are_bright_where_a_worker_is_at_work(player: EpochPlayer, walk: RunWalk) -> None:
    drawing = model(player)._drawing
    assert sum(map(len, drawing.kinds.values())) == 90
    for activity in walk.activities:
        moment = Moment(0, (activity.start + activity.end) / 2, (activity.start + activity.end) / 2)
        mine = {kind for kind in drawing.highlighted_kinds(moment) if kind[0] == activity.rank}
        if activity.kind == "wait":
            assert not mine
        elif activity.kind == "marginal":
            assert mine and all(waits for _, waits, _ in mine)
        elif activity.kind == "central" and activity.place and activity.place.direction == "forward":
            assert all(not waits for _, waits, _ in mine)
        elif activity.kind in ("between", "loss", "reduce"):
            assert mine == {kind for kind in drawing.kinds if kind[0] == activity.rank}
    step = flying(walk)
    veils = drawing.changed_traces(step)[: len(drawing.kinds)]
    assert [kind for kind, veil in zip(drawing.kinds, veils) if veil["opacity"] == 0] == sorted(
        drawing.highlighted_kinds(step)
    )


def test_workers_with_scattered_nodes_are_drawn_on_a_ring(run: gq.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = RunModel(run)._drawing
    monkeypatch.setattr("gnnqlab.course.players.run_views._NEAR", 2.0)
    ring = RunModel(run)._drawing.centres
    assert mean(ring) == pytest.approx(((drawing.grid.columns - 1) / 2, (drawing.grid.lines - 1) / 2))
    assert len({(round(x, 3), round(y, 3)) for x, y in ring}) == 3


def test_lanes_have_the_recorded_milliseconds(run: gq.Run, player: EpochPlayer) -> None:
    shown = player[player.model.steps[3]]
    bars = {trace.name: trace for trace in shown.figure.data if trace.type == "bar"}
    timeline = run.timeline.query("epoch == 2")
    begin = timeline.query("what != 'transfer'")["start_s"].min()
    posts = timeline.query("what == 'post'").sort_values(["rank", "start_s"])
    assert list(bars["post"].base) == pytest.approx((1e3 * (posts["start_s"] - begin)).tolist(), abs=1e-3)
    assert list(bars["post"].y) == [f"worker {rank}" for rank in posts["rank"]]
    assert shown.frame.index.tolist() == ["worker 0", "worker 1", "worker 2"]
    with pytest.raises(KeyError, match=r"a step must be one of 1, 0\.00 ms, 2, "):
        player["loss"]


def test_a_film_plays_without_a_kernel(player: EpochPlayer, walk: RunWalk) -> None:
    film = player.film().figure
    assert len(film.frames) == len(walk.steps) == len(film.layout.sliders[0].steps)
    cursors = [frame.data[-1].x[0] for frame in film.frames]
    assert cursors == [round(step.middle, 4) for step in walk.steps]
    assert [film.data[number].name for number in film.frames[0].traces[-2:]] == ["messages", "now"]
    assert len(film.to_json()) < 600_000


def test_the_page_holds_the_times_of_the_run(player: EpochPlayer, walk: RunWalk, tmp_path: Path) -> None:
    page = player.export(tmp_path / "run.html").read_text()
    way = light_values(page)["ways"]["run"]
    assert way["times"][0][0] == 0 and way["times"][-1][1] == pytest.approx(walk.milliseconds, abs=1e-3)
    assert len(way["words"]) == len(way["frames"]) == len(way["times"]) == len(walk.steps)
    assert len(way["tracks"]) == len(way["frames"][0][-2]["x"])
    assert 'id="pace"' in page and "Way to train" not in page, "the run has one way to train"
    assert 'aria-label="Time axis"' in page and len(page) < 1_000_000
    assert len(json.dumps(way)) < 1_000_000


def test_controls_step_and_play(run: gq.Run) -> None:
    view = _EpochControls(RunModel(run, epoch=2))
    assert not hasattr(view, "way") and view.play.max == view.step.max == len(view.model.steps)
    view.play.value = 4
    title = view.figure.layout["title"]["text"]
    assert view.step.value == 4 and title.startswith("4 · ")
    view.next.click()
    assert view.figure.layout["title"]["text"].startswith("5 · ") and "of " in view.words.value


def test_the_time_axis_zooms_and_follows_the_step(run: gq.Run) -> None:
    view = _EpochControls(RunModel(run, epoch=2))
    model, end = view.model, view.span.max
    assert isinstance(model, RunModel) and view.span.value == (0.0, model.walk.milliseconds) == (0.0, end)
    view.span.value = (0.0, end / 4)
    assert view.figure.layout["xaxis2"]["range"] == pytest.approx([0.0, end / 4])
    view.step.value = len(model.steps)
    low, high = view.span.value
    assert low <= model.walk.steps[-1].middle <= high and high - low == pytest.approx(end / 4)
    assert view.figure.layout["xaxis2"]["range"] == pytest.approx([low, high])
    view.span.value = (end / 8, end / 4)
    assert model.number == len(model.steps) and model.span == pytest.approx((end / 8, end / 4)), "away from the step"


def test_invalid_arguments_of_the_epoch_player_raise_value_error(
    run: gq.Run, walk: RunWalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="a run is played as it was trained, got epochs, way; leave it out"):
        gq.course.EpochPlayer(run, way="stale", epochs=3)
    with pytest.raises(ValueError, match="epoch= and around= need a run, got a partition"):
        gq.course.EpochPlayer(walk.parts, epoch=2)
    with pytest.raises(ValueError, match=r"one that was recorded, \[1, 2, 3\], got 9"):
        gq.course.EpochPlayer(run, epoch=9)
    monkeypatch.setattr("gnnqlab.course.players.run_views.LARGEST_WHOLE", 50)
    with pytest.raises(ValueError, match=r"at most 50 nodes, got 90; draw the neighbourhood of a node: gq\."):
        gq.course.EpochPlayer(run)
    assert len(model(gq.course.EpochPlayer(run, around=3))._drawing.grid.nodes) <= 90
