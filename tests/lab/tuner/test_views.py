"""The tuner's figure as dictionaries: its contents, changes of values only, light and dark."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from gnnqlab.lab.figures import bundle
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.tuner.views import CURRENT, Measurement, TunerNumbers, draw_tuner, values

PHASES = {"central": 0.004, "dense": 0.002, "encode": 0.001, "wire": 0.003}
SHOWN = TunerNumbers(
    lams=(0.0, 0.5, 1.0),
    front_s=(0.010, 0.012, 0.020),
    front_variance=(30.0, 3.0, 0.0),
    lam=0.5,
    epoch_s=0.012,
    variance=3.0,
    pair_bits=np.array([[np.nan, 2.5], [8.0, np.nan]]),
    rows={2: 30, 4: 10, 8: 60},
    vanilla={**PHASES, "wire": 0.030},
    phases=PHASES,
    bounds={0: 1e-3, 1: 2e-3, 2: 0.0},
    caption="All of it.",
)


def _colourless(what):
    if isinstance(what, dict):
        return {name: _colourless(value) for name, value in what.items() if "color" not in name}
    return [_colourless(value) for value in what] if isinstance(what, list | tuple) else what


def _by_kind(figure, kind):
    return [trace for trace in figure.to_dict()["data"] if trace["type"] == kind]


def test_tuner_figure_draws_the_given_predictions() -> None:
    figure = draw_tuner(SHOWN)
    front, here = figure.to_dict()["data"][: CURRENT + 1]
    assert list(front["x"]) == pytest.approx([10, 12, 20]) and front["y"] == [30.0, 3.0, None], (
        "a logarithm has no zero"
    )
    assert list(here["x"]) == [12.0] and here["customdata"] == [0.5] and here["text"] == ["current"]
    (pairs,) = _by_kind(figure, "heatmap")
    assert pairs["z"] == [[None, 2.5], [8.0, None]] and pairs["text"] == [["", "2.5"], ["8.0", ""]]
    bars = _by_kind(figure, "bar")
    assert bars[0]["x"] == ["1", "2", "4", "8"] and bars[0]["y"] == [0.0, 30.0, 10.0, 60.0]
    assert bars[-1]["x"] == ["1", "2"] and bars[-1]["y"] == [1e-3, 2e-3]
    wait = next(bar for bar in bars if bar.get("name") == "wait for messages")
    assert wait["y"] == ["Vanilla", "predicted"] and wait["x"] == pytest.approx([30, 3])
    stacked = [bar["x"][1] for bar in bars if bar.get("legendgroup") == "phases"]
    assert sum(stacked) == pytest.approx(1e3 * sum(PHASES.values()))


def test_axes_have_titles_with_units_and_the_figure_has_a_caption() -> None:
    layout = draw_tuner(SHOWN).to_dict()["layout"]
    titles = {name: axis["title"]["text"] for name, axis in layout.items() if "axis" in name and axis["title"]}
    assert len(titles) == 12 and titles["xaxis"] == "predicted epoch (ms)"
    assert titles["yaxis3"] == "rows per epoch (%)"
    assert layout["meta"] == {"caption": "All of it."}


def test_traces_differ_in_pattern_or_line_style_and_not_only_in_colour() -> None:
    figure = draw_tuner(SHOWN).to_dict()
    phases = [trace for trace in figure["data"] if trace.get("legendgroup") == "phases"]
    looks = {(phase["marker"]["color"], phase["marker"]["pattern"]["shape"]) for phase in phases}
    assert len(looks) == len(phases) and all(phase["name"] for phase in phases)
    assert len({phase["marker"]["pattern"]["shape"] for phase in phases}) > 5
    measured, predicted = figure["data"][-2:]
    assert measured["mode"] == "markers" and predicted["line"]["dash"] == "dash"


def test_a_move_changes_values_only() -> None:
    pytest.importorskip("anywidget")
    view = FigureView(draw_tuner(TunerNumbers()))
    assert len(view.data) == len(values(SHOWN))
    moved = replace(SHOWN, lam=1.0, epoch_s=0.020, caption="Moved.")
    view.change(values(moved), caption=moved.caption)
    assert view.data[CURRENT]["customdata"] == [1.0] and view.data[CURRENT]["textposition"] == "middle left"
    drawn = json.loads(draw_tuner(moved).to_json())
    assert (shown := json.loads(view.spec))["data"] == drawn["data"] and shown["layout"] == drawn["layout"]


def test_measured_epochs_are_drawn_with_the_predicted_epoch() -> None:
    many = tuple(range(1000))
    measured = Measurement(epochs=many, epoch_s=tuple(0.01 for _ in many), phases={**PHASES, "wire": 0.004})
    figure = draw_tuner(replace(SHOWN, measurement=measured)).to_dict()
    dots, line = figure["data"][-2:]
    assert 300 <= len(dots["x"]) < 1000, "thinned out" and dots["y"][0] == pytest.approx(10)
    assert line["y"] == [12.0, 12.0] and line["x"] == [0, 999]
    wait = next(trace for trace in figure["data"] if trace.get("name") == "wait for messages")
    assert wait["y"] == ["Vanilla", "predicted", "measured"] and wait["x"][2] == pytest.approx(4)


def test_epoch_panel_has_a_hint_until_measured_epochs_exist() -> None:
    dots, line = draw_tuner(SHOWN).to_dict()["data"][-2:]
    assert not list(dots["x"]) and line["y"] == [12.0] * 3 and "mode" in line and "text" in line["mode"]
    assert "".join(line["text"]).startswith("<br>predicted: 12 ms<br>Train shows measured")
    (dots, line) = draw_tuner(replace(SHOWN, measurement=Measurement(epochs=(1,), epoch_s=(0.01,)))).to_dict()["data"][
        -2:
    ]
    assert list(dots["x"]) == [1] and not any(line["text"])


def test_light_and_dark_differ_in_colours_only() -> None:
    light, dark = draw_tuner(SHOWN), draw_tuner(SHOWN, dark=True)
    assert light.layout.paper_bgcolor != dark.layout.paper_bgcolor
    assert light.data[0].line.color != dark.data[0].line.color
    assert _colourless(light.to_dict()) == _colourless(dark.to_dict())


def test_without_a_kernel_a_picture_shows(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    from gnnqlab.lab.tuner.tuner import Tuner

    monkeypatch.setenv("GNNQLAB_STATIC", "1")
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(bundle, "svg_of", lambda figure: "<svg/>")
    tuner = Tuner("sbm:200,4,8", workers=2, hidden=8, layers=2, link="loopback", measure=False)
    outputs, metadata = tuner._repr_mimebundle_()
    assert "image/svg+xml" in outputs and "application/vnd.jupyter.widget-view+json" not in outputs
    assert "× Vanilla" in metadata["image/svg+xml"]["alt"] and "TunerSettings" in repr(tuner)
    assert tuner.bits == tuner.forecast.rows and tuner.config.workers == 2
    assert tuner.preset("fastest").model.settings.lam == 0 and tuner.reset().model.settings.lam == 0.5


def test_words_of_the_panel_beside_have_room_from_the_bar_of_colours() -> None:
    figure = draw_tuner(TunerNumbers())
    bar = next(trace for trace in figure.data if trace.type == "heatmap").colorbar
    assert figure.layout.xaxis2.domain[1] < bar.x < figure.layout.xaxis3.domain[0] - 0.12
    title = next(each for each in figure.layout.annotations if each.text == "Bits from worker to worker")
    assert title.x == sum(figure.layout.xaxis2.domain) / 2
