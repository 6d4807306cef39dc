"""A user's own components and models reach the workers, from any folder in which the launching process found them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.launch.worker_target import VARIABLE, apply_search_path, search_path
from gnnqlab.nn.models import registry
from gnnqlab.train.config.run_config import RunConfig
from tests.slow_down import HANG_S

BITS = '''
from dataclasses import dataclass

@dataclass(frozen=True)
class Switching:
    """Two bits first, eight bits later."""
    switch: int = 1
    choices = (2, 8)
    def version(self, epoch): return int(epoch >= self.switch)
    def widths(self, rows, epoch): return 8 if epoch >= self.switch else 2
'''
MODEL = '''
from dataclasses import dataclass
from gnnqlab.nn.models import MODELS, ModelSettings

@dataclass(frozen=True, kw_only=True)
class DoubledSettings(ModelSettings):
    """Shape of the model below."""
    factor: int = 2

def doubled(settings, in_features, num_classes, seed):
    """GCN of other widths."""
    shape = ModelSettings(name="gcn", layers=settings.layers, hidden=settings.factor * settings.hidden, dropout=0.0)
    return MODELS["gcn"](shape, in_features, num_classes, seed)
'''
SCRIPT = """
import json, sys
from dataclasses import replace
import gnnqlab as gq
import own_bits
sys.path.insert(0, sys.argv[1])
import own_model
gq.models.register_model(norms=("none", "layer"), settings=own_model.DoubledSettings)(own_model.doubled)
random = gq.partitioners.Random()
system = replace(gq.systems.fixed_bits(), name="switching", bits=own_bits.Switching(), partition=random)
shape = dict(model="doubled", factor=3, layers=2, hidden=4)
run = gq.launch("sbm:60,3,6", system=system, **shape, workers=2, epochs=2, wait=True)
parameters = json.loads((run.folder / "facts.json").read_text())["num_parameters"]
said = {"parameters": parameters, "bits": sorted(set(run.traffic["bits"])), "logits": list(run.predict().shape)}
print(json.dumps(said))
"""


def test_modules_beside_a_script_and_a_registered_model_reach_the_workers(tmp_path: Path) -> None:
    for folder in ("project", "elsewhere", "somewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "project" / "run_it.py").write_text(SCRIPT)
    (tmp_path / "project" / "own_bits.py").write_text(BITS)
    (tmp_path / "elsewhere" / "own_model.py").write_text(MODEL)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"GNNQLAB_RUNS": str(tmp_path / "runs"), "GNNQLAB_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "../project/run_it.py", "../elsewhere"],
        cwd=tmp_path / "somewhere",
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    # 64 features, 12 hidden, 3 classes: weights, biases and one LayerNorm.
    assert (said["parameters"], said["bits"]) == (64 * 12 + 12 + 12 * 3 + 3 + 2 * 12, [2, 8])
    assert said["logits"] == [60, 3]
    (run,) = gq.runs(tmp_path / "runs")
    assert run.summary["model"] == "doubled" and run.status == "finished"
    assert not {"own_bits", "own_model"} & set(sys.modules)
    with pytest.raises(ValueError, match=r"must be importable to build its configuration, got No module named 'own_"):
        assert run.config
    with pytest.raises(ValueError, match=r"must be importable to build its configuration, got No module named 'own_"):
        run.model()


def test_workers_look_where_the_launching_process_does_and_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "mods", "/usr/lib/python3", "/late"])
    said = search_path()
    assert json.loads(said[VARIABLE]) == [os.getcwd(), f"{os.getcwd()}/mods", "/usr/lib/python3", "/late"]
    monkeypatch.setattr(sys, "path", ["/other", "/late", "/usr/lib/python3"])
    apply_search_path()
    assert sys.path == ["/other", "/late", "/usr/lib/python3"]  # the variable is not set yet
    monkeypatch.setenv(VARIABLE, said[VARIABLE])
    apply_search_path(), apply_search_path()
    assert sys.path == [os.getcwd(), f"{os.getcwd()}/mods", "/usr/lib/python3", "/late", "/other"]


def narrow(settings: object, in_features: int, num_classes: int, seed: int) -> object:
    raise AssertionError("not built")


def test_a_model_is_found_again_by_name() -> None:
    gq.models.register_model(norms=("layer",), activations=("elu", "gelu"))(narrow)
    try:
        value = json.loads(json.dumps(gq.configure("digits", model="narrow", hidden=8).to_json()))
        assert value["model_home"] == {
            "builder": f"{__name__}:narrow",
            "norms": ["layer"],
            "settings": "gnnqlab.nn.models.registry:ModelSettings",
            "activations": ["elu", "gelu"],
        }
        assert value["model"]["activation"] == "elu"
        del registry.MODELS["narrow"], registry._KINDS["narrow"]
        assert RunConfig.from_json(value).model.norm == "layer" and registry.MODELS["narrow"] is narrow
        assert RunConfig.from_json(value).to_json() == value
    finally:
        del registry.MODELS["narrow"], registry._KINDS["narrow"]
    assert "model_home" not in gq.configure("digits").to_json()


def test_a_model_from_a_notebook_cell_is_refused_before_anything_starts(tmp_path: Path) -> None:
    def in_a_cell(settings: object, in_features: int, num_classes: int, seed: int) -> object:
        raise AssertionError("not built")

    gq.models.register_model(in_a_cell)
    try:
        for module, name, text in (
            ("__main__", "in_a_cell", "in_a_cell is defined in a notebook cell or script"),
            (__name__, in_a_cell.__qualname__, "in_a_cell is defined in a function"),
        ):
            in_a_cell.__module__, in_a_cell.__qualname__ = module, name
            with pytest.raises(ValueError, match=f"{text}, where workers cannot import it; move it to a module"):
                gq.launch("digits", model="in-a-cell", workers=1, out=tmp_path)
    finally:
        del registry.MODELS["in-a-cell"], registry._KINDS["in-a-cell"]
    assert list(tmp_path.iterdir()) == []
