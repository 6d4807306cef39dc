"""Scores of links, compared with values worked out by hand, and the objective of a graph without links to score."""

from __future__ import annotations

import math

import pytest
import torch

from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.graph import Graph
from gnnqlab.graph.link_split import TEST, TRAIN, VAL, split_links
from gnnqlab.partition.link_share import share_links
from gnnqlab.train.link_prediction.decoder import Decoder
from gnnqlab.train.link_prediction.negatives import FIXED, draw_pool
from gnnqlab.train.link_prediction.objective import LinkObjective
from gnnqlab.train.link_prediction.settings import TaskSettings
from tests.graphs import random_graph

NODES, SEED = 60, 2


def objective_of(**settings):
    task = TaskSettings(task="links", num_candidates=20, negative_pool=30, **settings)
    split = split_links(random_graph(seed=1), val=task.val_share, test=task.test_share, seed=SEED)
    share = share_links(split, torch.zeros(NODES, dtype=torch.int64), 1)[0]
    owned = torch.arange(NODES)
    return split, LinkObjective(share, owned, Decoder("dot", 4, seed=0), task, None, rank=0, workers=1, seed=SEED)


def test_ties_count_as_half() -> None:
    split, objective = objective_of(val_share=0.2, test_share=0.2)
    found = objective.scores(torch.zeros(NODES, 4), AggregationContext(2, 0, training=False), distributed=False)
    assert (found.train, found.val, found.test) == (0.5, 0.5, 0.5)
    pool = set(draw_pool(NODES, 20, seed=SEED, epoch=0, use=FIXED).tolist())
    for name, kind in (("val_mrr", VAL), ("test_mrr", TEST)):
        links = [
            (int(u), int(v)) for u, v in zip(split.sources[split.kinds == kind], split.targets[split.kinds == kind])
        ]
        ranks = [1 + len(pool - set(link)) / 2 for link in links]
        assert found.further_scores[name] == pytest.approx(sum(1 / rank for rank in ranks) / len(ranks))


def test_perfect_rows_have_perfect_scores() -> None:
    # Scores are 1 for links and -1 for all other pairs: the embeddings factor such a matrix, which a larger diagonal
    # makes positive definite.
    split, objective = objective_of(val_share=0.2, test_share=0.2)
    wanted = torch.full((NODES, NODES), -1.0, dtype=torch.float64)
    wanted[split.sources, split.targets] = wanted[split.targets, split.sources] = 1.0
    wanted.fill_diagonal_(0.0)
    wanted += 1.1 * float(-torch.linalg.eigvalsh(wanted).min()) * torch.eye(NODES, dtype=torch.float64)
    rows = torch.linalg.cholesky(wanted).float()
    found = objective.scores(rows, AggregationContext(2, 0, training=False), distributed=False)
    known = {frozenset(pair) for pair in zip(split.sources.tolist(), split.targets.tolist(), strict=True)}
    # Negatives may be links by chance, which tie; no other pair scores as high.
    assert min(found.train, found.val, found.test) > 0.9 and len(known) == split.kinds.numel()
    assert objective.loss(rows, AggregationContext(2, 0, training=True)) < objective.loss(
        -rows.flip(0), AggregationContext(2, 0, training=True)
    )
    right, count = objective.train_counts(rows)
    assert count == split.count(TRAIN) and 0 <= right <= count


def test_split_without_held_out_links_has_no_score() -> None:
    _, objective = objective_of(val_share=0.0, test_share=0.3)
    found = objective.scores(torch.randn(NODES, 4), AggregationContext(2, 0, training=False), distributed=False)
    assert math.isnan(found.val) and math.isnan(found.further_scores["val_mrr"]) and math.isnan(found.train)
    assert 0 <= found.test <= 1


def test_a_graph_without_a_third_node_is_refused() -> None:
    split = split_links(Graph.from_edges([0], [1], num_nodes=2), val=0, test=0)
    share = share_links(split, torch.zeros(2, dtype=torch.int64), 1)[0]
    task, decoder = TaskSettings(task="links"), Decoder("dot", 4, seed=0)
    with pytest.raises(ValueError, match="neither end of its link, got a graph of 2 nodes; use a larger"):
        LinkObjective(share, torch.arange(2), decoder, task, None, rank=0, workers=1, seed=0)
