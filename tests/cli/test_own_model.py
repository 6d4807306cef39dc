"""A model of one's own on a command line: ``--model module:function``."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab.cli.line import main
from gnnqlab.cli.train import Train
from gnnqlab.nn.models import MODELS, registry
from gnnqlab.nn.models.registry import word_for
from gnnqlab.train.command import command_of

OWN = '''
from dataclasses import dataclass
import gnnqlab as gq
from gnnqlab.nn.models import MODELS, ModelSettings

@dataclass(frozen=True, kw_only=True)
class TimesSettings(ModelSettings):
    """Shape of the model below."""
    factor: int = 2
    """How much wider."""

@gq.register_model(norms=("none",), settings=TimesSettings)
def times_wider(settings, in_features, num_classes, seed):
    """GCN of other widths."""
    return plain(settings, in_features, num_classes, seed, settings.factor)

def plain(settings, in_features, num_classes, seed, factor=1):
    """GCN."""
    shape = ModelSettings(name="gcn", layers=settings.layers, hidden=factor * settings.hidden, dropout=0.0)
    return MODELS["gcn"](shape, in_features, num_classes, seed)
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the folder that a line is typed in, which nothing has imported."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(MODELS)
    yield name
    for model in set(MODELS) - before:
        del MODELS[model], registry._KINDS[model]
    sys.modules.pop(name, None)


def trained(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The configuration that a line makes."""
    made: list[Any] = []
    monkeypatch.setattr(
        Train, "run", lambda self: made.append(self.configure(self.system, **self.recipe_settings(self.system))) or {}
    )
    main(["train", *words])
    return made[0]


def test_its_module_is_found_and_its_settings_are_options(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = trained(["--factor", "3", "--model", f"{own}:times_wider", "--hidden=4"], monkeypatch)
    assert (config.model.name, config.model.factor, config.model.hidden) == ("times-wider", 3, 4)
    assert config.to_json()["model_home"]["builder"] == f"{own}:times_wider"
    again = trained([f"--model={own}:plain", "--hidden", "4"], monkeypatch)
    assert (again.model.name, again.model.norm) == ("plain", "layer")


def test_the_line_that_repeats_a_run_says_where_it_is(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.path.insert(0, os.getcwd())
    for model, settings in ((f"{own}:times_wider", {"factor": 3}), (f"{own}:plain", {})):
        config = gq.configure("digits", model=model, **settings)
        line = command_of(config)
        assert line is not None and f"--model {model}" in line
        assert trained(line.split()[2:], monkeypatch) == config


def test_there_is_no_line_for_what_only_this_process_knows(own: str) -> None:
    sys.path.insert(0, os.getcwd())
    module = __import__(own)
    gq.register_model(norms=("none",))(module.plain)  # by hand: elsewhere its default would be another norm
    assert word_for("plain") is None and command_of(gq.configure("digits", model="plain")) is None

    @gq.register_model
    def of_a_cell(settings: Any, in_features: int, num_classes: int, seed: int) -> Any:
        raise AssertionError("not built")

    assert word_for("of-a-cell") is None and word_for("gat") == "gat"


@pytest.mark.parametrize(
    "model, why",
    [
        ("{own}:time_wider", r"got 'own_.*:time_wider': module 'own_.*' has no attribute 'time_wider'"),
        ("no_such_module:gin", "got 'no_such_module:gin': No module named 'no_such_module'"),
    ],
)
def test_what_is_not_there_is_said(own: str, model: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--model", model.format(own=own)])
    assert end.value.code == 2
    with pytest.raises(ValueError, match=f"model must be a registered one or module:function, {why}"):
        sys.path.insert(0, os.getcwd())
        gq.configure("digits", model=model.format(own=own))
    assert "the module must be importable here" in capsys.readouterr().err


@pytest.mark.slow
def test_several_are_compared(own: str, tmp_path: Path) -> None:
    words = ["compare", "--model", f"{own}:times_wider,gcn", "--graph", "sbm:60,3,6", "--systems", "vanilla"]
    shape = ["--hidden", "4", "--layers", "2", "--epochs", "2", "--json"]
    ended = subprocess.run(
        [Path(sys.executable).with_name("gnnqlab"), *words, *shape], capture_output=True, text=True, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stderr
    runs = json.loads(ended.stdout.splitlines()[-1])["runs"]
    assert [run["model"] for run in runs] == ["times-wider", "gcn"]
    assert runs[0]["bytes_payload"] > runs[1]["bytes_payload"], "it is twice as wide"
