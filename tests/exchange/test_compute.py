"""Workers with the ``compute`` axis train as one process with the same products, and with every other axis."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits.policy import Fixed
from gnnqlab.compute import BFloat16Rows
from gnnqlab.exchange import Overlapped, Pipelined
from gnnqlab.message import BoundarySampling, Stochastic
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import System, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.compute.int8_rows import Int8Rows
from tests.graphs import random_graph
from tests.ranks import run_ranks

GRAPHS = {
    "gathered first": {"features": 12, "seed": 2},
    "projected first": {"features": 40, "directed": True, "seed": 3},
}
SETTINGS = TrainSettings(seed=5)
STEPS = {"bfloat16": 2.0**-8, "int8": 2.0**-6}
"""Largest change by one rounding in the other direction, relative to a row's largest element (int8: 1 / 127)."""
PARTS = {"bfloat16": BFloat16Rows(), "int8": Int8Rows()}


def _shape(name: str) -> ModelSettings:
    return ModelSettings(name=name, layers=3, hidden=16, dropout=0.3, input_dropout=0.1)


def gradients_of(trainer: Trainer) -> tuple[float, torch.Tensor]:
    loss = trainer.gradients(0)
    gradients = trainer.parameters.gradients.clone()
    trainer.evaluate(0)
    trainer.close()
    return loss, gradients


def on_rank(rank: int, workers: int, graph) -> dict:
    """Return the first gradients of every model and precision."""
    shard = build_shard(graph, Random(seed=1).cut(graph, workers).owner, rank, workers)
    return {
        (precision, name): gradients_of(worker_trainer(shard, replace(vanilla(), compute=part), _shape(name), SETTINGS))
        for precision, part in PARTS.items()
        for name in sorted(MODELS)
    }


@pytest.mark.parametrize(
    ("workers", "which"), [(1, "projected first"), (2, "gathered first"), (3, "gathered first"), (3, "projected first")]
)
def test_workers_equal_one_process(workers: int, which: str) -> None:
    """The same rows, weights and gradients are rounded on every worker; sums run in another order.

    A handful of the thousands of roundings goes in the other direction for that, and each moves one element of a matrix
    by one step: far less than a step in the norm of all gradients, where two different roundings are some steps apart.
    """
    graph = random_graph(**GRAPHS[which])
    results = run_ranks(on_rank, workers, graph)
    for (precision, name), (loss, gradients) in results[0].items():
        network = build_model(_shape(name), graph.num_features, graph.num_classes, seed=SETTINGS.seed)
        local = LocalGraph(graph, seed=SETTINGS.seed, products=PARTS[precision].build())
        true_loss, truth = gradients_of(Trainer(local, label_objective(graph), network, SETTINGS))
        assert all(torch.equal(other[precision, name][1], gradients) for other in results)
        case = (precision, name)
        assert abs(loss - true_loss) < STEPS[precision] / 4 * true_loss, case
        assert float((gradients - truth).norm() / truth.norm()) < STEPS[precision] / 2, case


def beside_other_axes(rank: int, workers: int, graph, systems: dict[str, System]) -> dict:
    shard = build_shard(graph, Random(seed=1).cut(graph, workers).owner, rank, workers)
    found = {}
    for key, system in systems.items():
        for name in sorted(MODELS):
            trainer = worker_trainer(shard, system, _shape(name), SETTINGS)
            losses = [trainer.epoch(epoch) for epoch in range(6)]
            trainer.evaluate(6)
            trainer.close()
            found[key, name] = losses
    return found


def test_trains_beside_every_codec_schedule_and_sampler() -> None:
    rounded = replace(vanilla(), compute=BFloat16Rows())
    systems = {
        "2 bits, overlapped": replace(rounded, codec=Stochastic(), bits=Fixed(bits=2), schedule=Overlapped()),
        "sampled": replace(rounded, sampler=BoundarySampling(p=0.5)),
        "sampled, pipelined, 4 bits": replace(
            rounded, sampler=BoundarySampling(p=0.5), schedule=Pipelined(), codec=Stochastic(), bits=Fixed(bits=4)
        ),
    }
    assert all(System.from_json(system.to_json()) == system for system in systems.values())
    graph = random_graph(nodes=90, edges=300, features=40)
    found = run_ranks(beside_other_axes, 2, graph, systems)[0]
    for case, losses in found.items():
        assert min(losses[1:]) < losses[0], case
