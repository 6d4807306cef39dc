"""Trained node embeddings: P workers equal plain PyTorch, with checkpoints, models, predictions and counted bytes."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import gnnqlab as gq
from gnnqlab.graph import Graph
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.checkpoints.tensor_file import read_tensors
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.learned_features import learn_features
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.train.node_features import initial_embeddings, with_node_features
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

SHAPE = {"layers": 2, "hidden": 8, "dropout": 0.0}
EPOCHS = 4


def bare(**options: Any) -> Graph:
    """Return a random graph of 60 nodes without features."""
    return random_graph(**options)._replace(features=torch.empty(60, 0))


def in_pytorch(graph: Graph, model: ModelSettings, settings: TrainSettings) -> tuple[list[float], Tensor, Tensor]:
    """Train a table of embeddings and a model with one optimizer of PyTorch; return losses, embeddings and weights."""
    table = torch.nn.Embedding(60, 8)
    table.weight.data = initial_embeddings(torch.arange(60), 60, 8, seed=settings.seed)
    network = build_model(model, 8, graph.num_classes, seed=settings.seed)
    parameters = [*network.parameters(), *table.parameters()]
    options: dict[str, Any] = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    optimizer: torch.optim.Optimizer = torch.optim.Adam(parameters, **options)
    if settings.optimizer == "sgd":
        optimizer = torch.optim.SGD(parameters, momentum=settings.sgd_momentum, **options)
    local = LocalGraph(graph._replace(features=table.weight.detach()), seed=settings.seed)
    objective, losses, norms = label_objective(graph), [], [torch.inf]
    for epoch in range(EPOCHS):
        optimizer.zero_grad()
        loss = objective.loss(network(local.open_pass(epoch, training=True), table(torch.arange(60))))
        loss.backward()
        if settings.max_gradient_norm is not None:
            norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, settings.max_gradient_norm)))
        optimizer.step()
        losses.append(float(loss.detach()))
    assert settings.max_gradient_norm is None or min(norms) > settings.max_gradient_norm  # each epoch is clipped
    weights = torch.cat([each.detach().flatten() for each in network.parameters()])
    return losses, table.weight.detach(), weights


def on_rank(rank: int, workers: int, graph: Graph, owner: Tensor, model: ModelSettings, settings: TrainSettings) -> Any:
    shard = with_node_features(build_shard(graph, owner, rank, workers), "learned", columns=8, seed=settings.seed)
    trainer = worker_trainer(shard, vanilla(), model, settings)
    learn_features(trainer, 60)
    losses = [trainer.epoch(epoch) for epoch in range(EPOCHS)]
    assert trainer.embeddings is not None
    messages = {(each.direction, each.layer) for each in trainer.take_arrivals()}
    return losses, trainer.embeddings.gather().get("rows"), trainer.parameters.values, messages


@each("name", ["gcn", "graphsage", "gat"])
@each("workers", [1, 2, 3])
def test_workers_agree_with_plain_pytorch(workers: int, name: str) -> None:
    graph, model = bare(seed=workers), ModelSettings(name=name, **SHAPE)
    settings = TrainSettings(lr=0.05, seed=7, weight_decay=1e-3)
    losses, table, weights = in_pytorch(graph, model, settings)
    assert losses[-1] < losses[0]
    results = run_ranks(on_rank, workers, graph, Random(seed=1).cut(graph, workers).owner, model, settings)
    for found, _, values, messages in results:
        assert found == pytest.approx(losses, rel=1e-4)
        torch.testing.assert_close(values, weights, rtol=1e-3, atol=1e-4)
        # Gradients of the halo rows of layer 0 come back, which features would not need.
        assert workers == 1 or ("backward", 0) in messages
    torch.testing.assert_close(results[0][1], table, rtol=1e-3, atol=1e-4)
    assert all(rows is None for _, rows, *_ in results[1:])


@each("momentum", [0.0, 0.9])
def test_sgd_agrees_with_plain_pytorch(momentum: float) -> None:
    graph, model = bare(seed=4), ModelSettings(name="gcn", **SHAPE)
    settings = TrainSettings(lr=0.5, optimizer="sgd", sgd_momentum=momentum)
    losses, table, _ = in_pytorch(graph, model, settings)
    results = run_ranks(on_rank, 2, graph, Random(seed=1).cut(graph, 2).owner, model, settings)
    assert results[1][0] == pytest.approx(losses, rel=1e-4)
    torch.testing.assert_close(results[0][1], table, rtol=1e-3, atol=1e-5)


@each("workers", [1, 3])
def test_clipping_counts_gradients_of_weights_and_embeddings_together(workers: int) -> None:
    graph, model = bare(seed=6), ModelSettings(name="gcn", **SHAPE)
    settings = TrainSettings(lr=0.5, optimizer="sgd", max_gradient_norm=0.02)
    losses, table, weights = in_pytorch(graph, model, settings)
    results = run_ranks(on_rank, workers, graph, Random(seed=1).cut(graph, workers).owner, model, settings)
    for found, _, values, _ in results:
        assert found == pytest.approx(losses, rel=1e-5)
        torch.testing.assert_close(values, weights, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(results[0][1], table, rtol=1e-4, atol=1e-6)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gq.Run:
    return launch(tmp_path_factory.mktemp("learned"), epochs=6)


def launch(out: Path, **settings: Any) -> gq.Run:
    settings = {"system": "adaqp", "workers": 2, "lr": 0.1, **SHAPE, "hidden": 32} | settings
    return gq.launch(bare(seed=5), node_features="learned", out=out, wait=True, **settings)


def test_launched_run_stores_the_embeddings_with_the_model(run: gq.Run, tmp_path: Path) -> None:
    graph = bare(seed=5)
    table = run.model().state_dict()["node_embeddings"]
    start = initial_embeddings(torch.arange(60), 60, 32, seed=0)
    assert table.shape == (60, 32) and not torch.equal(table, start)
    assert torch.equal(run.embeddings(layer=0), table)
    accuracy = float((run.predict().argmax(1) == graph.labels)[graph.test_mask].float().mean())
    assert accuracy == pytest.approx(run.summary["test_accuracy"], abs=1e-4)  # those of the best epoch
    assert torch.equal(run.predict(graph), run.predict())
    local = LocalGraph(graph._replace(features=table))
    model = run.model()
    with torch.no_grad():
        logits = model(local.open_pass(0, training=False), model.node_embeddings)
    torch.testing.assert_close(logits, run.predict())
    last = run.model("last").state_dict()["node_embeddings"]
    assert torch.equal(last, table) == (run.summary["best_epoch"] == 5)
    traffic = run.traffic
    assert set(traffic[traffic["direction"] == "backward"]["layer"]) == {0, 1}
    other = random_graph(nodes=40)
    with pytest.raises(ValueError, match="belong to the 60 nodes that run .* was trained on, got 40 of random"):
        run.predict(other)


@each("workers", [2, 3])
def test_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, workers: int) -> None:
    settings = {"system": "vanilla", "workers": 2}
    whole = launch(tmp_path / f"whole{workers}", epochs=6, **settings)
    parts = launch(tmp_path / f"parts{workers}", epochs=3, checkpoint_every=3, **settings)
    [path] = sorted((parts.folder / "checkpoints").glob("*.safetensors"))[-1:]
    names = {name for name in read_tensors(path, what="checkpoint").tensors if name.startswith("node_embeddings/")}
    assert names == {f"node_embeddings/{name}" for name in ("rows", "best", "average", "square", "steps")}
    with nullcontext() if workers == 2 else pytest.warns(UserWarning, match="continues with 3"):
        resumed = gq.resume(parts, epochs=6, workers=workers, wait=True)
    # With other workers the new run has no records of the first epochs, and so perhaps another best one.
    for epoch in ("best", "last") if workers == 2 else ("last",):
        expected, found = whole.model(epoch).state_dict(), resumed.model(epoch).state_dict()
        for name, tensor in expected.items():
            if workers == 2:
                assert torch.equal(tensor, found[name]), name
            torch.testing.assert_close(tensor, found[name], rtol=1e-3, atol=1e-4)


@each("system", ["pipegcn", "sylvie", "bns-gcn"])
def test_other_systems_of_an_edge_cut_train(tmp_path: Path, system: str) -> None:
    run = launch(tmp_path, system=system, epochs=12)
    losses = run.records["loss"]
    assert losses.iloc[-1] < losses.iloc[0]


def test_links_are_predicted_from_embeddings_alone(tmp_path: Path) -> None:
    run = launch(tmp_path, system="vanilla", epochs=20, task="links")
    assert run.embeddings(layer=0).shape == (60, 32)
    assert run.records["loss"].iloc[-1] < run.records["loss"].iloc[0]


@each(
    ("settings", "text"),
    [
        ({"system": "cdfgnn"}, "need one owner per node, .* got a partition of edges"),
        ({"protocol": "inductive"}, "nodes that training sees, got protocol 'inductive'"),
        ({"input_features": "cache"}, "change in every epoch, got input_features 'cache'"),
        ({"optimizer": "torch.optim:RMSprop"}, "updated by their owner .* got 'torch.optim:RMSprop'"),
    ],
)
def test_settings_without_support_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        gq.configure(bare(), node_features="learned", **settings)
