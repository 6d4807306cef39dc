"""The state of a training: saved in the middle and loaded into a new training, it leads to the same results."""

from __future__ import annotations

import json

import torch

from gnnqlab.nn import ModelSettings
from gnnqlab.simulation.threaded_workers import exact_trainer
from gnnqlab.train.checkpoints.checkpoint import Checkpoint
from gnnqlab.train.checkpoints.state import capture, restore
from tests.graphs import random_graph

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
