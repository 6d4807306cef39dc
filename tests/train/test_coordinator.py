"""SYLVIE's Coordinator: what it decides, and that all workers decide alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths
from gnnqlab.exchange.pipeline import Pipeline
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import make_system
from gnnqlab.train.config import TrainSettings
from gnnqlab.train.coordinator import Coordinator, Descent
from gnnqlab.train.trainer import worker_trainer
from tests.graphs import random_graph
from tests.ranks import run_ranks


def coordinator(*, bound=100, **settings):
    settings = {"momentum": 0.0, "delta": 1, **settings}
    widths = OrchestratedWidths(Orchestrated(**settings), torch.arange(2), torch.ones(2))
    made = Coordinator(widths, Pipeline({"forward": 0.0, "backward": 0.0}), bound)
    made.obey(widths.settings)
    return made


def feed(made, losses, epoch_s=1.0):
    bases, fresh = [], []
    for epoch, loss in enumerate(losses):
        made.after_epoch(epoch, loss, epoch_s)
        bases.append(made.widths.base)
        fresh.append(made.pipeline.fresh)
    return bases, fresh


def test_the_running_loss_and_its_rate_by_hand():
    descent = Descent(momentum=0.5, delta=2)
    assert [descent.add(loss, 2.0) for loss in (8.0, 4.0, 2.0)] == [None, None, None]
    # F = 8, 6, 4, 3; rates (8 - 6) / 2 = 1, 1, 0.5
    assert descent.add(2.0, 2.0) == (1.0, 0.5)


def test_a_slower_descent_widens_and_a_faster_one_narrows():
    # rates: 4, 2 (slower), 1 (slower), 3 (faster)
    bases, fresh = feed(coordinator(), [10.0, 6.0, 4.0, 3.0, 0.0])
    assert bases == [1, 1, 2, 4, 2]
    assert fresh == [False, False, True, True, False]


def test_time_counts():
    made = coordinator()
    for epoch, (loss, epoch_s) in enumerate([(10.0, 1.0), (8.0, 1.0), (6.0, 2.0)]):
        made.after_epoch(epoch, loss, epoch_s)
    assert made.widths.base == 2  # the loss fell as much, in twice the time


def test_staleness_is_bounded():
    losses = [-(1.1**epoch) for epoch in range(30)]  # falls faster and faster: no other reason to wait
    made = coordinator(bound=3)
    _, fresh = feed(made, losses)
    ages, age = [], 0
    for before in [True, *fresh[:-1]]:  # epoch 0 has nothing stale to use
        age = 0 if before else age + 1
        ages.append(age)
    assert max(ages) == 3 and any(fresh)
    said = [entry["why"] for entry in made.decisions if entry["what"] == "fresh rows"]
    assert "3 stale epochs in a row, 3 are allowed" in said


def test_every_decision_says_when_and_why():
    made = coordinator()
    feed(made, [10.0, 6.0, 4.0])
    assert made.decisions == [
        {"epoch": 3, "what": "base width 2", "why": "the loss fell by 2 a second, by 4 1 epochs before"},
        {"epoch": 3, "what": "fresh rows", "why": "the loss fell by 2 a second, by 4 1 epochs before"},
    ]


def on_rank(rank, workers, graph, owner, model):
    system = make_system("sylvie", delta=1, bound=3)
    trainer = worker_trainer(build_shard(graph, owner, rank, workers), system, model, TrainSettings(seed=2))
    losses = [trainer.epoch(epoch) for epoch in range(12)]
    trainer.evaluate(12)
    trainer.close()
    return losses, trainer.coordinator.decisions, trainer.policy.base


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_all_workers_decide_alike(model):
    graph = random_graph()
    shape = ModelSettings(name=model, layers=2, hidden=16, dropout=0.0)
    owner = Random(seed=1).assign(graph, 3)
    results = run_ranks(on_rank, 3, graph, owner, shape)
    assert all(result == results[0] for result in results)
    losses, decisions, _ = results[0]
    assert losses[-1] < losses[0] and decisions


def test_other_systems_have_nobody_to_coordinate():
    graph = random_graph()
    shard = build_shard(graph, Random(seed=1).assign(graph, 1), 0, 1)
    trainer = worker_trainer(shard, make_system("vanilla"), ModelSettings(layers=2, hidden=8), TrainSettings())
    assert trainer.coordinator is None
    half = replace(make_system("vanilla"), schedule=make_system("sylvie").schedule)
    trainer = worker_trainer(shard, half, ModelSettings(layers=2, hidden=8), TrainSettings())
    assert trainer.coordinator is not None and trainer.coordinator.widths is None
