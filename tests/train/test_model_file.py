"""The file of a trained model: its metadata, names and types, and refused files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from gnnqlab.nn.models import ModelSettings, build_model
from gnnqlab.train.checkpoints.model_file import LAST_MODEL, MODEL, ModelFile, read_model
from gnnqlab.train.checkpoints.tensor_file import read_tensors

SETTINGS = ModelSettings(name="gat", heads=2, layers=2, hidden=4)


def written(folder: Path, model: nn.Module, epoch: int = 7) -> str | None:
    return ModelFile(folder, SETTINGS, model, num_nodes=9, num_features=5, num_classes=3).write(epoch)


def test_model_file_has_names_types_and_metadata(tmp_path: Path) -> None:
    model = build_model(SETTINGS, 5, 3, seed=1)
    assert written(tmp_path, model) is None
    assert [path.name for path in tmp_path.iterdir()] == [MODEL]
    found = read_tensors(tmp_path / MODEL)
    assert list(found.tensors) == list(model.state_dict())
    assert all(torch.equal(found.tensors[name], value) for name, value in model.state_dict().items())
    assert found.metadata["format"] == "pt" and found.metadata["epoch"] == "7"
    assert json.loads(found.metadata["model"])["heads"] == 2 and "model_home" not in found.metadata
    saved = read_model(tmp_path)
    assert (saved.epoch, saved.num_nodes, saved.num_features, saved.num_classes) == (7, 9, 5, 3)


def test_the_package_safetensors_reads_it(tmp_path: Path) -> None:
    theirs = pytest.importorskip("safetensors", reason="the package safetensors is not installed")
    model = build_model(SETTINGS, 5, 3, seed=1)
    written(tmp_path, model)
    with theirs.safe_open(tmp_path / MODEL, framework="pt") as file:
        assert file.metadata()["epoch"] == "7" and set(file.keys()) == set(model.state_dict())
        assert all(torch.equal(file.get_tensor(name), value) for name, value in model.state_dict().items())


def test_loaded_model_has_the_tensor_types_of_the_file(tmp_path: Path) -> None:
    model = build_model(SETTINGS, 5, 3, seed=1)
    model.convolutions[0].weight.data = model.convolutions[0].weight.data.double() / 3
    written(tmp_path, model)
    built = read_model(tmp_path).build(SETTINGS, seed=2)
    state = built.state_dict()
    assert not built.training and state["convolutions.0.weight"].dtype == torch.float64
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())


def test_a_file_that_is_torn_or_changed_is_refused(tmp_path: Path) -> None:
    assert read_model(tmp_path) is None
    written(tmp_path, build_model(SETTINGS, 5, 3, seed=1))
    content = (tmp_path / MODEL).read_bytes()
    for broken in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), content.replace(b'"epoch"', b'"epoxh"')):
        (tmp_path / MODEL).write_bytes(broken)
        rules = "be as gnnqlab wrote it|have the layout of safetensors"
        with pytest.raises(ValueError, match=f"a model file must ({rules}), got"):
            read_model(tmp_path)


class Strange(nn.Linear):
    def get_extra_state(self) -> str:
        return "a text"


def test_failed_model_write_is_reported_and_leaves_the_old_file(tmp_path: Path) -> None:
    model = build_model(SETTINGS, 5, 3, seed=1)
    written(tmp_path, model, epoch=1)
    said = written(tmp_path, Strange(2, 2))
    assert said == (
        "writing the model failed: the state_dict of a model must hold tensors only, got other values under "
        "['_extra_state']"
    )
    assert "got torch.complex64" in (written(tmp_path, nn.Linear(2, 2, dtype=torch.complex64)) or "")
    assert read_model(tmp_path).epoch == 1
    assert (written(tmp_path / "nowhere", model) or "").startswith("writing the model failed: No such file")


def trained(file: ModelFile, model: nn.Linear, epochs: int, best: int) -> None:
    """Train to an epoch, after which the weight is its number, and select another one as the best."""
    for epoch in range(epochs):
        nn.init.constant_(model.weight, epoch)
        if epoch == best:
            file.select(epoch)


def linear_file(folder: Path) -> tuple[ModelFile, nn.Linear]:
    model = nn.Linear(1, 1, bias=False)
    return ModelFile(folder, SETTINGS, model, num_nodes=9, num_features=1, num_classes=1), model


def stored(folder: Path) -> dict[str, tuple[int, float]]:
    """Return the epoch and the weight of each file."""
    models = {name: read_model(folder, name) for name in (MODEL, LAST_MODEL)}
    return {name: (model.epoch, model.tensors["weight"].item()) for name, model in models.items() if model}


def test_the_best_and_the_last_epoch_are_stored(tmp_path: Path) -> None:
    file, model = linear_file(tmp_path)
    trained(file, model, epochs=1, best=5)  # before the first evaluation
    assert file.write(0) is None and stored(tmp_path) == {MODEL: (0, 0.0)}
    trained(file, model, epochs=7, best=2)
    assert file.write(6) is None and stored(tmp_path) == {MODEL: (2, 2.0), LAST_MODEL: (6, 6.0)}
    trained(file, model, epochs=9, best=8)
    assert file.write(8) is None and stored(tmp_path) == {MODEL: (8, 8.0)}


def test_best_weights_return_from_a_checkpoint(tmp_path: Path) -> None:
    file, model = linear_file(tmp_path)
    assert file.checkpoint() == {}
    trained(file, model, epochs=3, best=1)
    resumed_file, resumed_model = linear_file(tmp_path)
    resumed_file.restore({**file.checkpoint(), "bits/rows": torch.ones(3)}, 1)
    nn.init.constant_(resumed_model.weight, 5)
    assert resumed_file.write(5) is None and stored(tmp_path) == {MODEL: (1, 1.0), LAST_MODEL: (5, 5.0)}
    older_file, older_model = linear_file(tmp_path)
    older_file.restore({}, None)  # a checkpoint of version 0.9
    nn.init.constant_(older_model.weight, 6)
    assert older_file.write(6) is None and stored(tmp_path) == {MODEL: (6, 6.0)}


def test_weights_that_no_file_can_hold_are_left_out_of_checkpoints(tmp_path: Path) -> None:
    file, model = linear_file(tmp_path)
    model.register_buffer("phase", torch.zeros(1, dtype=torch.complex64))
    trained(file, model, epochs=1, best=0)
    assert file.checkpoint() == {}
