"""Errors of predictions are told as their median and their worst, beside what the machine itself varies by."""

from __future__ import annotations

import pytest

from gnnqlab.bench import predict
from gnnqlab.bench.predict import error_rows


def test_errors_are_sizes():
    median, worst = error_rows([0.05, -0.30, 0.10], [0.04])
    assert (median["value"], median["rival_value"], median["reached"]) == (0.10, 0.10, True)
    assert (worst["value"], worst["reached"]) == (0.30, False) and worst["ratio"] == pytest.approx(0.25 / 0.30)
    assert "3 random settings; Vanilla measured twice differs by 4.0%" in median["case"]


def test_a_place_is_probed_once_and_its_settings_are_run(monkeypatch):
    """Everything but the runs themselves: what was measured is what was predicted, a tenth longer."""
    asked = []

    class Forecast:
        epoch_s = 1.0

    class Probe:
        vanilla = Forecast()

        def forecast(self, **settings):
            asked.append(settings)
            return Forecast()

    class Spent:
        epoch_s = 1.1

    monkeypatch.setattr("gnnqlab.tune.probe.probe", lambda *_, **settings: Probe())
    monkeypatch.setattr("gnnqlab.launch.start.launch", lambda graph, **settings: None)
    monkeypatch.setattr("gnnqlab.tune.timing.spent", lambda run, quantile: Spent())
    monkeypatch.setattr("gnnqlab.launch.emulated.available", lambda: "not tried")
    rows = predict.predict(epochs=6)
    assert len(rows) == predict.PLACES * predict.SETTINGS + 2 and len(asked) == len(rows) - 2
    assert {"system", "lam", "group_size"} == set(asked[0])
    assert rows[-1]["value"] == pytest.approx(1 - 1 / 1.1) and rows[-1]["reached"]
    assert rows == predict.predict(epochs=6)  # the draw is seeded
