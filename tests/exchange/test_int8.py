"""Workers under ``compute="int8"`` with a scale per row train as one process does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits.policy import Fixed
from gnnqlab.compute import Int8Products
from gnnqlab.exchange import Overlapped, Pipelined, Sequential, Synchronous
from gnnqlab.exchange.vertex_cut.exchange import Replicas
from gnnqlab.message import BoundarySampling, Stochastic
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.partition import Random, build_shard
from gnnqlab.partition.streamed import RandomEdges
from gnnqlab.systems import System, vanilla
from gnnqlab.systems.recipes.cagnet import cagnet
from gnnqlab.systems.recipes.cdfgnn import cdfgnn
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.graphs import random_graph
from tests.ranks import run_ranks

SETTINGS = TrainSettings(seed=5)
PARTS = {
    "row": Int8Products(),
    "tensor": Int8Products(scale="tensor"),
    "logits": Int8Products(exact_logits=False),
    "whole": Int8Products(scale="whole"),
}
SYSTEMS = {
    name: replace(vanilla(), compute=part, schedule=Synchronous() if name == "whole" else Overlapped())
    for name, part in PARTS.items()
}
CASES = [(part, name) for part in PARTS for name in sorted(MODELS) if part != "logits" or name == "gat"]
GRAPHS = {
    "gathered first": {"features": 12, "seed": 2},
    "projected first": {"features": 40, "directed": True, "seed": 3},
}


def _shape(name: str, part: str = "") -> ModelSettings:
    """Return a shape with several heads where logits are rounded: a single head would have a scale of its own."""
    more = {"heads": 4} if part == "logits" else {}
    return ModelSettings(name=name, layers=3, hidden=16, dropout=0.3, input_dropout=0.1, **more)


def gradients_of(trainer: Trainer) -> tuple[float, torch.Tensor]:
    loss = trainer.gradients(0)
    gradients = trainer.parameters.gradients.clone()
    trainer.close()
    return loss, gradients


def on_rank(rank: int, workers: int, graph) -> dict:
    """Return the first gradients of every model and scale."""
    shard = build_shard(graph, Random(seed=1).cut(graph, workers).owner, rank, workers)
    return {
        (part, name): gradients_of(worker_trainer(shard, SYSTEMS[part], _shape(name, part), SETTINGS))
        for part, name in CASES
    }


@pytest.mark.parametrize("which", GRAPHS)
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_equal_one_process(workers: int, which: str) -> None:
    """With a scale per row, or one for the rows of all workers, to 1e-5, except for one of some 10^4 codes.

    Such a code depends on the order of sums: it has sixteen fractional bits, which change in about one of 10^5;
    it moves one element by 1/127 of its row's largest. With a scale per tensor the steps differ: by a rounding, some
    steps in the norm.
    """
    graph = random_graph(**GRAPHS[which])
    results = run_ranks(on_rank, workers, graph)
    apart: dict[str, list[float]] = {part: [] for part in PARTS}
    for (scale, name), (loss, gradients) in results[0].items():
        network = build_model(_shape(name, scale), graph.num_features, graph.num_classes, seed=SETTINGS.seed)
        local = LocalGraph(graph, seed=SETTINGS.seed, products=PARTS[scale].build())
        true_loss, truth = gradients_of(Trainer(local, label_objective(graph), network, SETTINGS))
        assert all(torch.equal(other[scale, name][1], gradients) for other in results)
        apart[scale].append(float((gradients - truth).norm() / truth.norm()))
        assert abs(loss - true_loss) < (2e-2 if scale == "tensor" else 1e-3) * true_loss, (scale, name)
    for part in ("row", "whole"):
        assert sorted(apart[part])[len(MODELS) - 2] < 1e-5, apart
    assert max(apart["row"] + apart["whole"] + apart["logits"]) < 2e-3, apart
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


def on_rank_of_edges(rank: int, workers: int, graph) -> dict:
    shard = RandomEdges(seed=1).cut(graph, workers).shard(graph, rank)
    system = replace(
        vanilla(), partition=RandomEdges(), exchange=Replicas(), compute=Int8Products(scale="whole", exact_logits=False)
    )
    return {name: gradients_of(worker_trainer(shard, system, _shape(name), SETTINGS)) for name in ("gcn", "gat")}


def test_replicas_agree_on_a_scale_too() -> None:
    """Replicas of a node round parts of its gradient: gradients are some roundings apart, with one scale here."""
    graph = random_graph(**GRAPHS["projected first"])
    results, alone = run_ranks(on_rank_of_edges, 2, graph), on_rank_of_edges(0, 1, graph)
    for name, (loss, truth) in alone.items():
        assert results[0][name][0] == pytest.approx(loss, rel=1e-3), name  # forward: the values that one process rounds
        assert torch.equal(results[0][name][1], results[1][name][1])
        assert float((results[0][name][1] - truth).norm() / truth.norm()) < 0.1, name


def test_weights_move_by_less_than_a_code() -> None:
    """A step of 1e-6 is less than one of 8 bits; weights stored as codes would not change, or jump."""
    graph = random_graph(**GRAPHS["gathered first"])
    shard = build_shard(graph, torch.zeros(graph.num_nodes, dtype=torch.int64), 0, 1)
    trainer = worker_trainer(shard, SYSTEMS["row"], _shape("gcn"), replace(SETTINGS, lr=1e-6))
    before = [weight.detach().clone() for weight in trainer.model.parameters()]
    trainer.epoch(0)
    for old, new in zip(before, trainer.model.parameters(), strict=True):
        moved = (new.detach() - old).abs()
        assert new.dtype == torch.float32 and 0 < float(moved.max()) < 2e-6
        if old.dim() == 2:
            assert float(moved.max()) < float(old.abs().max()) / 127 / 100


def rounded_twice(rank: int, workers: int, graph) -> dict:
    found = {}
    for case, system in TWICE.items():
        shard = system.partition.cut(graph, workers).shard(graph, rank)
        trainer = worker_trainer(shard, system, _shape("gat" if "attention" in case else "gcn"), SETTINGS)
        trainer.epoch(0)
        quantized, before = trainer.exchange.products.quantized, trainer.exchange.products.quantized.num_requantized
        trainer.evaluate(0)
        assert quantized.num_requantized == before and quantized.num_quantized > 0
        found[case] = before, shard.num_halo
        trainer.close()
    return found


COARSE = {"compute": PARTS["row"], "codec": Stochastic(), "bits": Fixed(bits=4), "partition": Random(seed=1)}
TWICE = {
    "halo": replace(vanilla(), **COARSE),
    "halo, attention": replace(vanilla(), **COARSE),
    "halo, in turn": replace(vanilla(), **COARSE, schedule=Sequential()),
    "halo, float32": replace(vanilla(), compute=PARTS["row"], partition=Random(seed=1)),
    "replicas": replace(vanilla(), **{**COARSE, "partition": RandomEdges(seed=1)}, exchange=Replicas()),
    "replicas, float32": replace(cdfgnn(bits=32), compute=PARTS["row"], partition=RandomEdges(seed=1)),
}


def test_rows_that_are_rounded_twice_are_counted() -> None:
    """12 features and 16 hidden ones, whose sums are projected; the last layer rounds nothing."""
    graph = random_graph(**GRAPHS["gathered first"])
    for each in run_ranks(rounded_twice, 2, graph):
        for case, (twice, halo) in each.items():
            columns = 0 if "float32" in case else 32 if "attention" in case else 28
            assert twice == halo * columns, case


def test_one_scale_for_all_rows_waits_for_all_rows() -> None:
    for change in ({"schedule": Overlapped()}, {"schedule": Pipelined()}, {"sampler": BoundarySampling(p=0.5)}):
        with pytest.raises(ValueError, match="scale='whole'"):
            replace(SYSTEMS["whole"], **change)
    with pytest.raises(ValueError, match="blocks or samples are quantized alone"):
        replace(cagnet(), compute=PARTS["whole"])
    shard = build_shard(graph := random_graph(nodes=40, edges=100, features=8), torch.arange(40) % 2, 0, 2)
    assert graph.num_nodes == 40
    with pytest.raises(ValueError, match="needs a process group, got 2 workers without"):
        worker_trainer(shard, SYSTEMS["whole"], _shape("gcn"), SETTINGS)
    with pytest.raises(ValueError, match="needs all 4 rows at once"):
        PARTS["whole"].build().operand(torch.ones(4, 2), (0, 2))


def test_rounded_logits_cannot_be_found_twice() -> None:
    with pytest.raises(ValueError, match="sequential attention computes them twice"):
        replace(vanilla(), compute=PARTS["logits"], schedule=Sequential())


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
    found = run_ranks(beside_other_axes, 2, graph, systems)[0]
    for case, losses in found.items():
        assert min(losses[1:]) < losses[0], case
