"""The tuner without a screen: knobs, refusals, predictions from a probe, and code for the same run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.lab.tuner.settings import PLACE, PRESETS, TunerSettings, knobs_of
from gnnqlab.lab.tuner.tiles import tiles_html
from gnnqlab.lab.tuner.views import TunerNumbers
from gnnqlab.systems import SYSTEMS, System, make_system, register_system
from gnnqlab.systems.settings import settings_of
from gnnqlab.tune.probe import LAMS
from tests.cases import each
from tests.slow_down import HANG_S
from tests.steps import steps


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory):
    """Without stored timings or past runs, so that every second is the same estimate on every machine."""
    folder = tmp_path_factory.mktemp("tuner")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GNNQLAB_RUNS", str(folder / "runs"))
        patch.setenv("GNNQLAB_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="module")
def known(home: Path) -> TunerModel:
    model = TunerModel("digits", workers=2, hidden=32, link="100mbit", epochs=7)
    model.find_probe()
    return model


@pytest.fixture
def model(known: TunerModel) -> TunerModel:
    known.reset()
    return known


@each(
    ("wrong", "kind", "reason"),
    [
        ({"lam": 1.5}, ValueError, r"lam must lie in \[0, 1\], got 1.5"),
        ({"lam": "much"}, TypeError, "lam must be a number, got 'much'"),
        ({"group_size": 0}, ValueError, r"group_size must lie in \[1, 1000\], got 0"),
        ({"period": 2.5}, TypeError, "period must be a whole number, got 2.5"),
        ({"bit_widths": ()}, ValueError, "bit_widths must be some of .* tick at least one"),
        ({"bit_widths": (5,)}, ValueError, "widths to choose from must be among"),
        ({"workers": 1}, ValueError, r"workers must lie in \[2, 8\], got 1"),
        ({"workers": 3}, ValueError, "workers must be even on 2 hosts, got 3; or choose link loopback"),
        ({"model": "mlp"}, ValueError, "model must be one of"),
        ({"link": "fast"}, ValueError, "link must be a number with kbit, mbit or gbit"),
        ({"speed": 3}, ValueError, r"knobs must be some of .*, got \['speed'\]"),
    ],
)
def test_invalid_setting_raises_an_error_and_leaves_settings_unchanged(
    model: TunerModel, wrong: dict[str, Any], kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        model.choose(period=10, **wrong) if "period" not in wrong else model.choose(**wrong)
    assert model.settings == model.initial


def test_every_knob_has_a_label_and_help_text() -> None:
    assert set(PLACE) | {"system", "system_settings"} == set(TunerSettings.__dataclass_fields__)
    for system, recipe in SYSTEMS.items():
        knobs = TunerSettings(system=system).knobs
        assert [knob.setting for knob in knobs_of(system).values()] == [each.name for each in settings_of(recipe)]
        assert all(knob.label and len(knob.help) > 20 for knob in knobs.values())


ASSIGNING = ("adaqp", "adaqp-q", "adaqp-r")


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_every_system_is_offered_and_predicted(model: TunerModel, system: str) -> None:
    model.choose(lam=0.25)
    now = model.choose(system=system)
    assert model.config.system == replace(make_system(system, **now.system_settings), name=system)
    assert model.forecast.bytes_sent == model.find_probe().forecast(system=system, **now.system_settings).bytes_sent
    assert (now.assigns, model.forecast.lam) == ((True, 0.25) if system in ASSIGNING else (False, None))
    assert "× Vanilla" in model.sentence and all(each in model.sentence for each in model.forecast.assumes)
    assert len(model.front) == len(LAMS) and (model.has_aging or now.assigns)
    assert f"system='{system}'" in model.to_code()


def test_tuner_model_probes_once_for_three_threads(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, together = [], threading.Barrier(3)

    def make(*args: Any, **settings: Any) -> Any:
        made.append(gq.probe(*args, **settings))
        return made[-1]

    model = TunerModel("sbm:60,3,8", workers=2, layers=2, hidden=8, link="loopback", make_probe=make)
    place, met = model._place, threading.local()

    def place_together(system: str | None = None) -> Any:
        """Return the place; at the first call of each thread, wait until all threads have made theirs."""
        if not hasattr(met, "all"):
            met.all = together.wait(HANG_S)
        return place(system)

    monkeypatch.setattr(model, "_place", place_together)
    with ThreadPoolExecutor(3) as threads:
        seen = [threads.submit(model.find_probe) for _ in range(3)]
    assert len(made) == 1 and all(each.result() is made[0] for each in seen)


def test_a_setting_answers_to_its_own_name_and_to_its_options(model: TunerModel) -> None:
    now = model.choose(system="bns-gcn", p=0.25)
    assert now.boundary_share == now.system_settings["p"] == 0.25
    few = model.forecast.bytes_sent
    assert model.choose(boundary_share=0.5).system_settings["p"] == 0.5 and model.forecast.bytes_sent > few
    with pytest.raises(ValueError, match=r"boundary_share must lie in \[0, 1\], got 2"):
        model.choose(p=2)
    with pytest.raises(ValueError, match=r"knobs must be some of .*'boundary_share'.*, got \['lam'\]"):
        model.choose(lam=0.5)
    with pytest.raises(ValueError, match="system must be one of"):
        model.choose(system="best")
    assert model.preset("AdaQP").system == "adaqp", "a preset is a position of AdaQP"


def test_a_recipe_of_ones_own_has_its_knobs(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine(*, bits: int = 4, share: float = 0.5, hard: bool = False, note: str = "") -> System:
        assert not hard
        return make_system("fixed-bits", bits=bits)

    monkeypatch.delitem(SYSTEMS, "mine", raising=False)
    register_system(mine)
    try:
        kinds = {name: knob.kind for name, knob in knobs_of("mine").items()}
        assert kinds == {"bits": "choice", "share": "number", "hard": "switch", "note": "text"}
        assert TunerSettings(system="mine").changed({"bits": 2}).system_settings["bits"] == 2
    finally:
        del SYSTEMS["mine"]


def test_presets_and_reset(model: TunerModel) -> None:
    for name, knobs in PRESETS.items():
        settings = model.preset(name)
        assert {key: getattr(settings, key) for key in knobs} == knobs
        assert settings.workers == 2, "a preset keeps the number of workers"
    with pytest.raises(ValueError, match="preset must be one of"):
        model.preset("mine")
    assert model.reset() == model.initial


def test_predictions_are_those_of_the_probe(model: TunerModel) -> None:
    model.choose(lam=0.3, group_size=50, bit_widths=(2, 8), period=10)
    forecast = model.find_probe().forecast(lam=0.3, group_size=50, bit_widths=(2, 8))
    assert model.forecast.epoch_s == forecast.epoch_s and model.forecast.period == 10
    assert np.array_equal(model.forecast.pair_bits, forecast.pair_bits, equal_nan=True)
    assert model.forecast.rows == forecast.rows and set(forecast.rows) <= {2, 8}
    assert sum(model.bound_per_layer.values()) == pytest.approx(forecast.total_bound)
    assert list(model.bound_per_layer) == [0, 1, 2]
    assert model.forecast.to_frame()["seconds"].sum() == pytest.approx(forecast.epoch_s)
    assert model.vanilla.to_frame()["seconds"].sum() == pytest.approx(forecast.vanilla_s)
    assert model.speedup == (forecast.speedup, None)


def test_the_front_runs_from_least_time_to_least_variance(model: TunerModel) -> None:
    front = model.front
    assert [each.lam for each in front] == list(LAMS) and model.has_front
    assert front[0].epoch_s <= front[-1].epoch_s and front[0].total_variance > front[-1].total_variance
    assert model.to_frame()["variance"].tolist() == [each.total_variance for each in front]
    model.choose(group_size=7)
    assert not model.has_front, "another group size has its own front"


def test_an_error_of_past_runs_becomes_a_spread(model: TunerModel) -> None:
    other = TunerModel("digits", workers=2, hidden=32, link="100mbit", make_probe=lambda *_, **__: known_error)
    known_error = replace(model.find_probe(), error=0.1)
    faster, spread = other.speedup
    assert spread == pytest.approx(0.1 * faster) and "±" in other.sentence


def test_only_a_change_of_place_needs_another_probe(home: Path) -> None:
    asked: list[int] = []

    def make(config: Any, **settings: Any) -> Any:
        asked.append(config.workers)
        return gq.probe(config, epochs=3, launched=False)

    model = TunerModel("sbm:200,4,8", workers=2, hidden=8, layers=2, link="loopback", make_probe=make)
    for lam in LAMS:
        model.choose(lam=lam, period=int(1 + 9 * lam), bit_widths=(2, 8) if lam < 0.5 else (4, 8))
        assert model.forecast.lam == lam
    assert asked == [2] and model.is_probed
    model.choose(workers=3)
    assert not model.is_probed and model.forecast.pair_bits.shape == (3, 3) and asked == [2, 3]
    model.choose(workers=2)
    assert model.is_probed and not model.is_timed and "first estimate" in model.sentence


def test_settings_that_change_the_products_are_probed_of_their_own() -> None:
    model = TunerModel("sbm:200,4,8", workers=2, hidden=8, layers=2, link="loopback", system="tango")
    model.find_probe()
    assert model.is_probed
    model.choose(product_bits=4)
    assert not model.is_probed
    model.choose(product_bits=8)
    assert model.is_probed


def test_a_longer_period_loses_more_to_stale_widths(model: TunerModel) -> None:
    short, long = (model.choose(period=period) and model.stale_loss for period in (2, 100))
    assert 0 <= short <= long and "stale over 100 epochs" in model.sentence


def test_the_code_does_the_same(model: TunerModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model.choose(lam=0.25, bit_widths=(4, 8), period=9, group_size=33)
    launched: list[Any] = []
    monkeypatch.setattr(gq, "launch", lambda graph, **settings: launched.append(gq.configure(graph, **settings)))
    exec(model.to_code(), {})
    assert replace(launched[0], graph="digits") == model.config
    assert model.config.train.epochs == 7 and model.config.launch.link == "100mbit"


def test_without_a_graph_it_is_one_where_every_knob_shows() -> None:
    config = gq.Tuner().config
    assert (config.graph, config.workers, config.launch.hosts) == ("sbm:4000,4,20", 4, 2)


def test_a_graph_in_memory_keeps_its_name_only_if_that_loads_it(home: Path) -> None:
    assert TunerModel(gq.load("sbm:200,4,8")).source == "sbm:200,4,8"
    given = {"features": [[0.0], [1.0]], "labels": [0, 1], "train_idx": [0, 1]}
    other = gq.Graph.from_edges([0, 1], [1, 0], num_nodes=2, name="digits", **given)
    assert TunerModel(other).source is other
    assert gq.load(TunerModel(other).config.graph).content_hash == other.content_hash


def test_tuner_model_predicts_a_move_in_few_steps(model: TunerModel) -> None:
    """A move of λ runs some hundred thousand Python instructions, a hundredth of a second; a known λ fewer."""
    model.choose(lam=0.013)
    first = steps(lambda: model.forecast)
    again = steps(lambda: model.forecast)
    assert again < first / 2 and first < 600_000, (first, again)


def test_one_drawing_predicts_a_position_once(model: TunerModel, monkeypatch: pytest.MonkeyPatch) -> None:
    from gnnqlab.tune.probe import Probe

    model.front, model.risk, model.stale_loss  # noqa: B018  (kept)
    calls: list[float] = []
    predict = Probe.forecast
    monkeypatch.setattr(
        Probe, "forecast", lambda self, **each: (calls.append(each.get("lam")), predict(self, **each))[1]
    )
    model.choose(lam=0.37)
    TunerNumbers.from_model(model)
    tiles_html(model)
    assert [lam for lam in calls if lam is not None] == [0.37]


def test_errors_of_finished_runs_set_the_spread_of_the_speedup(
    model: TunerModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pandas as pd

    from gnnqlab.tune.probe import Probe

    model.front  # noqa: B018  (kept)
    monkeypatch.setattr(Probe, "compare_with_runs", lambda self, root=None: pd.DataFrame({"error": [-0.2, 0.1, 0.3]}))
    model.update_error()
    assert model.speedup[1] == pytest.approx(0.2 * model.speedup[0]) and not model.has_front
    monkeypatch.setattr(Probe, "compare_with_runs", lambda self, root=None: pd.DataFrame({"error": []}))
    model.update_error()
    assert model.speedup[1] is None


def test_the_risk_of_the_accuracy_grows_with_the_noise(model: TunerModel) -> None:
    model.choose(system="vanilla")
    assert model.risk.reached == 1 and model.has_risk, "float32 messages train as one process does"
    noise = {
        lam: (model.choose(system="adaqp", lam=lam), model.forecast.noise_share, model.risk.factor)[1:]
        for lam in (0.0, 1.0)
    }
    (fast_noise, fast), (quiet_noise, quiet) = noise[0.0], noise[1.0]
    assert fast_noise is not None and quiet_noise is not None and fast_noise > quiet_noise and fast >= quiet >= 1


def test_names_of_knobs_and_the_ends_of_lambda_are_words(model: TunerModel) -> None:
    knobs = knobs_of("adaqp")
    assert knobs["lam"].ends == ("0: fastest", "1: least noise") and knobs["group_size"].ends == ("", "")
    assert knobs["when"].label == "Assignment" and set(knobs["when"].choices) == {"background", "blocking"}
