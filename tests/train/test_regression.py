"""Regression: loss and scores equal those of torch and scikit-learn, also for workers, from tables to predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional

import gnnqlab as gq
from gnnqlab.graph import Graph
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

MODEL = ModelSettings(name="gcn", layers=2, hidden=8, dropout=0.0)
SETTINGS = TrainSettings(epochs=2, lr=0.05)


def with_numbers(columns: int = 2, seed: int = 0) -> Graph:
    """Return a graph with numbers to predict, some of them unknown, of nodes that no split has."""
    graph = random_graph(seed=seed, nodes=60)
    generator = torch.Generator().manual_seed(seed)
    targets = 3 + 2 * torch.randn(60, columns, generator=generator)
    targets[50:55] = torch.nan
    graph = graph._replace(
        labels=targets,
        num_classes=columns,
        train_mask=graph.train_mask & False,
        val_mask=graph.val_mask & False,
        test_mask=graph.test_mask & False,
    )
    return graph.with_split(range(30), range(30, 40), range(40, 50))


def test_loss_and_scores_equal_the_references() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    graph = with_numbers()
    objective = label_objective(graph)
    rows = torch.randn(60, 2, generator=torch.Generator().manual_seed(1)) + 3
    expected = functional.mse_loss(rows[:30], graph.labels[:30])
    assert float(objective.loss(rows)) == pytest.approx(float(expected))
    scores = objective.scores(rows, distributed=False)
    truth, predicted = graph.labels.numpy(), rows.numpy()
    for found, nodes in ((scores.train, slice(30)), (scores.val, slice(30, 40)), (scores.test, slice(40, 50))):
        assert found == pytest.approx(sklearn.r2_score(truth[nodes], predicted[nodes]))
    test = truth[40:50], predicted[40:50]
    assert scores.further_scores["test_mae"] == pytest.approx(sklearn.mean_absolute_error(*test))
    assert scores.further_scores["test_mse"] == pytest.approx(sklearn.mean_squared_error(*test))
    counts = objective.train_counts(rows)
    one = label_objective(with_numbers(columns=1))
    numerator, denominator = one.train_counts(rows[:, :1])
    assert numerator / denominator == pytest.approx(sklearn.r2_score(with_numbers(1).labels[:30], rows[:30, :1]))
    assert counts[1] > 0


def on_rank(rank: int, workers: int, graph: Graph, owner: torch.Tensor) -> Any:
    trainer = worker_trainer(build_shard(graph, owner, rank, workers), replace(vanilla()), MODEL, SETTINGS)
    losses = [trainer.epoch(epoch) for epoch in range(3)]
    return losses, trainer.evaluate(3)


@each("workers", [2, 3])
def test_workers_agree_with_one_process(workers: int) -> None:
    graph = with_numbers(seed=2)
    network = build_model(MODEL, graph.num_features, 2, seed=SETTINGS.seed)
    alone = Trainer(LocalGraph(graph), label_objective(graph), network, SETTINGS)
    losses = [alone.epoch(epoch) for epoch in range(3)]
    scores = alone.evaluate(3)
    for found, others in run_ranks(on_rank, workers, graph, Random(seed=1).cut(graph, workers).owner):
        assert found == pytest.approx(losses, rel=1e-4)
        assert (others.train, others.val, others.test) == pytest.approx(
            (scores.train, scores.val, scores.test), rel=1e-4
        )
        assert others.further_scores == pytest.approx(scores.further_scores, rel=1e-4)


def test_prices_in_a_table_come_back_as_predictions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"flat-{k}" for k in range(60)]
    edges = pd.DataFrame({"from": rng.choice(names, 200), "to": rng.choice(names, 200)})
    size = rng.random(60)
    nodes = pd.DataFrame({"id": names, "size": size, "price": [*(2 * size[:50] + 1), *[None] * 10]})
    graph = gq.read_edges(edges, nodes, targets="price")
    assert (graph.is_regression, graph.num_features, int(graph.train_mask.sum())) == (True, 1, 30)
    assert "targets=1, regression" in repr(graph)
    run = gq.launch(
        graph,
        model="graphsage",
        workers=2,
        epochs=60,
        layers=2,
        hidden=16,
        lr=0.05,
        dropout=0.0,
        out=tmp_path,
        wait=True,
    )
    assert run.summary["test_r2"] > 0.5
    assert run.summary["test_mae"] < 0.5
    table = run.predictions()
    assert list(table) == ["id", "prediction_price", "target_price", "split"]
    known = table.dropna(subset="target_price")
    assert np.corrcoef(known["prediction_price"], known["target_price"])[0, 1] > 0.7
    assert len(known) == 50
    assert "R²" in str(gq.compare([run]))
    saved = gq.Graph.load(graph.save(tmp_path / "saved"))
    assert saved.content_hash == graph.content_hash and saved.is_regression


@each(
    ("make", "text"),
    [
        (
            lambda: Graph.from_edges([0], [1], num_nodes=2, labels=[0, 1], targets=[0.5, 1]),
            "labels .* or targets .*, got both",
        ),
        (
            lambda: Graph.from_edges([0], [1], num_nodes=2, targets=[0.5, torch.inf]),
            "targets must be finite, .*, got .inf. at node 1",
        ),
        (
            lambda: label_objective(with_numbers(), class_weights="balanced"),
            "class_weights need classes, got 'balanced' for numbers",
        ),
        (
            lambda: gq.read_edges(
                pd.DataFrame({"src": [0], "dst": [1]}),
                pd.DataFrame({"label": [0, 1], "price": [1, 2]}),
                targets="price",
            ),
            "classes or numbers to predict, got column label and column price",
        ),
    ],
)
def test_wrong_targets_are_refused(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_equal_targets_have_no_score() -> None:
    graph = with_numbers(columns=1)
    graph = graph._replace(labels=torch.where(graph.labels.isnan(), torch.nan, 2.0))
    scores = label_objective(graph).scores(torch.zeros(60, 1), distributed=False)
    assert scores.train != scores.train and scores.val != scores.val  # NaN, not an infinite score
    assert scores.further_scores["test_mae"] == 2.0
