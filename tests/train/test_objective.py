"""Losses and scores, compared with values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from gnnqlab.graph import Graph
from gnnqlab.partition import Random, build_shard
from gnnqlab.train.loop.node_labels import label_objective
from tests.graphs import random_graph


def graph(labels, train=(0, 1), val=(2,), test=(3,)):
    return Graph.from_edges(
        torch.tensor([0, 1]),
        torch.tensor([1, 2]),
        num_nodes=4,
        features=torch.eye(4),
        labels=labels,
        train_idx=torch.tensor(train),
        val_idx=torch.tensor(val, dtype=torch.int64),
        test_idx=torch.tensor(test, dtype=torch.int64),
        name="four",
        num_classes=2,
    )


def test_accuracy_and_cross_entropy():
    objective = label_objective(graph(torch.tensor([0, 1, 1, 0])))
    logits = torch.tensor([[0.0, 0.0], [0.0, math.log(3)], [1.0, 0.0], [1.0, 0.0]])
    assert objective.loss(logits).item() == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)
    scores = objective.scores(logits, distributed=False)
    assert (scores.train, scores.val, scores.test) == (1.0, 0.0, 1.0)


def test_micro_f1_sums_before_it_divides():
    labels = torch.tensor([[1, 0], [1, 1], [0, 0], [1, 0]], dtype=torch.uint8)
    objective = label_objective(graph(labels, train=(0, 1), val=(2,), test=(3,)))
    logits = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
    scores = objective.scores(logits, distributed=False)
    # 2 true positives, 1 false positive, 1 false negative
    assert scores.train == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert math.isnan(scores.val)  # no positive label and no positive prediction
    assert scores.test == 0.0
    flat = torch.zeros(4, 2)
    assert objective.loss(flat).item() == pytest.approx(2 * math.log(2))  # summed over classes, mean over nodes


def test_shares_of_workers_add_up_to_the_loss_and_their_splits_to_the_graphs():
    graph = random_graph()
    owner = Random(seed=1).assign(graph, 3)
    logits = torch.randn(graph.num_nodes, graph.num_classes, generator=torch.Generator().manual_seed(0))
    shards = [build_shard(graph, owner, rank, 3) for rank in range(3)]
    parts = [label_objective(shard) for shard in shards]
    whole = label_objective(graph)
    assert len({part.train_rows.numel() for part in parts}) > 1  # with equal numbers a local mean would pass too
    shares = sum(part.loss(logits[shard.owned]) for part, shard in zip(parts, shards, strict=True))
    torch.testing.assert_close(shares, whole.loss(logits))
    for part, shard in zip(parts, shards, strict=True):
        for mine, all_rows in zip(part.masks, whole.masks, strict=True):
            assert torch.equal(mine, all_rows[shard.owned])


def test_graph_without_labelled_training_nodes_raises_value_error():
    structure = Graph.from_edges(torch.tensor([0]), torch.tensor([1]), num_nodes=2, name="structure")
    with pytest.raises(ValueError, match="training needs at least one labelled training node, this graph has none"):
        label_objective(structure)
