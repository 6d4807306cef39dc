"""A user's own model on a command line: ``--model module:function``."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab.cli.line import main
from gnnqlab.nn.models import MODELS, ModelSettings, registry
from gnnqlab.nn.models.registry import word_for
from gnnqlab.train.config.command import command_of
from gnnqlab.train.config.run_config import RunConfig

MadeBy = Callable[[str], RunConfig]

OWN = '''
from dataclasses import dataclass
import gnnqlab as gq
from gnnqlab.nn.models import MODELS, ModelSettings

@dataclass(frozen=True, kw_only=True)
class TimesSettings(ModelSettings):
    """Shape of the model below."""
    factor: int = 2
    """How much wider."""

@gq.models.register_model(norms=("none",), settings=TimesSettings)
def times_wider(settings, in_features, num_classes, seed):
    """GCN of other widths."""
    return plain(settings, in_features, num_classes, seed, settings.factor)

NUMBER = 3

def at_the_end(settings, in_features, num_classes, seed):
    """Registered once it is there."""
    return plain(settings, in_features, num_classes, seed)

gq.models.register_model(norms=("none",))(at_the_end)

def plain(settings, in_features, num_classes, seed, factor=1):
    """GCN."""
    shape = ModelSettings(name="gcn", layers=settings.layers, hidden=factor * settings.hidden, dropout=0.0)
    return MODELS["gcn"](shape, in_features, num_classes, seed)
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the name of a module in the current folder that has not been imported."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(MODELS)
    yield name
    for model in set(MODELS) - before:
        del MODELS[model], registry._KINDS[model]
    sys.modules.pop(name, None)


def test_its_module_is_found_and_its_settings_are_options(own: str, made_by: MadeBy) -> None:
    config = made_by(f"gnnqlab train --factor 3 --model {own}:times_wider --hidden=4")
    for file in (f"{own}.py", f"./{own}.py"):
        assert made_by(f"gnnqlab train --factor 3 --model {file}:times_wider --hidden=4") == config
    assert (config.model.name, config.model.factor, config.model.hidden) == ("times-wider", 3, 4)
    assert config.to_json()["model_home"]["builder"] == f"{own}:times_wider"
    again = made_by(f"gnnqlab train --model={own}:plain --hidden 4")
    assert (again.model.name, again.model.norm) == ("plain", "layer")


def test_it_is_understood_wherever_a_model_is_named(own: str) -> None:
    sys.path.insert(0, os.getcwd())
    assert ModelSettings(name=f"{own}:times_wider", factor=3).name == "times-wider"
    bounds = gq.theory.cache_error(gq.load("sbm:40,3,6"), gq.caches.AdaptiveCache(), f"{own}:plain", epochs=2)
    assert len(bounds.frame) > 0


def test_command_that_repeats_a_run_names_the_module_of_the_model(own: str, made_by: MadeBy) -> None:
    sys.path.insert(0, os.getcwd())
    own_models = {"times_wider": {"factor": 3}, "plain": {}, "at_the_end": {}}
    for model, settings in ((f"{own}:{name}", settings) for name, settings in own_models.items()):
        config = gq.configure("digits", model=model, **settings)
        line = command_of(config)
        assert line is not None and f"--model {model}" in line
        assert made_by(line) == config


def test_model_registered_only_in_this_process_has_no_command(own: str) -> None:
    sys.path.insert(0, os.getcwd())
    module = __import__(own)
    # by hand: in another process its default would be another norm
    gq.models.register_model(norms=("none",))(module.plain)
    assert word_for("plain") is None and command_of(gq.configure("digits", model="plain")) is None

    @gq.models.register_model
    def of_a_cell(settings: Any, in_features: int, num_classes: int, seed: int) -> Any:
        raise AssertionError("not built")

    assert word_for("of-a-cell") is None and word_for("gat") == "gat"


def test_model_referenced_by_module_path_can_be_registered_later(own: str) -> None:
    sys.path.insert(0, os.getcwd())
    assert gq.configure("digits", model=f"{own}:plain").model.norm == "layer"
    module = sys.modules[own]
    gq.models.register_model(norms=("none",), settings=module.TimesSettings)(module.plain)
    config = gq.configure("digits", model="plain", factor=3)
    assert (config.model.norm, config.model.factor) == ("none", 3) and word_for("plain") is None
    with pytest.raises(ValueError, match="'plain' is registered already"):
        gq.models.register_model(module.plain)


@pytest.mark.parametrize(
    "model, why",
    [
        ("{own}:time_wider", r"AttributeError: module 'own_.*' has no attribute 'time_wider'"),
        ("no_such_module:gin", "ModuleNotFoundError: No module named 'no_such_module'; no_such_module.py must be in"),
        ("{own}:NUMBER", "TypeError: module:function must name a function that builds a model"),
        (":gin", "TypeError: module:function must name a function that builds a model"),
        ("{own}:of_sizes", r"TypeError: it must accept \(settings, in_features, num_classes, seed\), got \(inputs=8, "),
        ("torn:gin", "SyntaxError: "),
        ("lacking:gin", "ModuleNotFoundError: No module named 'no_such_module'$"),
        ("{own}:gcn", "ValueError: a model's name must be new, 'gcn' is registered already"),
    ],
)
def test_unloadable_model_exits_with_a_one_line_error(
    own: str, tmp_path: Path, model: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torn.py").write_text("def gin(:")
    (tmp_path / "lacking.py").write_text("import no_such_module")
    with open(tmp_path / f"{own}.py", "a") as module:
        module.write(
            "\ndef gcn(settings, in_features, num_classes, seed): pass\ndef of_sizes(inputs=8, classes=4): pass\n"
        )
    model = model.format(own=own)
    with pytest.raises(SystemExit) as end:
        main(["train", "--json", "--model", model])
    said = capsys.readouterr()
    assert end.value.code == 2 and len(said.err.splitlines()) == 1
    error = json.loads(said.out)["error"]
    assert re.search(f"^model must be a registered one or module:function, got '{model}': {why}", error)
    with pytest.raises(ValueError, match=re.escape(error)):
        gq.configure("digits", model=model)


def test_model_option_without_a_value_reports_expected_one_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--json", "--model"])
    said = capsys.readouterr()
    assert end.value.code == 2 and len(said.err.splitlines()) == 1
    assert json.loads(said.out)["error"].startswith("--model: expected one argument")


def test_help_shows_its_options(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "--model", f"{own}:times_wider", "--help"])
    assert end.value.code == 0 and "How much wider. (default: 2)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_own_model_is_compared_with_gcn_and_its_run_resumed(own: str, tmp_path: Path) -> None:
    def said(*words: str) -> dict[str, Any]:
        gnnqlab = Path(sys.executable).with_name("gnnqlab")
        ended = subprocess.run([gnnqlab, *words, "--json"], capture_output=True, text=True, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        return dict(json.loads(ended.stdout.splitlines()[-1]))

    words = ["compare", "--model", f"{own}:times_wider,gcn", "--graph", "sbm:60,3,6", "--systems", "vanilla"]
    shape = ["--hidden", "4", "--layers", "2", "--epochs", "2", "--checkpoint-every", "1"]
    runs = said(*words, *shape)["runs"]
    assert [run["model"] for run in runs] == ["times-wider", "gcn"]
    assert runs[0]["bytes_payload"] > runs[1]["bytes_payload"], "it is twice as wide"
    resumed = said("train", "--resume", runs[0]["run"], "--epochs", "3")
    assert (resumed["model"], resumed["epochs"]) == ("times-wider", 3)


@pytest.mark.slow
def test_command_printed_by_autotune_has_the_tuned_settings(
    own: str, tmp_path: Path, made_by: MadeBy, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = ["--model", f"{own}:times_wider", "--factor", "3", "--layers", "2", "--hidden", "4"]
    where = ["--graph", "sbm:60,3,6", "--trial-epochs", "8", "--confirm", "1", "--out", str(tmp_path)]
    main(["autotune", *shape, *where, "--json"])
    tuned = json.loads(capsys.readouterr().out.splitlines()[-1])
    config = made_by(tuned["command"])
    model, bits = config.model, config.system.bits
    assert (model.name, model.factor, model.layers, model.hidden) == ("times-wider", 3, 2, 4)
    assert (bits.lam, bits.group_size, bits.period) == (tuned["lam"], tuned["group_size"], tuned["period"])
