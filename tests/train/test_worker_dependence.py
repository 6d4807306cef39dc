"""Modules whose numbers depend on the number of workers are named before a launch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import gnnqlab as gq
from gnnqlab.train.worker_dependence import worker_dependent_modules
from tests.cases import each

pytestmark = pytest.mark.usefixtures("own_models")


class Net(nn.Module):
    """A linear layer after a module."""

    def __init__(self, between: nn.Module, inputs: int, classes: int) -> None:
        super().__init__()
        self.between, self.linear = between, nn.Linear(inputs, classes)

    def forward(self, g, x):
        return g.linear(g.aggregate(self.between(x), alpha="sum"), self.linear.weight.T, self.linear.bias)


def _make(between: nn.Module, inputs: int, classes: int) -> Net:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Net(between, inputs, classes)


def normalized(settings, in_features, num_classes, seed):
    return _make(nn.BatchNorm1d(in_features), in_features, num_classes)


def dropped(settings, in_features, num_classes, seed):
    return _make(nn.Sequential(nn.Identity(), nn.Dropout(0.5)), in_features, num_classes)


def sloped(settings, in_features, num_classes, seed):
    return _make(nn.RReLU(), in_features, num_classes)


def layered(settings, in_features, num_classes, seed):
    return _make(nn.LayerNorm(in_features), in_features, num_classes)


@each(
    ("name", "texts"),
    [
        ("normalized", ["module between of model", "BatchNorm1d", "here 2; use gnnqlab.nn.SyncBatchNorm"]),
        ("dropped", ["module between.1 of model", "Dropout", "use g.dropout(x, p)"]),
        ("sloped", ["RReLU", "use torch.nn.LeakyReLU"]),
        ("layered", []),
    ],
)
def test_modules_that_depend_on_the_workers_are_named_with_the_way_out(name: str, texts: list[str]) -> None:
    model = f"{__name__}:{name}"
    found = worker_dependent_modules(gq.configure("sbm:100,3,6", model=model, workers=2))
    assert len(found) == bool(texts)
    assert all(text in found[0] for text in texts)
    assert worker_dependent_modules(gq.configure("sbm:100,3,6", model=model, workers=1)) == []


@each("name", ["normalized", "dropped"])
def test_such_a_model_breaks_the_law(name: str) -> None:
    with pytest.raises(gq.testing.LawBroken):
        gq.testing.check_law(f"{__name__}:{name}", workers=(1, 2))


class WrongForward(nn.Module):
    """Model with a further argument of ``forward``."""

    def forward(self, g, x, edges):
        return x


def wrong_forward(settings, in_features, num_classes, seed):
    return WrongForward()


@each("workers", [1, 2, 3])
def test_another_forward_is_refused_before_any_process_starts(
    workers: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("gnnqlab.launch.local.begin", lambda *_, **__: pytest.fail("a process was started"))
    model = f"{__name__}:wrong_forward"
    with pytest.raises(TypeError, match=r"forward of model .* must accept \(g, x\), .*got \(g, x, edges\)"):
        gq.launch("sbm:100,3,6", model=model, workers=workers, out=tmp_path)
