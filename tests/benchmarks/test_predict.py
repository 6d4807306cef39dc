"""Errors of predictions: their median and their maximum, with the variation of the machine itself."""

from __future__ import annotations

import pytest

from benchmarks.studies import predict
from benchmarks.studies.predict import error_rows
from gnnqlab.systems import SYSTEMS


def test_errors_are_sizes():
    median, worst = error_rows([0.05, -0.30, 0.10], [0.04])
    assert (median["value"], median["rival_value"], median["reached"]) == (0.10, 0.10, True)
    assert (worst["value"], worst["reached"]) == (0.30, False) and worst["ratio"] == pytest.approx(0.25 / 0.30)
    assert "3 random settings; Vanilla measured twice differs by 4.0%" in median["case"]


def test_a_place_is_probed_once_and_its_settings_are_run(monkeypatch):
    """Replace everything but the runs: each measured value is the predicted one, a tenth longer."""
    asked = []

    class Forecast:
        epoch_s = 1.0

    class Probe:
        vanilla = Forecast()

        def forecast(self, **settings):
            asked.append(settings)
            return Forecast()

    class EpochTime:
        epoch_s = 1.1

    monkeypatch.setattr("gnnqlab.tune.probe.probe", lambda *_, **settings: Probe())
    monkeypatch.setattr("gnnqlab.launch.start.launch", lambda graph, **settings: None)
    monkeypatch.setattr("gnnqlab.tune.timing.read_epoch_time", lambda run, quantile: EpochTime())
    monkeypatch.setattr("gnnqlab.launch.emulated.available", lambda: "not tried")
    rows = predict.predict(epochs=6)
    random, systems = predict.PLACES * predict.SETTINGS, len(SYSTEMS)
    numbers = sorted({workers for workers, _ in predict.SHAPES})  # without links, places do not differ by their hosts
    assert numbers == [2, 3, 4, 8]
    assert len(rows) == random + len(numbers) * (systems + 2) + 2
    assert len(asked) == random + len(numbers) * 3 * systems
    assert {"system", "lam", "group_size"} == set(asked[0])
    assert [each["case"].split(":")[0] for each in rows[random : random + systems]] == sorted(SYSTEMS)
    assert asked[random:][:3] == [{"system": "adaqp", "epoch": epoch} for epoch in (3, 4, 5)]
    assert {"system": "sylvie", "epoch": 3, "delta": 6} in asked, "its base width stays at the first value"
    assert rows[random]["value"] == 1.0 and rows[random]["rival_value"] == 1.1
    assert [each["figure"] for each in rows[-4:-2]] == ["median relative error", "worst relative error"]
    assert [each["value"] for each in rows[-4:-2]] == pytest.approx([1 - 1 / 1.1] * 2)
    assert rows[-1]["value"] == pytest.approx(1 - 1 / 1.1) and rows[-1]["reached"]
    assert rows == predict.predict(epochs=6)  # the draw is seeded


def test_systems_are_predicted_on_as_many_hosts_as_workers_and_on_two_tiers(monkeypatch):
    """A system without a prediction is refused by its name, with the reason, and is not run."""
    placed, ran = [], []

    def probed(place, epochs):
        placed.append((place["workers"], place.get("hosts"), place.get("link")))

        class Probe:
            def forecast(self, *, system, **settings):
                if system == "sylvie":
                    raise ValueError("bits must say what they predict")
                return type("Forecast", (), {"epoch_s": 2.0})

        return Probe(), lambda system, **choice: ran.append(system) or 1.6

    monkeypatch.setattr(predict, "_probed", probed)
    monkeypatch.setattr("gnnqlab.launch.emulated.available", lambda: None)
    rows = predict.predict(epochs=5, workers=(3, 4), systems=("vanilla", "sylvie"), link="50mbit")
    assert placed == [(3, 3, "50mbit"), (4, 4, "50mbit"), (4, 2, "50mbit")] and ran == ["vanilla"] * 3
    assert [each["value"] for each in rows[:2]] == [2.0, None]
    assert rows[1]["case"].startswith("sylvie: ") and rows[1]["figure"] == (
        "not predicted: bits must say what they predict"
    )
    assert [each["value"] for each in rows[2:4]] == pytest.approx([0.25, 0.25])
    assert predict.predict(epochs=5, hosts=2, workers=(4,), systems=("vanilla",)) and placed[-1][:2] == (4, 2)
