"""The message player: its model without a screen, its controls without a browser."""

import pytest
import torch

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.course.experiments.real_message import RealMessage
from gnnqlab.course.players.message_player import MessagePlayer, PlayerModel
from gnnqlab.course.players.message_views import STEPS
from gnnqlab.course.players.message_walk import MessageWalk
from gnnqlab.lab.figures import bundle

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ipywidgets")


@pytest.fixture
def message() -> RealMessage:
    rows = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    return RealMessage(rows, torch.tensor([3, 5, 8, 9]), 0, 1, layer=1, epoch=0, seed=0)


def test_steps_go_forward_and_back_and_end(message: RealMessage) -> None:
    model = PlayerModel(message)
    seen = [model.step]
    while model.next_step():
        seen.append(model.step)
    assert seen == list(STEPS) and not model.next_step()
    assert model.previous_step() and model.step == seen[-2]
    with pytest.raises(ValueError, match="steps are numbered from 1 to 6, got 7"):
        model.go(7)


def test_a_change_keeps_the_noise_and_a_draw_keeps_the_choice(message: RealMessage) -> None:
    model = PlayerModel(message, bits=4, node=8)
    before = model.walk.noise
    model.change(bits=2)
    assert (model.walk.node, model.walk.bits) == (8, 2) and torch.equal(model.walk.noise, before)
    model.draw_again()
    assert (model.walk.node, model.walk.bits, model.walk.draw) == (8, 2, 1)
    assert not torch.equal(model.walk.noise, before)


def test_displayed_values_are_those_decoded_by_the_codec(message: RealMessage) -> None:
    model = PlayerModel(message, bits=2, node=5)
    model.go(6)
    expected = MessageWalk.from_message(message, bits=2, node=5).decoded
    assert model.bundle().frame["decoded"].tolist() == expected.tolist()


def test_a_partition_brings_its_own_message() -> None:
    parts = gq.partition(course.ten_nodes(), course.Halves(), workers=2)
    player = MessagePlayer(parts, bits=1, hidden=8, epochs=3)
    assert player.walk.message.ids.tolist() == [3, 4] and player.walk.row.numel() == 8
    assert "worker 0 to worker 1" in repr(player) and repr(player).endswith("in 1 bit)")
    with pytest.raises(ValueError, match=r"takes no settings, got \['hidden'\]"):
        MessagePlayer(player.model.message, hidden=8)


def test_without_a_kernel_the_whole_walk_shows(message: RealMessage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNNQLAB_STATIC", "1")
    monkeypatch.setattr(bundle, "svg_of", lambda figure: "<svg/>")
    outputs, metadata = MessagePlayer(message)._repr_mimebundle_()
    assert "image/svg+xml" in outputs and "application/vnd.jupyter.widget-view+json" not in outputs
    assert "times fewer" in metadata["image/svg+xml"]["alt"]


@pytest.fixture
def view(message: RealMessage, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("anywidget")
    monkeypatch.delenv("GNNQLAB_STATIC", raising=False)
    from gnnqlab.course.players.message_player import _MessageControls

    return _MessageControls(PlayerModel(message, bits=2, node=3))


def test_controls_move_the_model_and_the_figure(view) -> None:
    assert view.back.disabled and view.figure.layout["title"]["text"].startswith("1 · ")
    view.next.click()
    view.next.click()
    assert view.model.step == "round" and view.figure.layout["title"]["text"].startswith("3 · ")
    view.bits.value = 8
    assert view.model.walk.bits == 8 and "Element" in view.words.value
    view.row.value = 9
    assert view.model.walk.node == 9
    view.again.click()
    assert view.model.walk.draw == 1
    view.step.value = 6
    assert view.next.disabled and len(view.figure.data) == len(view.model.bundle().figure.data)


def test_every_control_has_a_description_and_a_tooltip(view) -> None:
    for control in (view.step, view.back, view.next, view.bits, view.row, view.again):
        assert control.description
    for control in (view.step, view.back, view.next, view.row, view.again):
        assert len(control.tooltip) > 8


def test_a_dark_page_gets_dark_figures(view) -> None:
    light = view.figure.layout["paper_bgcolor"]
    view.access.dark = True
    assert view.figure.layout["paper_bgcolor"] != light
