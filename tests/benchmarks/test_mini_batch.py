"""Mini-batches: with every neighbour in one batch they equal full-graph training; impossible settings are refused."""

from __future__ import annotations

import math

import pytest
import torch

import gnnqlab as gq
from gnnqlab.kernels.sparse.aggregate import aggregate
from gnnqlab.nn import LocalGraph, build_model
from gnnqlab.train import dgl_mini_batch as mini_batch
from gnnqlab.train.dgl_mini_batch import MiniBatch, unavailable_reason
from tests.cases import each
from tests.graphs import random_graph

pytest.importorskip("dgl")


@each("model", ["gcn", "graphsage", "gat"])
@each("features", [12, 40])  # narrower and wider than hidden: rows are projected last, or first
def test_all_neighbours_give_the_rows_of_the_whole_graph(model, features):
    graph = random_graph(directed=True, features=features)
    config = gq.configure("digits", model=model, layers=3, hidden=16, dropout=0.0)
    network = build_model(config.model, graph.num_features, graph.num_classes, seed=1)
    batches = mini_batch._Batches(graph, layers=3, settings=MiniBatch(fanout=10_000, batch_size=7), seed=0)
    whole = LocalGraph(graph)
    truth = network(whole.open_pass(0, training=True), whole.features)
    seen = []
    for seeds, inputs, blocks in batches:
        logits = mini_batch.forward(network, blocks, graph.features[inputs], drop=lambda h, *_: h)
        torch.testing.assert_close(logits, truth[seeds], rtol=1e-4, atol=1e-5)
        seen.append(seeds)
    assert torch.equal(torch.cat(seen).sort().values, graph.train_mask.nonzero().flatten())


def test_a_sampled_sum_keeps_its_mean():
    graph = random_graph(nodes=30, edges=300, isolated=0)
    batches = mini_batch._Batches(graph, layers=1, settings=MiniBatch(fanout=3, batch_size=100), seed=0)
    exact = LocalGraph(graph).open_pass(0, training=True).aggregate(graph.features, alpha="symmetric")
    sums = []
    for _ in range(500):
        for seeds, inputs, (block,) in batches:
            rows = aggregate(block.adjacency("symmetric"), graph.features[inputs])
            sums.append(torch.zeros_like(exact).index_copy_(0, seeds, rows))
    chosen = graph.train_mask
    off = torch.stack(sums)[:, chosen] - exact[chosen]
    # 5.5 standard errors: 10 x 12 means exceed them by chance in one of 10^5 runs
    assert (off.mean(0).abs() <= 5.5 * off.std(0) / len(sums) ** 0.5 + 1e-5).all()


def test_mini_batch_training_is_reproducible_accurate_and_comparable():
    graph = gq.load("digits")
    config = gq.configure("digits", model="graphsage", layers=2, hidden=32, epochs=8)
    line = MiniBatch(batch_size=128).train(graph, config)
    again = MiniBatch(batch_size=128).train(graph, config)
    assert line.records["loss"].tolist() == again.records["loss"].tolist()  # seeded
    assert line.summary["test_accuracy"] > 0.9
    comparison = gq.compare([line])
    assert not math.isnan(comparison.to_frame().loc["mini-batch", "to_target_s"])


def test_unsupported_model_missing_dgl_and_bad_fanout_raise_errors(monkeypatch):
    config = gq.configure("digits", model="sgc")
    assert "it supports the models gcn, graphsage, gat, got sgc" in unavailable_reason(config)
    with pytest.raises(RuntimeError, match="no mini-batch reference: it supports the models"):
        MiniBatch().train(random_graph(), config)
    monkeypatch.setattr(mini_batch.importlib.util, "find_spec", lambda name: None)
    assert unavailable_reason(gq.configure("digits")) == "DGL, which samples the neighbours, is not installed"
    with pytest.raises(ValueError, match="fanout and batch_size must be at least 1, got 0 and 1024"):
        MiniBatch(fanout=0)
