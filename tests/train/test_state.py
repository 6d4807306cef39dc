"""The state of a training: saved in the middle and loaded into a new training, it leads to the same results."""

from __future__ import annotations

import json

import torch

from gnnqlab.nn import ModelSettings
from gnnqlab.simulation.threaded_workers import exact_trainer
from gnnqlab.train.checkpoints.checkpoint import Checkpoint
from gnnqlab.train.checkpoints.state import _gather_on_rank0, capture, restore
from tests.graphs import random_graph
from tests.ranks import run_ranks

SHAPE = ModelSettings(layers=2, hidden=8, dropout=0.3)


def test_training_resumes_bit_for_bit_from_a_captured_state():
    graph = random_graph()
    straight, resumed = exact_trainer(graph, SHAPE), exact_trainer(graph, SHAPE)
    for epoch in range(3):
        straight.epoch(epoch)
    tensors, facts = capture(straight)
    kept = Checkpoint(3, {name: tensor.clone() for name, tensor in tensors.items()}, json.loads(json.dumps(facts)))
    assert restore(resumed, kept) == (3, facts)
    for epoch in range(3, 8):
        assert resumed.epoch(epoch) == straight.epoch(epoch)
    assert torch.equal(resumed.parameters.values, straight.parameters.values)


def gathered(rank, workers, names):
    try:
        return sorted(_gather_on_rank0({names[rank]: torch.ones(1)}))
    except ValueError as error:
        return str(error)


def test_rank_0_gathers_the_tensors_of_all_workers_and_refuses_equal_names():
    assert run_ranks(gathered, 2, ("a/0", "a/1")) == [["a/0", "a/1"], []]
    refused, _ = run_ranks(gathered, 2, ("a/0", "a/0"))
    assert refused == "tensors of workers must have names of their own, got ['a/0'] from several workers"
