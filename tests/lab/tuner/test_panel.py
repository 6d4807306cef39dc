"""The tuner's controls without a browser: changes, refusals, presets, code, and one figure that follows."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gnnqlab.lab.figures.controls import access_script
from gnnqlab.lab.tuner.controls import control_of
from gnnqlab.lab.tuner.settings import knobs_of
from gnnqlab.lab.tuner.tuner import Tuner
from gnnqlab.lab.tuner.views import CURRENT
from gnnqlab.systems import SYSTEMS
from tests.slow_down import wait_until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def _until(holds: Callable[[], Any]) -> None:
    wait_until(holds, what="the panel follows")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory):
    pytest.importorskip("anywidget")
    folder: Path = tmp_path_factory.mktemp("tuner")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GNNQLAB_STATIC", raising=False)
        patch.setenv("GNNQLAB_RUNS", str(folder / "runs"))
        patch.setenv("GNNQLAB_CACHE", str(folder / "cache"))
        tuner = Tuner("sbm:200,4,8", workers=2, hidden=8, layers=2, link="loopback", measure=False)
        assert tuner.widget is tuner.panel.box
        _until(lambda: tuner.model.is_probed and tuner.model.has_aging)
        yield tuner


@pytest.fixture
def tuner(shown: Tuner) -> Tuner:
    return shown.reset()


def _drawn(tuner: Tuner) -> float:
    return tuner.panel.figure.data[CURRENT]["customdata"][0]


def test_a_slider_moves_the_box_the_model_and_the_figure(tuner: Tuner) -> None:
    lam = tuner.panel.controls["lam"]
    lam.slider.value = 0.25
    assert tuner.model.settings.lam == 0.25 and lam.box.value == 0.25
    _until(lambda: _drawn(tuner) == 0.25)
    assert "predicted" in tuner.panel.words.value and "sbm" in tuner.panel.title.value


def test_a_typed_value_is_exact_where_the_slider_has_steps(tuner: Tuner) -> None:
    group = tuner.panel.controls["group_size"]
    group.box.value = 37
    assert tuner.model.settings.group_size == 37 and round(group.slider.value) == 37
    group.slider.value = 10.0
    assert tuner.model.settings.group_size == 10 and group.box.value == 10


def test_a_bad_value_is_refused_beside_its_control(tuner: Tuner) -> None:
    period, lam = tuner.panel.controls["period"], tuner.panel.controls["lam"]
    period.box.value = 0
    assert "Period must lie in [1, 200], got 0" in period._note.value and 'role="alert"' in period._note.value
    assert period._note.layout.display is None and not lam._note.value
    assert tuner.model.settings.period == 50 and period.box.value == 0
    assert tuner.panel.train.disabled and "Period" in tuner.panel.train.tooltip, (
        "the settings on the screen are not those of a run"
    )
    assert "#d55e00" in period._row.layout.border != lam._row.layout.border
    lam.slider.value = 0.4
    assert not period._note.value and period.box.value == 50, "the next valid change removes the message"
    _until(lambda: not tuner.panel.train.disabled)
    for width in (2, 4, 8):
        tuner.panel.controls["bit_widths"].boxes[width].value = False
    assert (
        "some of (1, 2, 4, 8), got an empty choice; tick at least one" in tuner.panel.controls["bit_widths"]._note.value
    )
    assert tuner.model.settings.bit_widths == (8,)


def test_presets_are_taken_and_recognised(tuner: Tuner) -> None:
    panel = tuner.panel
    assert panel.preset.value == "AdaQP"
    panel.preset.value = "always 2 bits"
    assert tuner.model.settings.bit_widths == (2,) and not panel.controls["bit_widths"].boxes[8].value
    panel.controls["lam"].slider.value = 0.1
    assert panel.preset.value == "as set"
    panel.reset.click()
    assert tuner.model.settings == tuner.model.initial and panel.controls["lam"].slider.value == 0.5


def test_every_system_has_the_controls_of_its_recipe(tuner: Tuner) -> None:
    panel = tuner.panel
    shared = {"system", "workers", "model", "layers", "hidden", "link"}
    for name in sorted(SYSTEMS):
        panel.controls["system"].list.value = name
        assert set(panel.controls) - shared == {k for k, knob in tuner.model.settings.knobs.items() if knob.setting}
        widgets = [panel.controls["system"].widget, *(panel.controls[each].widget for each in panel._own)]
        assert list(panel.own.children) == widgets + [panel._presets] * (name in ("adaqp", "adaqp-q", "adaqp-r"))
        _until(
            lambda: f"predicted {tuner.model.speedup[0]:.2f}×" in panel.words.value and not panel.updater.is_requested
        )
    assert panel.controls["bit_widths"].boxes.keys() == {1, 2, 4, 8, 16, 32}, "VARCO's plan ends in float32"


def test_slider_checkbox_and_list_set_the_settings_of_the_system(tuner: Tuner) -> None:
    tuner.choose(system="pipegcn")
    smoothing = tuner.panel.controls["feature_smoothing"]
    smoothing.slider.value = 0.5
    assert tuner.config.system.schedule.feature_smoothing == 0.5
    smoothing.slider.value = 1.0
    assert "Feature smoothing must lie in [0, 1), got 1.0" in smoothing._note.value
    tuner.choose(system="adaqp-q")
    tuner.panel.controls["as_released"].box.value = True
    tuner.panel.controls["when"].list.value = "blocking"
    bits = tuner.config.system.bits
    assert (bits.as_released, bits.when) == (True, "blocking")
    assert "as_released=True" in tuner.to_code() and "parameters" not in tuner.to_code()


def test_words_in_place_of_numbers_are_refused_and_train_waits(tuner: Tuner) -> None:
    tuner.choose(system="sylvie")
    thresholds, before = tuner.panel.controls["thresholds"], tuner.model.settings
    thresholds.box.value = "nine tenths"
    assert "Thresholds must be numbers separated by commas, got &#x27;nine tenths&#x27;" in thresholds._note.value
    assert tuner.panel.train.disabled and "Thresholds" in tuner.panel.train.tooltip
    assert tuner.model.settings == before
    thresholds.box.value = "0.5, 0.75, 0.875"
    assert not thresholds.is_refused
    _until(lambda: not tuner.panel.train.disabled)


def test_python_moves_the_controls_too(tuner: Tuner) -> None:
    tuner.choose(lam=0.75, period=9)
    assert tuner.panel.controls["lam"].slider.value == 0.75 and tuner.panel.controls["period"].box.value == 9
    _until(lambda: _drawn(tuner) == 0.75)


def test_the_code_is_shown_and_hidden(tuner: Tuner) -> None:
    panel = tuner.panel
    assert panel.code.layout.display == "none"
    panel.show_code.click()
    tuner.choose(lam=0.125)
    _until(lambda: "lam=0.125" in panel.code.value)
    panel.show_code.click()
    assert panel.code.layout.display == "none"


def test_a_link_of_any_rate_is_typed(tuner: Tuner) -> None:
    link = tuner.panel.controls["link"]
    link.box.value = " 25mbit "
    assert tuner.model.settings.link == link.list.value == link.box.value == "25mbit"
    link.box.value = "fast"
    assert "got" in link._note.value and tuner.model.settings.link == "25mbit" and tuner.panel.train.disabled
    link.list.value = "loopback"
    assert not link._note.value and link.box.value == "loopback"


def test_the_code_has_a_button_that_copies_it(tuner: Tuner) -> None:
    panel = tuner.panel
    panel.show_code.click()
    _until(lambda: "gq.launch" in panel.code.value)
    name = re.search(r"<pre id='([^']+)'", panel.code.value)
    assert name and f"data-copy='{name[1]}'" in panel.code.value
    assert "button[data-copy]" in access_script()
    panel.show_code.click()


def test_recommend_shows_the_ranking_of_the_same_place(tuner: Tuner) -> None:
    panel = tuner.panel
    panel.recommend.click()
    _until(lambda: panel.advice.layout.display is None)
    assert tuner.recommend().reason in html.unescape(panel.advice.value) and "vanilla" in panel.advice.value
    tuner.choose(lam=0.9)
    assert panel.advice.layout.display is None, "λ is no part of the place"
    tuner.choose(hidden=16)
    assert panel.advice.layout.display == "none"


def test_a_dark_page_gets_a_dark_figure_of_the_same_values(tuner: Tuner) -> None:
    _until(lambda: _drawn(tuner) == tuner.model.settings.lam)  # figures follow a moment after knobs are reset
    before, ground = _drawn(tuner), tuner.panel.figure.layout["paper_bgcolor"]
    tuner.panel.access.dark = True
    assert tuner.panel.figure.layout["paper_bgcolor"] != ground and _drawn(tuner) == before
    tuner.panel.access.dark = False
    assert tuner.panel.figure.layout["paper_bgcolor"] == ground


def test_every_control_has_a_description_and_a_tooltip(tuner: Tuner) -> None:
    for name, control in tuner.panel.controls.items():
        parts = [part for part in (getattr(control, kind, None) for kind in ("slider", "box", "list")) if part]
        parts += getattr(control, "boxes", {}).values()
        assert parts and all(part.description and part.tooltip == control.knob.help for part in parts)
        assert name == "system" or control.knob == tuner.model.settings.knobs[name]
    for button in (tuner.panel.train, tuner.panel.stop, tuner.panel.reset, tuner.panel.show_code):
        assert button.description and len(button.tooltip) > 15


def test_error_of_train_is_shown_and_the_panel_stays_usable(tuner: Tuner, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("no room on the <disk>")

    monkeypatch.setattr(tuner.session, "train", refuse)
    tuner.panel.train.click()
    _until(lambda: "no room on the &lt;disk&gt;" in tuner.panel.status.value)
    _until(lambda: not tuner.panel.train.disabled and tuner.panel.stop.disabled)  # after the message
    tuner.panel.controls["lam"].slider.value = 0.3
    _until(lambda: _drawn(tuner) == 0.3 and "no room" not in tuner.panel.status.value)


def test_several_numbers_are_typed_with_commas_between() -> None:
    asked: list[tuple[str, Any]] = []
    knob = knobs_of("sylvie")["thresholds"]
    control = control_of("thresholds", knob, (0.5, 0.75), lambda name, value: asked.append((name, value)))
    assert control.box.value == "0.5, 0.75"
    control.box.value = "0.9, 0.95,0.99"
    assert asked == [("thresholds", (0.9, 0.95, 0.99))]
    control.box.value = "nine tenths"
    assert asked[1:] == [("thresholds", "nine tenths")], "refused like every other wrong value"
    control.show((0.1, 0.2))
    assert control.box.value == "0.1, 0.2" and len(asked) == 2


def test_train_offers_slurm_only_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget")
    monkeypatch.delenv("GNNQLAB_STATIC", raising=False)
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if name == "sbatch" else None)
    settings = {"workers": 2, "hidden": 8, "layers": 2, "link": "loopback", "measure": False}
    with_slurm = Tuner("sbm:200,4,8", **settings)
    _until(lambda: with_slurm.panel.updater and with_slurm.model.is_probed)
    [choice] = with_slurm.panel.place_choice
    choice.value = "SLURM"
    assert with_slurm.session.in_queue
    choice.value = "this machine"
    assert not with_slurm.session.in_queue
    monkeypatch.setattr("shutil.which", lambda name: None)
    without = Tuner("sbm:200,4,8", **settings)
    assert without.panel.place_choice == []
    _until(lambda: without.model.is_probed)
