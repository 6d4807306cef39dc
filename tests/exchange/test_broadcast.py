"""Blocks broadcast in turn: the law, what travels, what stays home, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gnnqlab as gq
from gnnqlab.exchange.schedule import Overlapped
from gnnqlab.nn import ModelSettings
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.systems import cagnet, sancus
from gnnqlab.train.config import TrainSettings
from gnnqlab.train.trainer import worker_trainer
from tests.agreement import assert_same_training
from tests.graphs import random_graph
from tests.nn.test_law import one_process, train
from tests.ranks import run_ranks

SETTINGS = TrainSettings(seed=5, weight_decay=1e-3)
EXACT = {
    "cagnet": cagnet(),
    "overlapped": replace(cagnet(), schedule=Overlapped()),
    "sancus, ε = 0": sancus(epsilon=0.0),
    "sancus, every epoch": replace(sancus(rule="fixed", every=1), schedule=Overlapped()),
    "sancus, warm-up": sancus(rule="age", every=9, warm_up=9),
    "sancus, as released": sancus(epsilon=9.0, as_released=True),
}


def shape(name):
    return ModelSettings(name=name, layers=3, hidden=16, dropout=0.3, input_dropout=0.1)


def on_rank(rank, workers, graph, systems, models):
    found = {}
    for case, system in systems.items():
        shard = system.partition.cut(graph, workers).shard(graph, rank)
        for name in models:
            found[case, name] = train(worker_trainer(shard, system, shape(name), SETTINGS))
    return found


def assert_law(workers, graph, systems, models):
    results = run_ranks(on_rank, workers, graph, systems, models, timeout_s=200)
    for name in models:
        truth = one_process(graph, shape(name), SETTINGS)
        for case in systems:
            found = [result[case, name] for result in results]
            try:
                assert_same_training(found, truth)
                assert all(each["scores"] == truth["scores"] for each in found)
            except AssertionError as error:
                error.add_note(f"{case}, {name}")
                raise


@pytest.mark.parametrize(("workers", "directed", "features", "self_loops"), [
    (1, True, 12, "add"),
    (2, True, 40, "remove"),
    (3, False, 40, "add"),
    (4, True, 12, "add"),
])  # fmt: skip
def test_workers_equal_one_process(workers, directed, features, self_loops):
    graph = random_graph(nodes=61, directed=directed, features=features, self_loops=self_loops, seed=workers)
    systems = EXACT if workers in (1, 3) else {name: EXACT[name] for name in ("cagnet", "overlapped", "sancus, ε = 0")}
    assert_law(workers, graph, systems, sorted(MODELS))


REPLICATED = {
    "cagnet, c = 2": cagnet(replication=2),
    "overlapped": replace(cagnet(replication=2), schedule=Overlapped()),
    "skipped": replace(cagnet(replication=2), cache=gq.StaleBlocks(epsilon=0.0)),
}
OF_SUMS = sorted(set(MODELS) - {"gat"})


@pytest.mark.parametrize(
    ("workers", "features", "systems"), [(4, 40, REPLICATED), (8, 12, {"cagnet": cagnet(replication=2)})]
)
def test_replicated_blocks_equal_one_process(workers, features, systems):
    graph = random_graph(nodes=61, directed=True, features=features, seed=workers)
    assert_law(workers, graph, systems, OF_SUMS if workers == 4 else ["graphsage"])
