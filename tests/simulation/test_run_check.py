"""``gq.theory.check`` needs only a run, also one with assigned bit-widths."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.bits import Fixed
from gnnqlab.launch import local
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.simulation.run_check import TheoryCheck, check
from gnnqlab.systems import adaqp, fixed_bits
from gnnqlab.train.config.run_config import LaunchSettings, RunConfig, TrainSettings
from gnnqlab.train.records.active_bit_widths import load_widths
from tests.course.experiments.priced import Priced

MODEL = ModelSettings(layers=2, hidden=16, norm="none", dropout=0.5)


def config(system, **changes):
    settings = {"graph": "sbm:120,3,6", "model": MODEL, "workers": 2, **changes}
    return RunConfig(system=replace(system, partition=Random()), **settings)


def test_check_reads_a_configuration():
    found = gq.theory.check(config(fixed_bits(bits=4)), repeats=3)
    assert found.to_frame()["layer"].tolist() == [0, 1, -1]
    assert found.bound.keys() == found.measured.keys() == {"0.weight", "1.weight", "all"}
    assert found.bound["all"] == pytest.approx(found.bound["0.weight"] + found.bound["1.weight"])
    assert found.widths == "4 bits" and "4 bits" in repr(found) and "4 bits" in found._repr_html_()


def test_the_heading_names_weights_that_pass_their_bound():
    def heading(*measured):
        frame = pd.DataFrame(
            {"layer": [0, 1, -1], "weight": ["w", "w", "all"], "measured": measured, "bound": [1.0, 1.0, 2.0]}
        )
        return repr(TheoryCheck(frame, "fixed-bits", "4 bits", repeats=2, trained=0)).partition("\n")[0]

    assert heading(0.5, 0.5, 1.0).endswith("the bound of all weights together holds, and so does that of each weight")
    assert heading(0.2, 1.5, 1.7).endswith("the bound of all weights together holds, that of 1.w is exceeded")
    assert heading(1.2, 1.5, 2.7).endswith("of all weights together is exceeded, that of 0.w, 1.w is exceeded")


def test_check_rejects_unsupported_settings():
    with pytest.raises(ValueError, match="input_features 'resend'"):
        check(config(fixed_bits(bits=4), train=TrainSettings(input_features="cache")))
    with pytest.raises(ValueError, match="repeats must be at least 2"):
        check(config(fixed_bits(bits=4)), repeats=1)
    with pytest.raises(ValueError, match="trained must not be negative, got -1"):
        check(config(fixed_bits(bits=4)), trained=-1)


def test_trained_weights_have_other_gradients():
    settings = config(fixed_bits(bits=2))
    first, later = check(settings, repeats=4), check(settings, repeats=4, trained=20)
    assert later.trained == 20
    assert later.to_frame()["norm"].iloc[-1] != first.to_frame()["norm"].iloc[-1]


def test_a_run_that_assigned_is_checked_with_its_last_assignment(tmp_path):
    settings = config(
        # With a fixed price of bytes some rows become narrow; a measured price would depend on the machine's load.
        replace(adaqp(), bits=Priced(lam=0.5, group_size=10, period=4)),
        train=TrainSettings(epochs=7, evaluate_every=0, checkpoint_every=3),
        launch=LaunchSettings(threads_per_worker=1),
    )
    assert check(settings, repeats=2).widths == "start bit-width, 8 bits"
    run = local.launch(settings, root=tmp_path, wait=True)
    installed = load_widths(run.folder, settings.system.bits)
    # Every message of the model, in both directions.
    assert {key[:2] for key in installed.table} == {
        (layer, direction) for layer in (0, 1) for direction in ("forward", "backward")
    }  # both layers project first
    assert {key[2:] for key in installed.table} == {(0, 1), (1, 0)}
    last = run.traffic.query("epoch == 6")
    sent = last.groupby(["layer", "direction", "sender", "receiver", "bits"])["rows"].sum().to_dict()
    for key, rows in installed.table.items():
        values, counts = rows.unique(return_counts=True)
        assert {bits: sent[*key, bits] for bits in values.tolist()} == dict(zip(values.tolist(), counts.tolist()))
    found = gq.theory.check(gq.Run(run.folder), repeats=6)
    assert found.widths == "last assignment, λ = 0.5"
    assert found.trained == 7  # a run with checkpoints also has its last state
    eight, two = (check(gq.Run(run.folder), bits=Fixed(bits=bits), repeats=6) for bits in (8, 2))
    assert eight.widths == two.widths == "bit-widths as given"
    assert eight.bound["all"] < found.bound["all"] <= two.bound["all"]


def test_convergence_is_found_under_its_name():
    frame = gq.theory.convergence(gq.load("sbm:60,3,6"), replace(fixed_bits(bits=8), partition=Random()),
                                  ModelSettings(layers=2, hidden=8), epochs=3).frame  # fmt: skip
    assert len(frame) == 3 and (frame["mean_square"] <= frame["bound"]).all()
    assert gq.theory.convergence.largest_step(4.0) == 0.5


def test_names_of_the_theory_are_listed():
    assert {"check", "convergence", "cost", "variance"} <= set(dir(gq.theory))
    assert gq.theory.variance.AVERAGE == pytest.approx(1 / 6)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gq.theory.nothing
