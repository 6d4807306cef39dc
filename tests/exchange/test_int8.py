"""Workers under ``compute="int8"``: with a scale a row they train what one process trains."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits.policy import Fixed
from gnnqlab.compute import Int8Products
from gnnqlab.exchange import Overlapped, Pipelined
from gnnqlab.message import BoundarySampling, Stochastic
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import System, vanilla
from gnnqlab.train.config import TrainSettings
from gnnqlab.train.objective import Objective
from gnnqlab.train.trainer import Trainer, worker_trainer
from tests.graphs import random_graph
from tests.ranks import run_ranks

SETTINGS = TrainSettings(seed=5)
PARTS = {"row": Int8Products(), "tensor": Int8Products(scale="tensor")}
GRAPHS = {
    "gathered first": {"features": 12, "seed": 2},
    "projected first": {"features": 40, "directed": True, "seed": 3},
}


def _shape(name: str) -> ModelSettings:
    return ModelSettings(name=name, layers=3, hidden=16, dropout=0.3, input_dropout=0.1)


def gradients_of(trainer: Trainer) -> tuple[float, torch.Tensor]:
    loss = trainer.gradients(0)
    gradients = trainer.parameters.gradients.clone()
    trainer.close()
    return loss, gradients


def on_rank(rank: int, workers: int, graph) -> dict:
    """The first gradients of every model and scale."""
    shard = build_shard(graph, Random(seed=1).cut(graph, workers).owner, rank, workers)
    return {
        (scale, name): gradients_of(
            worker_trainer(shard, replace(vanilla(), compute=part, schedule=Overlapped()), _shape(name), SETTINGS)
        )
        for scale, part in PARTS.items()
        for name in sorted(MODELS)
    }


@pytest.mark.parametrize("which", GRAPHS)
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_equal_one_process(workers: int, which: str) -> None:
    """With a scale a row to 1e-5, but where one of some 10^4 codes falls the other way for another order of sums.

    A code has sixteen fractional bits, which another order changes in about one of 10^5; it moves one element by 1/127
    of its row's largest. With a scale a tensor the steps are others: a rounding apart, some steps in the norm.
    """
    graph = random_graph(**GRAPHS[which])
    results = run_ranks(on_rank, workers, graph, timeout_s=240)
    apart: dict[str, list[float]] = {"row": [], "tensor": []}
    for (scale, name), (loss, gradients) in results[0].items():
        network = build_model(_shape(name), graph.num_features, graph.num_classes, seed=SETTINGS.seed)
        local = LocalGraph(graph, seed=SETTINGS.seed, products=PARTS[scale].build())
        true_loss, truth = gradients_of(Trainer(local, Objective.of(graph), network, SETTINGS))
        assert all(torch.equal(other[scale, name][1], gradients) for other in results)
        apart[scale].append(float((gradients - truth).norm() / truth.norm()))
        assert abs(loss - true_loss) < (1e-3 if scale == "row" else 2e-2) * true_loss, (scale, name)
    assert sorted(apart["row"])[len(MODELS) - 2] < 1e-5 and max(apart["row"]) < 2e-3, apart
    assert 1e-3 < min(apart["tensor"]) and max(apart["tensor"]) < 0.4, apart


def beside_other_axes(rank: int, workers: int, graph, systems: dict[str, System]) -> dict:
    shard = build_shard(graph, Random(seed=1).cut(graph, workers).owner, rank, workers)
    found = {}
    for key, system in systems.items():
        for name in ("gcn", "gat"):
            trainer = worker_trainer(shard, system, _shape(name), SETTINGS)
            found[key, name] = [trainer.epoch(epoch) for epoch in range(6)]
            trainer.evaluate(6)
            trainer.close()
    return found


def test_trains_beside_every_codec_schedule_and_sampler() -> None:
    part = Int8Products(bits=6, scale="tensor", rounding="nearest")
    codes = replace(vanilla(), compute=part)
    systems = {
        "2 bits, overlapped": replace(codes, codec=Stochastic(), bits=Fixed(bits=2), schedule=Overlapped()),
        "sampled, pipelined": replace(
            vanilla(), compute=Int8Products(), sampler=BoundarySampling(p=0.5), schedule=Pipelined()
        ),
    }
    assert all(System.from_json(system.to_json()) == system for system in systems.values())
    graph = random_graph(nodes=90, edges=300, features=40)
    found = run_ranks(beside_other_axes, 2, graph, systems, timeout_s=240)[0]
    for case, losses in found.items():
        assert min(losses[1:]) < losses[0], case
