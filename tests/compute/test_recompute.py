"""Tensors that are not saved are recomputed in the backward pass: the same losses to the bit, no more messages."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gnnqlab.compute import Int8Products
from gnnqlab.compute.recompute import RecomputeContext
from gnnqlab.course.experiments.kept_bytes import live_matrices, live_matrices_of_pass
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import make_system, vanilla
from gnnqlab.train.config.run_config import RunConfig, TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer
from tests.cases import each
from tests.graphs import random_graph

NORMED = ("gcn", "graphsage", "gcnii", "jknet", "gat")
SHAPES = [
    *({"name": name, "norm": norm} for name in NORMED for norm in ("layer", "none")),
    {"name": "jknet", "jump": "lstm"},
    {"name": "jknet", "jump": "max"},
    {"name": "jknet", "norm": "none", "activation": "elu"},
    {"name": "gcn", "norm": "none", "activation": "gelu"},
    {"name": "gcnii", "norm": "none", "activation": "elu"},
    {"name": "graphsage", "activation": "gelu-tanh"},
    {"name": "graphsage", "hidden": 16},
    {"name": "sgc"},
    {"name": "dagnn"},
]  # fmt: skip


@each("shape", SHAPES)
def test_recompute_gives_the_losses_and_weights_of_saved_activations(shape):
    graph = random_graph()
    shape = ModelSettings(**{"layers": 4, "hidden": 8, "dropout": 0.3, "input_dropout": 0.3, **shape})
    found = {}
    for keep in ("none", "selective", "full"):
        settings = TrainSettings(recompute=keep, seed=3)
        network = build_model(shape, graph.num_features, graph.num_classes, seed=3)
        trainer = Trainer(LocalGraph(graph, seed=3), label_objective(graph), network, settings)
        found[keep] = [trainer.epoch(epoch) for epoch in range(3)], trainer.parameters.values
    for keep in ("selective", "full"):
        assert found[keep][0] == found["none"][0], keep
        assert torch.equal(found[keep][1], found["none"][1]), keep


SYSTEMS = ("vanilla", "fixed-bits", "pipegcn", "bns-gcn", "cdfgnn", "cagnet", "sar")


@each("name", ["gcn", "graphsage", "gcnii", "jknet"])
def test_one_worker_with_full_recompute_saves_memory_at_equal_losses(name):
    graph, shape = random_graph(), ModelSettings(name=name, layers=3, hidden=16)
    system = make_system("vanilla")
    found = {}
    for keep in ("none", "full"):
        settings = TrainSettings(recompute=keep, seed=3)
        threads = ThreadedWorkers(graph, cut_graph(graph, system.partition, 1), system, shape, settings)
        losses, weights = [threads.step(epoch) for epoch in range(3)], threads.trainers[0].parameters.values
        found[keep] = losses, weights, threads.run(lambda trainer: live_matrices_of_pass(trainer, 16))[0]
    assert found["full"][0] == found["none"][0]
    assert torch.equal(found["full"][1], found["none"][1])
    assert found["full"][2] < found["none"][2] - 0.5, name


@each(("name", "model"), [*((name, "graphsage") for name in SYSTEMS), ("vanilla", "gat"), ("fixed-bits", "gcnii")])
def test_selective_recompute_does_not_change_messages_losses_or_weights(name, model):
    graph, shape = random_graph(), ModelSettings(name=model, layers=3, hidden=8)
    system = make_system(name)
    if name in ("vanilla", "fixed-bits"):
        system = replace(system, partition=Random())
    cut = cut_graph(graph, system.partition, 2)
    found = {}
    for keep in ("none", "selective"):
        settings = TrainSettings(recompute=keep, seed=3)
        threads = ThreadedWorkers(graph, cut, system, shape, settings, as_launched=True)
        sent, put = Counter(), threads._mail.put

        def counted(sender, receiver, message, sent=sent, put=put):
            sent[sender, receiver, message.numel()] += 1
            put(sender, receiver, message)

        threads._mail.put = counted
        losses = [threads.step(epoch) for epoch in range(3)]
        found[keep] = losses, sent, threads.trainers[0].parameters.values
    assert found["selective"][0] == found["none"][0]
    assert found["selective"][1] == found["none"][1] and found["none"][1].total() > 0
    assert torch.equal(found["selective"][2], found["none"][2])


def test_gcn_holds_fewer_the_less_it_keeps():
    graph, shape = random_graph(2000, 4000, features=32), ModelSettings(layers=3, hidden=32)
    found = {keep: live_matrices(graph, shape, keep) for keep in ("none", "selective", "full")}
    assert 5 < found["none"] <= 9
    assert found["full"] <= 5
    assert found["none"] - 1.1 < found["selective"] + 0.1 < found["none"]
    assert found["full"] < found["selective"] - 0.9


def test_sums_are_the_same_for_two_workers():
    graph, shape = random_graph(1000, 1500, features=32), ModelSettings(layers=3, hidden=32)
    found = {keep: live_matrices(graph, shape, keep, workers=2) for keep in ("none", "selective")}
    assert found["selective"] < found["none"] - 0.9


def test_registered_tensor_is_recomputed_and_not_saved():
    x, w = torch.randn(50, 8), torch.randn(8, 8, requires_grad=True)
    kept: list[Tensor] = []
    with RecomputeContext("selective", kept.append) as remakes:
        y = x @ w
        remakes.register(y, torch.mm, x, w)
        loss = (y.exp() * y).sum()
    assert sum(each.data_ptr() == y.data_ptr() for each in kept) == 0
    loss.backward()
    ours, w.grad = w.grad, None
    y = x @ w
    (y.exp() * y).sum().backward()
    assert torch.equal(ours, w.grad)


def test_overwritten_result_is_saved_and_overwritten_input_raises():
    x, w = torch.ones(4, 3), torch.ones(3, 3, requires_grad=True)
    with RecomputeContext("selective") as remakes:
        y = x @ w
        remakes.register(y, torch.mm, x, w)
        loss = y.mul_(2).square().sum()  # squares the changed values, not the product
    loss.backward()
    assert w.grad is not None and w.grad[0].tolist() == [96.0] * 3
    with RecomputeContext("selective") as remakes:
        y = x @ w
        remakes.register(y, torch.mm, x, w)
        loss = y.square().sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="was overwritten"):
        loss.backward()


def test_long_chains_are_made_in_pieces():
    runs = 0

    def twice(h: Tensor) -> Tensor:
        nonlocal runs
        runs += 1
        return h * h + h

    h = torch.full((2, 2), 0.1, requires_grad=True)
    with RecomputeContext("selective") as remakes:
        y = h
        for _ in range(40):
            z = twice(y)
            remakes.register(z, twice, y)
            y = z
        loss = y.sum()
    runs = 0
    loss.backward()
    assert 0 < runs < 40 * 7


def test_other_keeps_are_refused():
    with pytest.raises(ValueError, match="keep must be one of"):
        RecomputeContext("none")


def test_impossible_recompute_settings_raise_value_error():
    less = TrainSettings(recompute="selective")
    with pytest.raises(ValueError, match="recompute 'selective' recomputes float32 products, got compute Int8"):
        RunConfig(graph="digits", system=replace(vanilla(), compute=Int8Products()), train=less)
    with pytest.raises(ValueError, match="2 workers would have to send their rows twice; choose recompute 'selective'"):
        RunConfig(graph="digits", train=replace(less, recompute="full"))
    assert RunConfig(graph="digits", train=replace(less, recompute="full"), workers=1).workers == 1
    graph, shape, nothing = random_graph(), ModelSettings(), replace(less, recompute="full")
    with pytest.raises(ValueError, match="2 workers would have to send their rows twice"):
        ThreadedWorkers(graph, cut_graph(graph, Random(), 2), vanilla(), shape, nothing)
    with pytest.raises(ValueError, match="must be 'none', 'selective' or 'full', got 'some'"):
        TrainSettings(recompute="some")
