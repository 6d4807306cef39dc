"""Objectives of the user: compared with torch, the same for any number of workers, wrong ones refused."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import gnnqlab as gq
from gnnqlab.cli.options import Options
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.testing import check_law
from gnnqlab.train.checkpoints.state import config_digest
from gnnqlab.train.config.run_config import RunConfig, TrainSettings
from gnnqlab.train.dgl_mini_batch import unavailable_reason
from gnnqlab.train.link_prediction.settings import TaskSettings
from gnnqlab.train.loop.own_objective import node_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from gnnqlab.train.objectives import ManyLabels, NodeTargets, OneLabel, Scores
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

GRAPH = random_graph(seed=2)
MODEL = ModelSettings(name="gcn", layers=2, hidden=8, dropout=0.0)
SETTINGS = TrainSettings(epochs=2, lr=0.05)


class Smoothed(OneLabel):
    def summed_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=0.1)


class Margin:
    """An objective without a base class: a squared margin over the training nodes."""

    score = "accuracy"
    further_scores = ()
    channels = ()

    def __init__(self, targets: NodeTargets) -> None:
        self.targets = targets
        self.plain = OneLabel(targets)

    def loss(self, logits: Tensor, context: Any = None) -> Tensor:
        rows, labels = logits[self.targets.train_rows], self.targets.labels[self.targets.train_rows]
        wanted = functional.one_hot(labels, self.targets.num_classes)
        return (rows - wanted).square().sum() / self.targets.global_train

    def scores(self, logits: Tensor, context: Any = None, *, distributed: bool) -> Scores:
        return self.plain.scores(logits, distributed=distributed)

    def train_counts(self, logits: Tensor) -> tuple[float, float]:
        return self.plain.train_counts(logits)


class Mean(OneLabel):
    def summed_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(logits, labels)


class Broken(OneLabel):
    def summed_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        raise IndexError("of the user")


class Vector(Margin):
    def loss(self, logits: Tensor, context: Any = None) -> Tensor:
        return logits.sum(1)


class Number(Margin):
    def loss(self, logits: Tensor, context: Any = None) -> Any:
        return 1.0


class Constant(Margin):
    def loss(self, logits: Tensor, context: Any = None) -> Tensor:
        return super().loss(logits.detach())


class OwnScore(Margin):
    score = "recall"


class OwnFurtherScore(Margin):
    further_scores: Any = ("top5",)


class Pair(Margin):
    def scores(self, logits: Tensor, context: Any = None, *, distributed: bool) -> Any:
        return 0.5, 0.5


class Partial:
    score = "accuracy"

    def __init__(self, targets: NodeTargets) -> None:
        self.channels = ()

    def loss(self, logits: Tensor, context: Any = None) -> Tensor:
        return logits.sum()


class Constructed(OneLabel):
    def __init__(self, targets: NodeTargets, gamma: float) -> None:
        super().__init__(targets)


class Trained(nn.Module):
    score, further_scores, channels = "accuracy", (), ()
    loss = scores = train_counts = nn.Module.forward

    def __init__(self, targets: NodeTargets) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))


def name(kind: type) -> str:
    return f"{__name__}:{kind.__name__}"


def test_loss_equals_the_label_smoothing_of_torch() -> None:
    logits = torch.randn(GRAPH.num_nodes, GRAPH.num_classes, generator=torch.Generator().manual_seed(3))
    rows = GRAPH.train_idx
    expected = functional.cross_entropy(logits[rows], GRAPH.labels[rows], label_smoothing=0.1)
    assert float(node_objective(GRAPH, own=name(Smoothed)).loss(logits)) == pytest.approx(float(expected))


def scores_of(trainer: Trainer) -> dict[str, float]:
    scores = trainer.evaluate(3)
    return {"train": scores.train, "val": scores.val, "test": scores.test, **scores.further_scores}


def on_rank(rank: int, workers: int, owner: Tensor, own: str) -> Any:
    trainer = worker_trainer(
        build_shard(GRAPH, owner, rank, workers), replace(vanilla()), MODEL, SETTINGS, task=TaskSettings(objective=own)
    )
    return [trainer.epoch(epoch) for epoch in range(3)], scores_of(trainer)


@each("kind", [Smoothed, Margin])
@each("workers", [1, 2, 3])
def test_workers_agree_with_one_process(workers: int, kind: type) -> None:
    network = build_model(MODEL, GRAPH.num_features, GRAPH.num_classes, seed=SETTINGS.seed)
    alone = Trainer(LocalGraph(GRAPH), node_objective(GRAPH, own=name(kind)), network, SETTINGS)
    expected = [alone.epoch(epoch) for epoch in range(3)]
    scores = scores_of(alone)
    owner = Random(seed=1).cut(GRAPH, workers).owner
    for losses, found in run_ranks(on_rank, workers, owner, name(kind)):
        assert losses == pytest.approx(expected, rel=1e-5) and found == pytest.approx(scores)


def test_check_law_compares_an_own_objective() -> None:
    assert check_law("gcn", workers=(2,), layers=2, objective=name(Smoothed)).max_difference < 1e-5
    with pytest.raises(ValueError, match="must be a sum over nodes"):
        check_law("gcn", workers=(2,), layers=2, objective=name(Mean))


@each(
    ("kind", "error"),
    [
        (Mean, r"summed_loss of .* must be a sum over nodes, got .* for 8 nodes and nan \+ .*; use reduction='sum'"),
        (Broken, "must return a number for 8 nodes, and for none, got IndexError: of the user"),
        (Vector, r"must return one float in a tensor of shape \(\), got a tensor torch.float32 of shape \(60,\)"),
        (Number, r"must return one float in a tensor of shape \(\), got <class 'float'>"),
        (Constant, "must be differentiable, got one without a gradient"),
        (OwnScore, "score of .* must be one of accuracy, f1_micro, auc, r2, got 'recall'"),
        (OwnFurtherScore, "further_scores of .* must be among mrr, macro_f1, balanced_accuracy, got top5"),
        (Pair, "scores of .* must return Scores, got tuple"),
        (Partial, "got no further_scores, scores, train_counts; derive it from gnnqlab.objectives.OneLabel"),
        (Constructed, "must be constructed from its NodeTargets alone, got TypeError"),
        (Trained, "must have no parameters, which no optimizer would train, got 3"),
        (ManyLabels, "must have a graph with several labels per node, got one with one label"),
    ],
)
def test_wrong_classes_are_refused_before_a_launch(kind: type, error: str) -> None:
    module = __name__ if kind is not ManyLabels else "gnnqlab.train.objectives"
    task = TaskSettings(objective=f"{module}:{kind.__name__}")
    with pytest.raises(ValueError, match=error):
        task.require_graph(GRAPH)


@each(
    ("text", "error"),
    [
        ("focal", "must name a class as module:Class, got 'focal': it has no colon"),
        ("no_such_module:Focal", "got 'no_such_module:Focal': No module named 'no_such_module'"),
        (f"{__name__}:Focal", "has no attribute 'Focal'"),
        ("torch.nn.functional:cross_entropy", "must name a class, got .*, a function; derive it from"),
    ],
)
def test_names_without_a_class_are_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        TaskSettings(objective=text)


def test_objective_where_it_would_be_ignored_is_refused() -> None:
    own = name(Smoothed)
    with pytest.raises(ValueError, match="objective needs task 'nodes', got '.*:Smoothed' with 'links'"):
        TaskSettings(task="links", objective=own)
    with pytest.raises(ValueError, match="class_weights need the loss of the package, got 'balanced'"):
        TaskSettings(objective=own, class_weights="balanced")
    config = gq.configure("sbm:60,3,6", objective=own, layers=2, hidden=8)
    with pytest.raises(ValueError, match=r"gq.theory.check has the loss of the package, got objective"):
        gq.theory.check(config, repeats=2)
    assert "its loss has no objective" in unavailable_reason(config) or "DGL" in unavailable_reason(config)


def test_the_command_line_finds_modules_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_smoothed.py").write_text(f"from {__name__} import Smoothed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    options = Options(graph="sbm:60,3,6", option_texts={"objective": "my_smoothed.py:Smoothed"})
    assert options.configure("vanilla").task.objective == "my_smoothed:Smoothed"


def test_objective_is_stored_and_absent_ones_leave_the_digest_of_version_0_9() -> None:
    config = gq.configure("sbm:60,3,6", objective=name(Smoothed))
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    plain = gq.configure("sbm:60,3,6")
    old = plain.to_json()
    del old["task"]["objective"]
    assert config_digest(RunConfig.from_json(old)) == config_digest(plain) != config_digest(config)


def test_several_labels_per_node() -> None:
    graph = random_graph(multi_label=True)
    objective = node_objective(graph, own="gnnqlab.train.objectives:ManyLabels")
    loss = float(objective.loss(torch.zeros(graph.num_nodes, graph.num_classes)))
    assert loss == pytest.approx(graph.num_classes * math.log(2))
    with pytest.raises(ValueError, match="must have a graph with one label per node, got one with several labels"):
        node_objective(graph, own=name(Smoothed))
