"""TANGO and EXACT as systems: the papers' settings, Vanilla's messages, and workers that train as one process."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.compute import ExactActivations, Int8Products
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random
from gnnqlab.systems import System, make_system
from gnnqlab.systems.parts import PARTS
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

SHAPE = ModelSettings(layers=3, hidden=16, dropout=0.3)
SETTINGS = TrainSettings(seed=5)
EPOCHS = 3
SYSTEMS = {
    "tango": make_system("tango", scale="row"),
    "tango-int4": make_system("tango-int4", scale="row"),
    "exact": make_system("exact"),
    "tango, scale by tensor": make_system("tango"),
}


@each(
    ("name", "compute"),
    [
        ("tango", Int8Products(bits=8, scale="tensor", rounding="stochastic")),
        ("tango-int4", Int8Products(bits=4, scale="tensor", rounding="stochastic")),
        ("exact", ExactActivations(bits=2, ratio=1.0)),
    ],
)
def test_recipe_differs_from_vanilla_in_its_compute_only(name: str, compute: object) -> None:
    system, vanilla = make_system(name), make_system("vanilla")
    assert {axis for axis in PARTS if getattr(system, axis) != getattr(vanilla, axis)} == {"compute"}
    assert system.compute == compute and system.name == name


@each(
    ("name", "settings", "text"),
    [
        ("tango", {"product_bits": 9}, r"bits must be one of .*, got 9"),
        ("tango", {"scale": "column"}, r"scale must be one of .*, got 'column'"),
        ("exact", {"activation_bits": 3}, r"bits must be .*1, 2, 4, 8.*, got 3"),
        ("exact", {"ratio": 0.0}, r"ratio must lie in \(0, 1\], got 0.0"),
        ("exact", {"bits": 2}, r"system 'exact' takes \['activation_bits', 'ratio'\], got \['bits'\]"),
    ],
)
def test_wrong_setting_has_rule_and_value(name: str, settings: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make_system(name, **settings)


def test_the_summary_of_each_names_its_saving_and_its_messages() -> None:
    summaries = {
        name: (gq.systems.SYSTEMS[name].__doc__ or "").partition("\n")[0] for name in SYSTEMS if " " not in name
    }
    assert "saves computation" in summaries["tango"] and "saves memory" in summaries["exact"]
    assert all("messages are Vanilla's float32" in summary for summary in summaries.values())


def trained(trainer: Trainer) -> tuple[list[float], torch.Tensor]:
    losses = [trainer.epoch(epoch) for epoch in range(EPOCHS)]
    trainer.evaluate(EPOCHS)
    weights = trainer.parameters.values.clone()
    trainer.close()
    return losses, weights


def on_rank(rank: int, workers: int, graph) -> dict[str, tuple[list[float], torch.Tensor, int]]:
    found = {}
    for name, system in {**SYSTEMS, "vanilla": make_system("vanilla")}.items():
        shard = Random(seed=1).cut(graph, workers).shard(graph, rank)
        trainer = worker_trainer(shard, replace(system, partition=Random(seed=1)), SHAPE, SETTINGS)
        losses, weights = trained(trainer)
        channels = trainer.exchange.channels if trainer.exchange is not None else []
        found[name] = losses, weights, sum(each.bytes_payload + each.bytes_params for each in channels)
    return found


def alone(graph, system: System) -> tuple[list[float], torch.Tensor]:
    network = build_model(SHAPE, graph.num_features, graph.num_classes, seed=SETTINGS.seed)
    return trained(
        Trainer(
            LocalGraph(graph, seed=SETTINGS.seed, products=system.compute.build()),
            label_objective(graph),
            network,
            SETTINGS,
        )
    )


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_train_as_one_process_and_send_vanillas_bytes(workers: int) -> None:
    """A row has the same codes on every worker; sums run in another order, which moves a code by a step now and then.

    One scale per tensor is each worker's own: the same training up to roundings of 8 bits.
    """
    graph = random_graph(seed=2)
    results = run_ranks(on_rank, workers, graph)
    for name, system in SYSTEMS.items():
        losses, _, sent = results[0][name]
        true_losses, truth = alone(graph, system)
        limit = 2e-2 if "tensor" in name and workers > 1 else 1e-3
        assert max(abs(one / other - 1) for one, other in zip(losses, true_losses)) < limit, name
        assert all(torch.equal(result[name][1], results[0][name][1]) for result in results), name
        assert float((results[0][name][1] - truth).norm() / truth.norm()) < 10 * limit, name
        assert sent == results[0]["vanilla"][2], f"{name} sends Vanilla's bytes"
        assert losses != results[0]["vanilla"][0] or name == "exact", f"{name} computes in float32"
    assert not torch.equal(results[0]["exact"][1], results[0]["vanilla"][1]), "nothing was saved in codes"
