"""The adaptive cache in training: both ends hold the same, and it equals a dense training that skips the same rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.exchange import Overlapped, Synchronous
from gnnqlab.message import AdaptiveCache, Linear, Stochastic
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import fixed_bits, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.agreement import TOLERANCE
from tests.exchange.test_cache import Held, skipping
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS, WORKERS = 8, 3
SHAPE = ModelSettings(layers=3, hidden=8, dropout=0.0)
SETTINGS = TrainSettings(seed=3)
CACHE = AdaptiveCache(epsilon=0.1, mu2=0.005)


class Moved(Held):
    """Holds rows by Algorithm 2, with the accuracy of the dense training."""

    def __init__(self, cache: AdaptiveCache) -> None:
        super().__init__(0.0)
        self.cache, self.epsilon, self.mean, self.epsilons = cache, cache.epsilon, cache.first_mean, []

    def after(self, key, offered, counts):
        held = self.rows.get(key)
        if held is None:
            moved, held = torch.ones(offered.shape[0], dtype=torch.bool), torch.zeros_like(offered)
        else:
            moved = (offered - held).abs().amax(1) > self.epsilon * offered.abs().amax(1)
        self.sent += int((moved & counts).sum())
        self.offered += int(counts.sum())
        self.rows[key] = torch.where(moved[:, None], held + (offered - held), held)
        return self.rows[key]

    def learn(self, accuracy: float) -> None:
        self.epsilons.append(self.epsilon)
        self.epsilon = self.cache.next_epsilon(self.epsilon, accuracy=accuracy, mean=self.mean)
        self.mean = 0.8 * self.mean + 0.2 * accuracy


def dense(graph, owner, shape, cache):
    held = Moved(cache)
    local = LocalGraph(graph, seed=3)
    local.exchange = skipping(local.exchange, owner, held)
    trainer = Trainer(
        local, label_objective(graph), build_model(shape, graph.num_features, graph.num_classes, seed=3), SETTINGS
    )
    passes = []
    trainer.model.register_forward_hook(lambda model, given, out: passes.append(out.detach()))
    losses = []
    for epoch in range(EPOCHS):
        losses.append(trainer.epoch(epoch))
        right = passes[-1].argmax(1) == graph.labels
        held.learn(float(right[graph.train_mask].float().mean()))
    return torch.tensor(losses), held


def on_rank(rank, workers, graph, owner, shape, systems):
    found = []
    for system in systems:
        trainer = worker_trainer(build_shard(graph, owner, rank, workers), system, shape, SETTINGS)
        losses, epsilons = [], []
        for epoch in range(EPOCHS):
            epsilons.append(trainer.adaptives["epsilon"].cache.epsilon)
            losses.append(trainer.epoch(epoch))
        channels = trainer.exchange.channels
        held = {
            (one.layer, one.direction, side, peer): rows.clone()
            for one in channels
            for (side, peer), rows in one.selection.held.items()
        }
        sent, offered = (sum(getattr(one, name) for one in channels) for name in ("rows_sent", "rows_offered"))
        found.append({"losses": torch.tensor(losses), "epsilons": epsilons, "held": held, "rows": (sent, offered)})
        trainer.close()
    return found


@pytest.mark.parametrize("rule", ["text", "equation", "fixed"])
def test_it_is_the_dense_training_that_skips_the_same_rows(rule):
    graph = random_graph(features=20)
    owner = Random(seed=1).assign(graph, WORKERS)
    cache = replace(CACHE, rule=rule)
    systems = [replace(vanilla(), cache=cache, schedule=schedule) for schedule in (Synchronous(), Overlapped())]
    results = run_ranks(on_rank, WORKERS, graph, owner, SHAPE, systems)
    losses, held = dense(graph, owner, SHAPE, cache)
    assert (len(set(held.epsilons)) > 1) == (rule != "fixed"), "epsilon must change"
    for index in range(len(systems)):
        for result in results:
            assert (result[index]["losses"] - losses).abs().max() <= TOLERANCE * losses.abs().max()
            assert result[index]["epsilons"] == pytest.approx(held.epsilons)
        assert sum(result[index]["rows"][0] for result in results) == held.sent < held.offered
        assert sum(result[index]["rows"][1] for result in results) == held.offered


def test_sender_and_receiver_caches_are_bit_identical_for_every_codec():
    graph = random_graph(features=20)
    owner = Random(seed=1).assign(graph, WORKERS)
    systems = [
        replace(vanilla(), cache=CACHE),
        replace(fixed_bits(bits=2), cache=CACHE),
        replace(vanilla(), codec=Linear(), bits=gq.bits.Fixed(bits=4), cache=CACHE),
        replace(vanilla(), codec=Linear(), bits=gq.bits.UniformRandom(period=2, bit_widths=(2, 8)), cache=CACHE),
        replace(
            vanilla(), codec=(Stochastic(), Linear()), bits=gq.bits.Fixed(bits=8), cache=CACHE, schedule=Overlapped()
        ),
    ]
    attending = replace(SHAPE, name="gat", hidden=8), systems[1::3]
    for shape, some in ((SHAPE, systems), attending):
        results = run_ranks(on_rank, WORKERS, graph, owner, shape, some)
        for index in range(len(some)):
            compared = 0
            for rank, result in enumerate(results):
                for (layer, direction, side, peer), rows in result[index]["held"].items():
                    if side == "send":
                        other = results[peer][index]["held"][layer, direction, "receive", rank]
                        assert torch.equal(rows, other), (index, layer, direction)
                        compared += 1
            assert compared >= 2 * WORKERS * (WORKERS - 1)
            sent, offered = (sum(result[index]["rows"][of] for result in results) for of in (0, 1))
            assert 0 < sent < offered
            assert all(result[index]["epsilons"] == results[0][index]["epsilons"] for result in results)
