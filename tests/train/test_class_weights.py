"""Weights of classes and scores of unequal classes, compared with torch and scikit-learn, for several workers."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

from gnnqlab.graph import Graph
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.link_prediction.settings import TaskSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

MODEL = ModelSettings(name="gcn", layers=2, hidden=8, dropout=0.0)
SETTINGS = TrainSettings(epochs=2, lr=0.05)


def unequal(seed: int = 0, nodes: int = 80) -> Graph:
    """Return a graph with 4 classes, one of which has 3 training nodes, and one none."""
    graph = random_graph(seed=seed, nodes=nodes, edges=300)
    labels = torch.where(torch.arange(nodes) % 11 == 0, 2, torch.arange(nodes) % 2)
    graph = graph._replace(labels=labels)
    return graph.with_split(range(0, nodes, 2), range(1, nodes, 4), range(3, nodes, 4))


def reference_scores(truth: torch.Tensor, predicted: torch.Tensor) -> tuple[float, float]:
    """Return macro-F1 and balanced accuracy, class by class."""
    f1, recalls = [], []
    for kind in sorted({*truth.tolist(), *predicted.tolist()}):
        hits = int(((truth == kind) & (predicted == kind)).sum())
        f1.append(2 * hits / (int((truth == kind).sum()) + int((predicted == kind).sum())))
        if (truth == kind).any():
            recalls.append(hits / int((truth == kind).sum()))
    return sum(f1) / len(f1), sum(recalls) / len(recalls)


def test_scores_of_unequal_classes_equal_the_reference() -> None:
    graph = unequal()
    objective = label_objective(graph)
    assert objective.further_scores == ("macro_f1", "balanced_accuracy")
    logits = torch.randn(80, 4, generator=torch.Generator().manual_seed(3))
    scores = objective.scores(logits, distributed=False).further_scores
    for split, mask in (("val", graph.val_mask), ("test", graph.test_mask)):
        expected = reference_scores(graph.labels[mask], logits.argmax(1)[mask])
        found = scores[f"{split}_macro_f1"], scores[f"{split}_balanced_accuracy"]
        assert found == pytest.approx(expected)
        sklearn = pytest.importorskip("sklearn.metrics")
        truth, predicted = graph.labels[mask].numpy(), logits.argmax(1)[mask].numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes that are predicted only
            by_sklearn = (
                sklearn.f1_score(truth, predicted, average="macro"),
                sklearn.balanced_accuracy_score(truth, predicted),
            )
        assert found == pytest.approx(by_sklearn)


def test_equal_classes_have_no_further_scores() -> None:
    graph = random_graph(seed=1)._replace(labels=torch.arange(60) % 4).with_split(range(40), range(40, 60))
    objective = label_objective(graph)
    assert objective.further_scores == ()
    assert objective.scores(torch.zeros(60, 4), distributed=False).further_scores == {}


@each("text", ["balanced", "1,0.5,4,2"])
def test_loss_equals_the_weighted_cross_entropy_of_torch(text: str) -> None:
    graph = unequal()
    logits = torch.randn(80, 4, generator=torch.Generator().manual_seed(3))
    labels = graph.labels[graph.train_idx]
    counts = torch.bincount(labels, minlength=4)
    balanced = torch.where(counts > 0, labels.numel() / (4 * counts.clamp(min=1)), 0.0)
    weights = balanced if text == "balanced" else torch.tensor([1, 0.5, 4, 2])
    expected = functional.cross_entropy(logits[graph.train_idx], labels, weights)
    assert float(label_objective(graph, class_weights=text).loss(logits)) == pytest.approx(float(expected))


def on_rank(rank: int, workers: int, graph: Graph, owner: torch.Tensor) -> Any:
    shard = build_shard(graph, owner, rank, workers)
    task = TaskSettings(class_weights="balanced")
    trainer = worker_trainer(shard, replace(vanilla()), MODEL, SETTINGS, task=task)
    losses = [trainer.epoch(epoch) for epoch in range(3)]
    return losses, trainer.evaluate(3).further_scores


@each("workers", [2, 3])
def test_workers_agree_with_one_process(workers: int) -> None:
    graph = unequal(seed=2)
    network = build_model(MODEL, graph.num_features, graph.num_classes, seed=SETTINGS.seed)
    alone = Trainer(LocalGraph(graph), label_objective(graph, class_weights="balanced"), network, SETTINGS)
    losses = [alone.epoch(epoch) for epoch in range(3)]
    scores = alone.evaluate(3).further_scores
    for found, further in run_ranks(on_rank, workers, graph, Random(seed=1).cut(graph, workers).owner):
        assert found == pytest.approx(losses, rel=1e-5)
        assert further == pytest.approx(scores)


@each(
    ("text", "error"),
    [
        ("heavy", "must be 'balanced' or numbers separated by commas, got 'heavy'"),
        ("1,2", "must be one for each of 4 classes, got 2 in '1,2'"),
        ("1,-1,1,1", "must be finite, at least 0"),
        ("0,0,0,1", "not 0 for all training nodes"),
    ],
)
def test_weights_that_do_not_fit_are_refused(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        label_objective(unequal(), class_weights=text)


def test_weights_where_they_would_be_ignored_are_refused() -> None:
    with pytest.raises(ValueError, match="class_weights need task 'nodes', got 'balanced' with 'links'"):
        TaskSettings(task="links", class_weights="balanced")
    with pytest.raises(ValueError, match="class_weights need one class per node"):
        label_objective(random_graph(multi_label=True), class_weights="balanced")
