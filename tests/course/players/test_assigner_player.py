"""The player of an assignment: its numbers, its steps without a screen, its controls without a browser."""

import numpy as np
import pytest
import torch

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.bits.assigner.reference import brute_force
from gnnqlab.course.players.assigner_player import AssignerModel, AssignerPlayer
from gnnqlab.course.players.assigner_views import ASSIGNER_STEPS, draw_assignment
from gnnqlab.course.players.assigner_walk import AssignerWalk
from gnnqlab.course.players.stepped import draw_step
from gnnqlab.lab.figures.graph_drawing import draw_bits
from gnnqlab.partition.parts import Parts
from tests.cases import each


@pytest.fixture(scope="module")
def parts() -> Parts:
    return gq.partition(course.ten_nodes(), course.Halves(), workers=2)


@pytest.fixture(scope="module")
def player(parts: Parts) -> AssignerPlayer:
    return AssignerPlayer(parts, hidden=8, layers=2, layer=0, group_size=1, link="1mbit")


@pytest.fixture
def walk(player: AssignerPlayer) -> AssignerWalk:
    return player.walk.with_changes(lam=0.5)


def test_beta_equals_the_equation_computed_from_edges(walk: AssignerWalk, parts: Parts) -> None:
    frame = walk.to_frame()
    shard = parts.shards[1]
    use = {3: 0.0, 4: 0.0}
    targets = torch.repeat_interleave(torch.arange(shard.num_owned), shard.indptr.diff())
    for _, column, alpha in zip(targets.tolist(), shard.indices.tolist(), shard.alpha("symmetric").tolist()):
        if column >= shard.num_owned:
            use[int(shard.halo[column - shard.num_owned])] += alpha**2
    assert frame["use"].to_dict() == pytest.approx(use)
    assert frame["beta"].tolist() == pytest.approx((frame["use"] * 8 * frame["range"] ** 2 / 6).tolist())


def test_groups_fall_in_beta(walk: AssignerWalk) -> None:
    frame = walk.to_frame().sort_values("group")
    assert frame["beta"].is_monotonic_decreasing and frame["group"].tolist() == [0, 1]


def test_nodes_are_named_where_names_have_room(walk: AssignerWalk) -> None:
    few = draw_assignment(walk).figure
    assert list(few.data[0].x) == ["3", "4"] and few.layout.xaxis.title.text == "node, in wire order"
    assert list(few.data[1].text) == [" node 3 ", " node 4 "]
    assert list(few.data[1].textposition) == ["middle left", "middle right"], "row 3 has the wider range"
    graph = gq.load("sbm:60,3,6")
    parts = gq.partition(graph, gq.partitioners.Random(), workers=2)
    more = AssignerPlayer(parts, hidden=8, layers=2, layer=0, group_size=10, link="1mbit").walk
    assert more.message.num_rows > 16
    many = draw_assignment(more).figure
    assert many.data[1].text is None and many.layout.xaxis.title.text == "row, in wire order"


@each("lam", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_widths_are_the_best_there_are(walk: AssignerWalk, lam: float) -> None:
    there = walk.with_changes(lam=lam)
    assert there.solution.objective == pytest.approx(brute_force(there.problem).objective, abs=1e-12)
    assert set(np.concatenate(there.widths).tolist()) <= {2, 4, 8}
    if lam in (0.0, 1.0):
        assert set(np.concatenate(there.widths).tolist()) == {2 if lam == 0 else 8}


def test_the_bit_map_takes_the_widths(walk: AssignerWalk, parts: Parts) -> None:
    widths = walk.widths_by_row()
    assert sorted(widths) == [(0, 5), (0, 7), (1, 3), (1, 4)]
    assert draw_bits(parts, widths).frame["bits"].tolist() == [widths[0, 5], widths[0, 7], widths[1, 3], widths[1, 4]]
    back = walk.with_changes(direction="backward").widths_by_row()
    assert sorted(back) == sorted(widths), "gradients return from the workers with the copies"


def test_steps_are_in_their_order() -> None:
    assert list(ASSIGNER_STEPS) == ["trace", "beta", "groups", "cost", "problem", "widths"]


@each("name", list(ASSIGNER_STEPS))
def test_every_step_has_axes_caption_and_numbers(player: AssignerPlayer, name: str) -> None:
    shown = player[name]
    layout = shown.figure.layout
    assert layout.xaxis.title.text and layout.yaxis.title.text
    assert len(layout.meta["caption"]) > 40 and len(shown.frame) >= 2


def test_cost_step_shows_the_milliseconds_of_the_link(walk: AssignerWalk) -> None:
    # 2 rows of 8 elements: 2 bytes and two float32 in 2 bits, over 1 Mbit/s of which 97 % is for rows.
    frame = draw_step(ASSIGNER_STEPS, walk, "cost").frame
    assert frame.loc["0 → 1", "ms in 2 bits"] == pytest.approx(1e3 * 2 * 10 * 8 / 0.97e6)


def test_wrong_values_are_refused(player: AssignerPlayer, parts: Parts) -> None:
    with pytest.raises(ValueError, match="lam must lie in"):
        player.walk.with_changes(lam=2.0)
    with pytest.raises(ValueError, match="a message must be one that was traced"):
        player.walk.with_changes(sender=1, receiver=1)
    with pytest.raises(ValueError, match="a step must be one of"):
        player["pack"]
    probe = gq.probe("sbm:60,3,6", hidden=8, layers=2, launched=False, epochs=4, link="1mbit", hosts=2, theorem=False)
    with pytest.raises(ValueError, match=r"a probe has its trace and its link already, got \['hidden', 'link'\]"):
        AssignerPlayer(probe, link="2mbit", hidden=8)
    assert AssignerPlayer(probe).walk.wire is probe.wire


def test_all_steps_at_once(walk: AssignerWalk) -> None:
    shown = draw_assignment(walk, dark=True)
    titles = [note.text for note in shown.figure.layout.annotations]
    assert titles[0].startswith("1 · ") and titles[-1].startswith("6 · ")
    assert {trace.name for trace in shown.figure.data if trace.xaxis == "x4"} == {"2 bits", "4 bits", "8 bits"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ipywidgets")
def test_controls_move_the_model_and_the_figure(player: AssignerPlayer, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget")
    monkeypatch.delenv("GNNQLAB_STATIC", raising=False)
    from gnnqlab.course.players.assigner_player import _AssignerControls

    view = _AssignerControls(AssignerModel(player.walk))
    assert view.back.disabled and view.figure.layout["title"]["text"].startswith("1 · ")
    for _ in range(5):
        view.next.click()
    assert view.next.disabled and view.figure.layout["title"]["text"].startswith("6 · ")
    view.lam.value = 0.0
    assert view.model.walk.settings.lam == 0.0 and "2 rows in 2 bits" in view.words.value
    view.message.value = (1, "backward", 1, 0)
    assert view.model.walk.place == (1, "backward") and view.model.walk.sender == 1
    assert view.model.to_code().startswith(
        "gq.course.AssignerPlayer(source, lam=0, group_size=1, bit_widths=(2, 4, 8), layer=1"
    )
