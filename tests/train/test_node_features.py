"""Node features of a run: columns of the degree are those of the whole graph on every worker, up to the prediction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import gnnqlab as gq
from gnnqlab.graph import Graph
from gnnqlab.graph.features import degree_features
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.partition.training_shard import build_training_shard, training_edges
from gnnqlab.systems import make_system, vanilla
from gnnqlab.train.checkpoints.state import config_digest
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.link_prediction.settings import TaskSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from gnnqlab.train.node_features import with_node_features
from gnnqlab.train.shard_cache import prepare_shards
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

MODEL = ModelSettings(name="gcn", layers=2, hidden=8, dropout=0.0)
SETTINGS = TrainSettings(epochs=3, lr=0.05)
SHAPE = {"layers": 2, "hidden": 8, "epochs": 3, "dropout": 0.0}


def bare(**options: Any) -> Graph:
    """Return a random graph without features."""
    return random_graph(**options)._replace(features=torch.empty(60, 0))


def test_columns_of_degrees_are_those_of_the_formula() -> None:
    rows = degree_features(torch.tensor([0, 1, 6, 7, 2**14 - 2, 2**14 - 1, 2**40]))
    assert rows[:, 0].tolist() == pytest.approx([0, 0.693147, 1.945910, 2.079442, 9.704, 9.70406, 27.7259], rel=1e-4)
    assert rows[:, 1:].argmax(1).tolist() == [0, 1, 2, 3, 13, 14, 14]
    assert rows[:, 1:].sum(1).tolist() == [1.0] * 7
    assert degree_features(torch.tensor([2.5], dtype=torch.float64))[0, 2] == 1.0  # sums of edge weights


@each("system", ["vanilla", "cdfgnn", "cagnet"])
@each("weighted", [False, True])
def test_shards_of_every_cut_have_the_rows_of_the_whole_graph(system: str, weighted: bool) -> None:
    graph = bare(seed=1, directed=system != "cdfgnn", weighted=weighted)
    whole = with_node_features(graph, "degree").features
    cut = make_system(system).partition.cut(graph, 3)
    for rank in range(3):
        shard = with_node_features(cut.shard(graph, rank), "degree")
        assert torch.equal(shard.features, whole[shard.row_ids])


def on_rank(rank: int, workers: int, graph: Graph, owner: torch.Tensor) -> Any:
    shard = with_node_features(build_shard(graph, owner, rank, workers), "degree")
    trainer = worker_trainer(shard, vanilla(), MODEL, SETTINGS)
    return [trainer.epoch(epoch) for epoch in range(3)], trainer.evaluate(3)


@each("workers", [1, 2, 3])
def test_workers_agree_with_one_process(workers: int) -> None:
    graph = bare(seed=workers)
    network = build_model(MODEL, 16, graph.num_classes, seed=SETTINGS.seed)
    alone = Trainer(LocalGraph(graph.with_degree_features()), label_objective(graph), network, SETTINGS)
    losses, scores = [alone.epoch(epoch) for epoch in range(3)], alone.evaluate(3)
    for found, others in run_ranks(on_rank, workers, graph, Random(seed=1).cut(graph, workers).owner):
        assert found == pytest.approx(losses, rel=1e-5)
        assert (others.train, others.val, others.test) == pytest.approx((scores.train, scores.val, scores.test))


def test_training_shards_have_degrees_of_the_subgraph() -> None:
    graph = bare(seed=3)
    rows = with_node_features(training_edges(graph), "degree").features
    assert not torch.equal(rows, graph.with_degree_features().features)
    shard = with_node_features(build_training_shard(graph, torch.arange(60) % 2, 1, 2), "degree")
    assert torch.equal(shard.features, rows[shard.owned])


def test_launched_run_predicts_with_the_same_columns(tmp_path: Path) -> None:
    graph = bare(seed=5)
    run = gq.launch(graph, workers=2, node_features="degree", **SHAPE, out=tmp_path, wait=True)
    accuracy = float((run.predict().argmax(1) == graph.labels)[graph.test_mask].float().mean())
    assert accuracy == pytest.approx(run.summary["test_accuracy"], abs=1e-4)
    assert torch.equal(run.predict(graph), run.predict())
    assert run.embeddings(layer=0).shape == (60, 16)
    assert run.config.task.node_features == "degree"


def test_links_use_degrees_without_the_held_out_edges(tmp_path: Path) -> None:
    graph = random_graph(seed=6, edges=400)._replace(features=torch.empty(60, 0))
    run = gq.launch(graph, workers=2, task="links", node_features="degree", **SHAPE, out=tmp_path, wait=True)
    rows = run.embeddings(layer=0)
    assert torch.equal(rows, degree_features(run.link_split().graph.in_degrees))
    assert not torch.equal(rows, degree_features(graph.in_degrees))


def test_graph_without_features_is_refused_with_the_way_out(tmp_path: Path) -> None:
    graph = bare()
    with pytest.raises(ValueError, match=r"has no features; .*\(--node-features\) to 'degree' or 'learned'"):
        gq.configure(graph)
    with pytest.raises(ValueError, match=r"needs node features, .*\(--node-features\) to 'degree' or 'learned'"):
        gq.configure(graph, task="links")
    with pytest.raises(ValueError, match="has no labels"):
        empty = {f"{split}_mask": torch.zeros(60, dtype=torch.bool) for split in ("train", "val", "test")}
        gq.configure(graph._replace(labels=torch.full((60,), -1), **empty), node_features="degree")
    with pytest.raises(ValueError, match="gq.probe uses the features of the graph.*with_degree_features"):
        gq.configure(graph, node_features="degree").require_nodes("gq.probe")
    with pytest.raises(ValueError, match="node_features must be 'given', 'degree' or 'learned', got 'ones'"):
        gq.configure(graph, node_features="ones")


def test_cached_shards_of_a_bare_graph_are_refused_before_a_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))
    path = str(bare().save(tmp_path / "bare"))
    config = gq.configure(path, node_features="degree")
    prepare_shards(config, config.task.require_graph)
    prepare_shards(config, config.task.require_graph)  # cached
    given = replace(config, task=TaskSettings())
    with pytest.raises(ValueError, match="needs node features"):
        prepare_shards(given, given.task.require_graph)


def test_the_default_leaves_digests_of_earlier_checkpoints_unchanged() -> None:
    config = gq.configure("digits")
    assert config_digest(config) != config_digest(replace(config, task=TaskSettings(node_features="degree")))
    value = config.to_json()
    del value["task"]["node_features"]
    assert config_digest(type(config).from_json(value)) == config_digest(config)
