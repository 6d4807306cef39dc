"""Targets select by their own criterion, and the selected settings were trained."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import gnnqlab as gq
from gnnqlab.cli import main
from gnnqlab.train.config.run_config import LaunchSettings
from gnnqlab.tune.autotune import GROUP_SIZES, LAMS, search
from gnnqlab.tune.recommendation.candidates import list_candidates
from gnnqlab.tune.recommendation.recommend import rank_systems
from tests.cases import each
from tests.tune.probes import GRAPH, written_down


def test_every_target_meets_its_own_rule():
    probe = written_down()
    every = [probe.forecast(lam=lam, group_size=size) for lam in LAMS for size in GROUP_SIZES]
    fastest, least = min(each.epoch_s for each in every), min(each.total_bound for each in every)
    quick = search(probe, target="time", most_variance=300.0)
    assert quick[0].epoch_s == min(each.epoch_s for each in every if each.total_bound <= 300.0 * least)
    assert all(each.total_bound <= 300.0 * least for each in quick)
    exact = search(probe, target="accuracy", most_slower=0.1)
    assert exact[0].total_bound == min(each.total_bound for each in every if each.epoch_s <= 1.1 * fastest)
    between = search(probe, target="balanced")[0]
    assert quick[0].epoch_s <= between.epoch_s or between.total_bound <= exact[0].total_bound
    assert search(probe, target="time", most_variance=1e9)[0].epoch_s == fastest


def test_autotune_and_recommend_predict_the_same_seconds():
    """Also if other load lengthened the computation of one of the two timed runs, which changes no forecast."""
    probe = written_down()
    phases = probe.timing.quantized.phases
    slower = probe.timing.quantized.with_phases({**phases, "dense": 2 * phases["dense"]})
    loaded = replace(probe, timing=replace(probe.timing, quantized=slower))
    on_cut = [each for each in list_candidates(["adaqp"]) if each.label in ("vanilla", "adaqp on random")]  # as probed
    found = rank_systems(loaded, gq.load(GRAPH), on_cut)
    recommended = next(each.forecast for each in found.options if each.label == "adaqp on random")
    bits = recommended.recipe.bits
    (searched,) = [
        each
        for each in search(loaded, target="accuracy", most_slower=1e9, bit_widths=bits.bit_widths)
        if (each.lam, each.group_size) == (bits.lam, bits.group_size)
    ]
    assert searched.phases == recommended.phases and searched.bytes_sent == recommended.bytes_sent
    assert recommended.phases == probe.forecast(system="adaqp").phases


def test_autotune_selects_settings_that_were_predicted_and_measured(tmp_path):
    probe = written_down()
    probe = replace(probe, config=replace(probe.config, launch=LaunchSettings(threads_per_worker=1)))
    said = []
    tuned = gq.autotune(
        GRAPH, known=probe, target="accuracy", confirm=1, epochs=6, repeats=3, out=tmp_path, say=said.append
    )
    assert tuned.best == tuned.trials[0] and tuned.vanilla.system == "vanilla"
    assert tuned.best.measured_s > 0 and tuned.best.measured_variance > 0
    # If only variance counts, bit-widths do not depend on the measured links, which vary on a busy machine.
    assert tuned.best.predicted_bytes == pytest.approx(tuned.best.measured_bytes, rel=0.02), tuned.best
    assert tuned.vanilla.predicted_bytes == tuned.vanilla.measured_bytes
    assert tuned.config.system.bits.lam == tuned.lam and tuned.config.system.bits.period == tuned.period
    words = json.loads(json.dumps(tuned.to_json()))
    assert {"lam", "group_size", "period", "predicted", "measured", "trials"} <= set(words)
    assert tuned.to_frame()["system"].tolist() == ["vanilla", "adaqp"] and "λ" in repr(tuned)
    assert len(said) == 3
    # The two runs are found again as evidence of the accuracy of predictions.
    found = probe.compare_with_runs(tmp_path)
    assert sorted(found["system"]) == ["adaqp", "vanilla"]
    assert (found["error"] == found["predicted_s"] / found["measured_s"] - 1).all()
    other = replace(probe, config=replace(probe.config, graph="sbm:60,3,6"))
    assert other.compare_with_runs(tmp_path).empty


@each(
    ("settings", "text"),
    [
        ({"target": "fame"}, "target must be one of"),
        ({"most_variance": 0.5}, "most_variance must be at least 1"),
        ({"most_slower": -1.0}, "most_slower must not be negative"),
        ({"confirm": 0}, "confirm must be at least 1"),
        ({"repeats": 1}, "repeats must be 0, or at least 2"),
    ],
)
def test_mistakes_are_refused_before_anything_is_started(settings, text):
    with pytest.raises(ValueError, match=text):
        gq.autotune("digits", **settings)


def test_autotune_command_rejects_settings_that_it_selects(capsys):
    with pytest.raises(SystemExit) as end:
        main(["autotune", "--lam", "0.5"])
    assert end.value.code == 2
    assert "autotune chooses the system's settings itself, got ['lam']" in capsys.readouterr().err
