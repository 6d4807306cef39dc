"""An epoch in steps: in their order, with rows at their positions, and text with the epoch's own numbers."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.course.players.epoch_player import EpochModel, EpochPlayer, _EpochControls
from gnnqlab.course.players.epoch_views import changed_traces, draw_epoch_step, draw_film, row_marks
from gnnqlab.course.players.epoch_walk import WAYS, EpochWalk
from gnnqlab.course.players.epoch_words import say_step
from tests.pages import light_values


@pytest.fixture(scope="module")
def player() -> EpochPlayer:
    return gq.course.EpochPlayer(gq.partition(course.ten_nodes(), course.Halves(), workers=2), epochs=2)


def walk(player: EpochPlayer, way: str) -> EpochWalk:
    return player.model.walk_of(way)


def order(walk: EpochWalk, layer: int = 0, direction: str = "forward") -> list[str]:
    places = [step.place for step in walk.steps]
    return [
        step.activity
        for step, place in zip(walk.steps, places)
        if place is not None and (place.layer, place.direction) == (layer, direction)
    ]


def test_each_schedule_has_its_own_order(player: EpochPlayer) -> None:
    assert order(walk(player, "vanilla")) == ["encode", "post", "wait", "decode", "central", "marginal"]
    assert order(walk(player, "overlapped")) == ["encode", "post", "central", "wait", "decode", "marginal"]
    assert order(walk(player, "stale")) == ["central", "wait", "decode", "encode", "post", "marginal"]
    for way in WAYS:
        names = [step.activity for step in walk(player, way).steps]
        assert names[0] == "start" and names[-1] == "update" and names.count("loss") == names.count("reduce") == 1
        assert names.index("loss") < names.index("reduce")
    stale = [step.activity for step in walk(player, "stale").steps]
    assert stale[stale.index("reduce") + 1 :] == ["encode", "post"] * 2 + ["update"], (
        "deferred until weights are summed"
    )


def test_rows_set_out_and_come(player: EpochPlayer) -> None:
    for way in ("vanilla", "overlapped"):
        found = walk(player, way)
        at = {step.name: step for step in found.steps}
        post, wait = at["post, layer 1 forward"], at["wait, layer 1 forward"]
        shares = [
            [gone for flight, gone in found.messages_in_transit(step.cursor) if flight.rows.place == post.place]
            for step in found.steps
        ]
        between = shares[post.number : wait.number + 1]
        assert all(len(some) == 2 for some in between) and sum(map(len, shares)) == 2 * len(between)
        assert [some[0] for some in between] == sorted(some[0] for some in between)
    assert len(between) == 3, "the step of the central rows lies in between"


def test_old_rows_are_under_way_from_epoch_to_epoch(player: EpochPlayer) -> None:
    found = walk(player, "stale")
    assert len(found.flights) == 2 * len(found.facts.messages)
    first, last = (
        {flight.rows for flight, _ in found.messages_in_transit(time)} for time in (0.01, found.length + 0.01)
    )
    assert first == last != set(), "the next epoch begins with the messages with which this one ends"
    assert all(
        flight.end <= step.start
        for step in found.steps
        for flight in found.flights
        if flight.start < 0 and (step.activity, step.place) == ("decode", flight.rows.place)
    )
    at = {step.name: step for step in found.steps}
    assert "sent in the epoch before" in say_step(found, at["wait, layer 2 forward"])


def test_words_have_the_numbers_of_the_epoch(player: EpochPlayer) -> None:
    found = walk(player, "two bits")
    at = {step.name: step for step in found.steps}
    assert "rows of nodes 3 and 4 for worker 1: 2 × 8 elements in 2 bits, 20 bytes" in say_step(
        found, at["encode, layer 1 forward"]
    )
    assert "40 bytes are sent" in say_step(found, at["post, layer 1 forward"])
    assert f"loss {found.facts.loss:.4f} = {found.facts.losses[0]:.4f} of worker 0" in say_step(found, at["loss"])
    assert "122 weights (488 bytes" in say_step(found, at["reduce"])
    assert f"{found.num_bytes} bytes of rows" in say_step(found, at["update"]) and found.num_bytes == 152
    central = say_step(walk(player, "overlapped"), walk(player, "overlapped").steps[3])
    assert "nodes 0, 1 and 2 on worker 0" in central and "Meanwhile 128 bytes are in transit" in central


def test_dots_carry_their_bits_along_cut_edges(player: EpochPlayer) -> None:
    found = walk(player, "two bits")
    at = {step.name: step for step in found.steps}
    _, forward, cursor = changed_traces(found, at["post, layer 1 forward"])
    assert cursor["x"] == [at["post, layer 1 forward"].cursor] * 2
    assert [label for label, _ in row_marks(found)] == ["2b"] * 16
    rows = [number for number, x in enumerate(forward["x"]) if x is not None]
    assert rows == [0, 1, 2, 3] and not any(row_marks(found)[row][1] for row in rows)
    # From 3 at (2.2, 1.8) to 5 at (4.0, 1.4): the first part of the way, and next to the edge.
    assert forward["x"][0] == pytest.approx(2.2 + 1.8 / 8, abs=0.12)
    _, backward, _ = changed_traces(found, at["post, layer 2 backward"])
    rows = [number for number, x in enumerate(backward["x"]) if x is not None]
    assert len(rows) == 4 and all(row_marks(found)[row][1] for row in rows)
    assert backward["x"][rows[0]] == pytest.approx(2.2 + 1.8 / 8, abs=0.12), (
        "the copy of 5 is used at 3, and its gradient returns to 5"
    )
    ring, nothing, _ = changed_traces(found, at["central, layer 1 forward"])
    assert len(ring["x"]) == 6 and set(nothing["x"]) == {None}


def test_lanes_have_every_part_of_every_worker(player: EpochPlayer) -> None:
    found = walk(player, "overlapped")
    shown = draw_epoch_step(found, found.steps[2], dark=True)
    bars = {trace.name: trace for trace in shown.figure.data if trace.type == "bar"}
    for what, label in (("wait", "wait"), ("central", "central rows"), ("reduce", "sum gradients")):
        starts = [step.start for step in found.steps if step.activity == what]
        assert list(bars[label].base) == starts * 2 and set(bars[label].y) == {"worker 0", "worker 1"}
    assert len(bars["bytes under way"].x) == len(found.flights)
    assert shown.frame["bytes"].tolist() == [64, 64] and (shown.frame["took here (ms)"] > 0).all()
    assert shown.frame["modelled (µs)"].tolist() == [1.0, 1.0]


def test_bytes_and_overlap_shorten_the_epoch_on_one_axis(player: EpochPlayer) -> None:
    walks = {way: walk(player, way) for way in WAYS}
    vanilla = walks["vanilla"]
    assert {found.axis_end for found in walks.values()} == {1.05 * vanilla.length}
    assert all(found.length < vanilla.length for way, found in walks.items() if way != "vanilla")
    assert walks["stale"].length < walks["overlapped"].length, "no worker waits"
    # By hand: 2 rows of 8 float32 on a link of 1 byte/µs with 5 µs of latency, of which 1 µs passes while posting.
    at = {step.name: step for step in vanilla.steps}
    assert at["wait, layer 1 forward"].modelled_us == (68.0, 68.0)
    waits = [step for step in walks["two bits"].steps if step.activity == "wait"]
    assert [max(step.modelled_us) for step in waits] == [24.0, 22.0, 22.0, 24.0], "20 and 18 bytes"
    for found in walks.values():
        for step, next_step in itertools.pairwise(found.steps):
            assert next_step.start == step.end
        for flight in found.flights:
            assert flight.end - flight.start >= 5 + flight.rows.num_bytes


def test_the_end_of_vanilla_is_marked_and_compared(player: EpochPlayer) -> None:
    found, vanilla = walk(player, "two bits"), walk(player, "vanilla")
    layout = draw_epoch_step(found, found.steps[0]).figure.layout
    assert [(line.x0, line.line.dash) for line in layout.shapes] == [(found.length, "solid"), (vanilla.length, "dash")]
    percent = round(100 * (1 - found.length / vanilla.length))
    texts = [note.text for note in layout.annotations]
    assert f"2 bits: {found.length:.0f} µs, {percent}\u00a0% sooner" in texts
    assert f"Vanilla: {vanilla.length:.0f} µs" in texts
    assert f"{percent}\u00a0% sooner than Vanilla" in say_step(found, found.steps[-1])
    alone = draw_epoch_step(vanilla, vanilla.steps[0]).figure.layout
    assert [line.x0 for line in alone.shapes] == [vanilla.length]


def test_a_film_plays_without_a_kernel(player: EpochPlayer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = walk(player, "vanilla")
    film = draw_film(found).figure
    assert len(film.frames) == len(found.steps) == len(film.layout.sliders[0].steps)
    assert [film.data[number].name for number in film.frames[0].traces] == ["computes now", "row under way", "now"]
    cursors = [frame.data[2].x[0] for frame in film.frames]
    assert cursors == [round(step.cursor, 3) for step in found.steps]
    monkeypatch.setenv("GNNQLAB_STATIC", "1")
    monkeypatch.setattr("gnnqlab.lab.figures.bundle.svg_of", lambda figure: None)
    outputs, _ = player._repr_mimebundle_()
    assert len(outputs["application/vnd.plotly.v1+json"]["frames"]) == len(found.steps)
    assert "worker 0 encodes rows" in outputs["text/html"].lower()


def test_exported_page_contains_every_way_and_loads_no_external_files(player: EpochPlayer, tmp_path: Path) -> None:
    page = player.export(tmp_path / "new" / "epoch.html").read_text()
    held = light_values(page)["ways"]
    assert set(held) == set(WAYS)
    for name, way in held.items():
        steps = len(walk(player, name).steps)
        assert len(way["words"]) == len(way["frames"]) == len(way["dark"]["titles"]) == len(way["times"]) == steps
        assert len(way["tracks"]) == len(way["frames"][0][1]["x"])
    assert len({way["span"] for way in held.values()}) == 1, "one time axis, and one pace"
    assert "default-src 'none'" in page and 'value="vanilla" checked' in page
    assert not re.search(r"(src|href)=[\"']?http", page) and len(page) < 200_000
    with pytest.raises(ValueError, match=r"must end in \.html, got 'epoch\.mp4'"):
        player.export(tmp_path / "epoch.mp4")


def test_controls_step_switch_and_play(player: EpochPlayer) -> None:
    view = _EpochControls(EpochModel(player.walk.parts, epochs=2))
    assert view.play.max == view.step.max == 28 and view.back.disabled
    view.play.value = 4
    assert view.step.value == 4 and "4 · Waiting for messages" in view.figure.layout["title"]["text"]
    view.way.value = "overlapped"
    assert view.model.step == "central, layer 1 forward" and "Meanwhile 128 bytes" in view.words.value
    view.next.click()
    assert view.step.value == view.play.value == 5
    view.step.value = 28
    assert view.next.disabled


def test_unknown_ways_and_steps_and_unsupported_partitions_raise_errors(player: EpochPlayer) -> None:
    parts = player.walk.parts
    with pytest.raises(ValueError, match="one of vanilla, two bits, overlapped, stale, cached, got 'fast'"):
        gq.course.EpochPlayer(parts, way="fast")
    with pytest.raises(ValueError, match=r"with at least one cut edge, got an edge-cut .* on 1 worker"):
        gq.course.EpochPlayer(gq.partition(course.ten_nodes(), course.Halves(), workers=1))
    with pytest.raises(ValueError, match="got a vertex-cut .* on 2 worker"):
        gq.course.EpochPlayer(gq.partition(course.ten_nodes(), gq.partitioners.EBV(), workers=2))
    with pytest.raises(KeyError, match="a step must be one of start, encode"):
        player["decide"]


def test_error_for_an_invalid_source_names_the_accepted_types() -> None:
    with pytest.raises(TypeError, match=r"needs a run or a partition, got 'a graph'; pass gq.launch"):
        EpochPlayer("a graph")  # type: ignore[arg-type]
