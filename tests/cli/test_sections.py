"""A new setting of a recipe or a model is declared in one place and found everywhere."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Annotated

import pytest
from torch import nn

import gnnqlab as gq
from gnnqlab import cli
from gnnqlab.nn.layers import GraphConvolution
from gnnqlab.nn.models import MODELS, ModelSettings, registry
from gnnqlab.nn.models.stack import ConvolutionStack
from gnnqlab.settings import Option, Range
from gnnqlab.systems import SYSTEMS, System
from gnnqlab.train.config.command import command_of
from gnnqlab.train.config.run_config import RunConfig


def coarse_start(*, coarse: Annotated[int, Range(1, 16), Option("coarse-bits"), "How coarse."] = 2) -> System:
    """Start with coarse messages."""
    return replace(gq.systems.vanilla(), codec=gq.codecs.Stochastic(), bits=gq.bits.Fixed(bits=coarse))


@dataclass(frozen=True, kw_only=True)
class WideSettings(ModelSettings):
    """Shape of the model below."""

    widening: Annotated[int, Range(1)] = 1
    """Factor of the width."""
    biased: bool = True
    """Add a bias."""


def wide(settings: WideSettings, in_features: int, num_classes: int, seed: int) -> nn.Module:
    """A model of a multiple of the hidden width."""
    shape = replace(settings, hidden=settings.hidden * settings.widening)
    return ConvolutionStack(GraphConvolution, shape, in_features, num_classes, seed)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    gq.systems.register_system(coarse_start)
    with monkeypatch.context() as defining:  # as in a decorator, before its module has the function
        builder = wide
        defining.delattr(f"{__name__}.wide")
        gq.models.register_model(settings=WideSettings)(builder)
    yield
    del SYSTEMS["coarse-start"], MODELS["wide"], registry._KINDS["wide"]


def test_new_setting_round_trips_through_python_json_and_command_line(made_by):
    config = gq.configure("digits", system="coarse-start", coarse=4, model="wide", widening=3, biased=False, hidden=8)
    assert config.system.bits == gq.bits.Fixed(bits=4) and (config.model.widening, config.model.biased) == (3, False)
    value = json.loads(json.dumps(config.to_json()))
    assert value["recipe"] == {"name": "coarse-start", "coarse": 4} and value["model"]["widening"] == 3
    assert RunConfig.from_json(value) == config
    line = command_of(config)
    assert f"--model {__name__}:wide " in line
    assert line.endswith("--hidden 8 --widening 3 --no-biased --coarse-bits 4")
    assert made_by(line) == config


def test_help_lists_the_new_setting_with_its_system_or_model(capsys):
    for command in ("train", "compare"):
        with pytest.raises(SystemExit) as end:
            cli.main([command, "--help-all"])
        said = " ".join(capsys.readouterr().out.split())
        assert end.value.code == 0
        assert "--coarse-bits INT coarse-start: How coarse. (default: 2)" in said
        assert "--widening INT wide: Factor of the width. (default: 1)" in said and "--no-biased wide:" in said
        titles = ["options of the command:", "training:", "model:", "launch:", "system:"]
        assert [said.index(f" {title} ") for title in titles] == sorted(said.index(f" {title} ") for title in titles)


def test_setting_of_another_system_or_model_is_rejected(capsys):
    for words, text in (
        (["--coarse-bits", "4"], "system 'vanilla' takes no settings, got ['coarse']"),
        (["--system", "coarse-start", "--coarse-bits", "5"], "bits must be one of (1, 2, 3, 4, 8, 16, 32), got 5"),
        (["--widening", "2"], "widening is a setting of ['wide'], got 2 for 'gcn'; leave it out"),
        (["--model", "wide", "--widening", "0"], "widening must be at least 1, got 0"),
    ):
        with pytest.raises(SystemExit) as end:
            cli.main(["train", *words])
        assert end.value.code == 2 and text in capsys.readouterr().err


def test_a_run_has_it(tmp_path):
    shape = {"layers": 2, "hidden": 4, "dropout": 0.0}
    config = gq.configure("sbm:60,3,6", model="wide", widening=2, partition="random", workers=1, **shape)
    model = registry.build_model(config.model, 5, 3, seed=0)
    assert model.convolutions[0].weight.shape == (5, 8)


def test_a_setting_of_both_model_and_system_is_refused():
    @dataclass(frozen=True, kw_only=True)
    class Both(ModelSettings):
        bits: int = 2

    def both(settings, in_features, num_classes, seed):
        raise AssertionError("not built")

    gq.models.register_model(settings=Both)(both)
    try:
        with pytest.raises(ValueError, match=r"must belong to either the model or the system, got \['bits'\] of both"):
            gq.configure("digits", model="both", system="fixed-bits", bits=4)
    finally:
        del MODELS["both"], registry._KINDS["both"]
