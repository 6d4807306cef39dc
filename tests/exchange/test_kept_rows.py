"""Stored rows in trainings of real workers: the law, both cuts, and continued checkpoints."""

from __future__ import annotations

from dataclasses import replace

import torch

from gnnqlab.bits import Fixed, UniformRandom
from gnnqlab.exchange import Overlapped, Pipelined, Replicas
from gnnqlab.message import Difference, Feedback, Linear, Rotated, Stochastic
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, RandomEdges
from gnnqlab.systems import fixed_bits, vanilla
from gnnqlab.train.checkpoints.checkpoint import Checkpoint
from gnnqlab.train.checkpoints.state import capture, restore
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.agreement import TOLERANCE
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS, STOPPED = 6, 3
SHAPE = ModelSettings(layers=2, hidden=8, dropout=0.3)
SETTINGS = TrainSettings(seed=3)
EDGES = {"partition": RandomEdges(seed=1), "exchange": Replicas()}
LAW = [replace(vanilla(), **company, cache=cache) for company in ({}, EDGES) for cache in (Difference(), Feedback())]
GOING_ON = {
    "differences": replace(fixed_bits(bits=2), cache=Difference(), schedule=Overlapped()),
    "differences of sums": replace(fixed_bits(bits=1), codec=Rotated(), cache=Difference(), **EDGES),
    "feedback": replace(vanilla(), codec=Linear(), bits=UniformRandom(bit_widths=(1, 4), period=2), cache=Feedback()),
    "feedback of sums": replace(vanilla(), codec=Linear(), bits=Fixed(bits=2), cache=Feedback(), **EDGES),
    "feedback backward": replace(
        vanilla(), codec=(Stochastic(), Linear()), bits=(Fixed(bits=8), Fixed(bits=1)), cache=Feedback("backward")
    ),
    "feedback, rows of the epoch before": replace(fixed_bits(bits=2), cache=Feedback(), schedule=Pipelined()),
    "means of stale rows": replace(
        fixed_bits(bits=8), schedule=Pipelined(feature_smoothing=0.5, gradient_smoothing=0.5)
    ),
}


def trainer_of(rank, workers, graph, system):
    of_nodes = system.partition.cuts == "nodes"
    partition = Random(seed=1) if of_nodes else system.partition
    return worker_trainer(partition.cut(graph, workers).shard(graph, rank), system, SHAPE, SETTINGS)


def train(trainer, first, epochs):
    losses = torch.tensor([trainer.epoch(epoch) for epoch in range(first, epochs)])
    trainer.evaluate(epochs)  # does not change the stored rows
    return losses


def on_rank(rank, workers, graph):
    found = {}
    for name, system in {"plain": vanilla(), **dict(enumerate(LAW))}.items():
        trainer = trainer_of(rank, workers, graph, system)
        losses = train(trainer, 0, EPOCHS)
        found[name] = losses, trainer.parameters.gradients.clone()
        trainer.close()
    for name, system in GOING_ON.items():
        straight = trainer_of(rank, workers, graph, system)
        before = train(straight, 0, STOPPED)
        tensors, facts = capture(straight)
        kept = [key for key in tensors if key.split("/")[0] in ("differences", "feedback") or key.endswith("/mean")]
        kept = {key: tensors[key].clone() for key in kept}
        checkpoint = Checkpoint(STOPPED, {key: value.clone() for key, value in tensors.items()}, facts)
        resumed = trainer_of(rank, workers, graph, system)
        restore(resumed, checkpoint if rank == 0 else None)
        losses = [train(each, STOPPED, EPOCHS) for each in (straight, resumed)]
        weights = [each.parameters.values.clone() for each in (straight, resumed)]
        found[name] = before, losses, weights, kept
        for each in (straight, resumed):
            each.close()
    return found


def test_exact_rows_obey_the_law_and_codes_go_on_bit_for_bit():
    graph = random_graph(features=20)
    results = run_ranks(on_rank, 2, graph)
    losses, gradients = results[0]["plain"]
    for number in range(len(LAW)):
        for result in results:
            assert (result[number][0] - losses).abs().max() <= TOLERANCE * losses.abs().max(), LAW[number]
            assert (result[number][1] - gradients).abs().max() <= TOLERANCE * gradients.abs().max(), LAW[number]
    for name in GOING_ON:
        for result in results:
            before, (straight, resumed), weights, _ = result[name]
            assert straight[-1] < before[0], f"the loss of {name} does not fall"
            assert torch.equal(before, results[0][name][0]) and torch.equal(straight, results[0][name][1][0])
            assert torch.equal(straight, resumed) and torch.equal(*weights), name
        kept = results[0][name][3]
        assert any(rows.abs().max() > 0 for rows in kept.values()), f"{name} has no rows in checkpoints"
        ways = {"backward"} if name == "feedback backward" else {"forward", "backward"}
        assert {key.split("/")[2] for key in kept} == ways, name
