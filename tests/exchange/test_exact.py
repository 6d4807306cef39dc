"""Workers that store activations as codes train as one process with the same codes, and with every other axis."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits.policy import Fixed
from gnnqlab.compute import ExactActivations, Float32Products
from gnnqlab.exchange import Overlapped, Pipelined
from gnnqlab.exchange.vertex_cut.exchange import Replicas
from gnnqlab.kernels.rowwise.nodewise import disable_fusion
from gnnqlab.message import BoundarySampling, Stochastic
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.partition import Random
from gnnqlab.systems import System, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.exchange.random_edges import EdgesAtRandom
from tests.graphs import random_graph
from tests.ranks import run_ranks

SETTINGS = TrainSettings(seed=5)
TWO_BITS, PROJECTED = ExactActivations(bits=2), ExactActivations(bits=4, ratio=0.5)
ON_NODES = replace(vanilla(), partition=Random(seed=1))
ON_EDGES = replace(vanilla(), partition=EdgesAtRandom(seed=1), exchange=Replicas())
TOLERANCE = 1e-5


def _shape(name: str) -> ModelSettings:
    return ModelSettings(name=name, layers=3, hidden=16, dropout=0.3, input_dropout=0.1)


def first_step(trainer: Trainer) -> tuple[float, torch.Tensor]:
    loss, gradients = trainer.gradients(0), trainer.parameters.gradients.clone()
    trainer.evaluate(0)
    trainer.close()
    return loss, gradients


def on_rank(rank: int, workers: int, graph, cut, system: System) -> dict:
    shard = cut.shard(graph, rank)
    return {name: first_step(worker_trainer(shard, system, _shape(name), SETTINGS)) for name in sorted(MODELS)}


def alone(graph, name: str, part) -> tuple[float, torch.Tensor]:
    network = build_model(_shape(name), graph.num_features, graph.num_classes, seed=SETTINGS.seed)
    local = LocalGraph(graph, seed=SETTINGS.seed, products=part.build())
    return first_step(Trainer(local, label_objective(graph), network, SETTINGS))


@pytest.mark.parametrize(
    ("workers", "system", "part", "features"),
    [(2, ON_NODES, TWO_BITS, 40), (3, ON_NODES, PROJECTED, 12), (2, ON_EDGES, TWO_BITS, 40)],
)
def test_workers_equal_one_process(workers: int, system: System, part: ExactActivations, features: int) -> None:
    """Losses are float32's; a row has the same codes on every worker, halo rows of attention among them.

    Sums run in another order, and some 2^-22 of the roundings may go in the other direction for that: none of the
    thousands here.
    """
    graph = random_graph(features=features, directed=features > 12, seed=2)
    system = replace(system, compute=part)
    results = run_ranks(on_rank, workers, graph, system.partition.cut(graph, workers), system)
    for name, (loss, gradients) in results[0].items():
        true_loss, truth = alone(graph, name, part)
        with disable_fusion():  # codes require separate steps between convolutions
            exact_loss, exact = alone(graph, name, Float32Products())
        assert true_loss == exact_loss, f"{name}: codes change the forward pass"
        assert abs(loss - true_loss) <= TOLERANCE * true_loss, name
        assert all(torch.equal(other[name][1], gradients) for other in results), name
        assert float((truth - exact).norm() / exact.norm()) > 0.1, f"{name}: nothing was saved in codes"
        assert float((gradients - truth).norm() / truth.norm()) <= TOLERANCE, name


def beside_other_axes(rank: int, workers: int, graph, systems: dict[str, System]) -> dict:
    found = {}
    for key, system in systems.items():
        shard = system.partition.cut(graph, workers).shard(graph, rank)
        for name in ("gat", "gcn", "jknet"):
            trainer = worker_trainer(shard, system, _shape(name), SETTINGS)
            found[key, name] = [trainer.epoch(epoch) for epoch in range(6)]
            trainer.evaluate(6)
            trainer.close()
    return found


def test_trains_beside_every_codec_schedule_sampler_and_exchange() -> None:
    kept = replace(ON_NODES, compute=ExactActivations(bits=4))
    two_bits = {"codec": Stochastic(), "bits": Fixed(bits=2)}
    systems = {
        "2 bits, overlapped": replace(kept, **two_bits, schedule=Overlapped()),
        "sampled, pipelined": replace(kept, **two_bits, sampler=BoundarySampling(p=0.5), schedule=Pipelined()),
        "on edges": replace(ON_EDGES, compute=ExactActivations(bits=4), **two_bits),
    }
    packed = {name: system for name, system in systems.items() if name != "on edges"}
    assert all(System.from_json(system.to_json()) == system for system in packed.values())
    graph = random_graph(nodes=90, edges=300, features=40)
    for case, losses in run_ranks(beside_other_axes, 2, graph, systems)[0].items():
        assert min(losses[1:]) < losses[0], case
