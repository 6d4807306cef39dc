"""Replicas that add their sums up: the law under cuts of edges, equal copies, noise and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.exchange.replica import Replicas
from gnnqlab.exchange.schedule import Overlapped, Synchronous
from gnnqlab.nn import ModelSettings
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.systems import vanilla
from gnnqlab.train.config import TrainSettings
from gnnqlab.train.trainer import worker_trainer
from tests.agreement import assert_same_training
from tests.exchange.random_edges import EdgesAtRandom
from tests.graphs import random_graph
from tests.nn.test_law import one_process, train
from tests.ranks import run_ranks

SETTINGS = TrainSettings(seed=5, weight_decay=1e-3)
SYSTEM = replace(vanilla(), partition=EdgesAtRandom(), exchange=Replicas())


def shape(name):
    return ModelSettings(name=name, layers=3, hidden=16, dropout=0.3, input_dropout=0.1)


def on_rank(rank, workers, graph, cut, schedule):
    shard, system = cut.shard(graph, rank), replace(SYSTEM, schedule=schedule)
    return {name: train(worker_trainer(shard, system, shape(name), SETTINGS)) for name in sorted(MODELS)}


@pytest.mark.parametrize(("workers", "idle", "directed", "features", "schedule"), [
    (1, 0, False, 12, Synchronous()),
    (2, 0, True, 40, Overlapped()),
    (3, 0, False, 40, Synchronous()),
    (4, 1, True, 12, Overlapped()),
])  # fmt: skip
def test_workers_equal_one_process(workers, idle, directed, features, schedule):
    graph = random_graph(directed=directed, features=features, seed=workers)
    cut = EdgesAtRandom(seed=1, idle=idle).cut(graph, workers)
    results = run_ranks(on_rank, workers, graph, cut, schedule, timeout_s=200)
    for name in sorted(MODELS):
        truth = one_process(graph, shape(name), SETTINGS)
        found = [result[name] for result in results]
        try:
            assert_same_training(found, truth)
            assert all(each["scores"] == truth["scores"] for each in found)
        except AssertionError as error:
            error.add_note(name)
            raise
