"""The activation between layers, a setting of every model: models that use or refuse it, and equal workers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

import gnnqlab as gq
from gnnqlab.compute import ExactActivations
from gnnqlab.nn import LocalGraph, ModelSettings, blocks, build_model
from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.nn.models.registry import ACTIVATED
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import RunConfig
from tests.cases import each
from tests.graphs import random_graph

PLAIN = {
    "relu": functional.relu,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "gelu-tanh": lambda z: functional.gelu(z, approximate="tanh"),
}
MODELS = ("gcn", "graphsage", "gat", "gcnii", "dagnn", "jknet")


class InSteps(GraphPass):
    """Apply norm, the expected activation, and dropout, one after another, and ignore the model's activation."""

    expected: str

    def activate(self, y, norm=None, *, activation="relu", dropout=0.0, aggregated_next=True):
        return self.dropout(PLAIN[self.expected](y if norm is None else norm(y)), dropout)

    def activate_both(self, y, norm=None, *, activation="relu", dropout=0.0):
        whole = PLAIN[self.expected](y if norm is None else norm(y))
        return whole, self.dropout(whole, dropout)


def _loss_and_gradients(model, g) -> list[torch.Tensor]:
    loss = model(g, g.graph.features).square().mean()
    return [loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))]


@each("name", MODELS)
def test_every_model_applies_the_configured_activation_between_layers(name):
    graph, losses = LocalGraph(random_graph(), seed=2), {}
    for activation in (None, *ACTIVATED):
        for norm in ("none",) if name == "dagnn" else ("none", "layer"):
            shape = ModelSettings(name=name, layers=3, hidden=8, norm=norm, activation=activation)
            assert shape.activation == (activation or "relu")
            model, steps = build_model(shape, 12, 4, seed=1), InSteps(graph, 3, training=True)
            steps.expected = shape.activation
            found = _loss_and_gradients(model, graph.open_pass(3, training=True))
            for ours, right in zip(found, _loss_and_gradients(model, steps), strict=True):
                # Sums of float32 in another order, e^x and erf off by 1e-7: a few roundings of the largest.
                assert float((ours - right).abs().max()) <= 2e-5 * max(1.0, float(right.abs().max())), shape
            losses[activation, norm] = float(found[0])
    for norm in {norm for _, norm in losses}:
        assert losses[None, norm] == losses["relu", norm], "the default is ReLU"
        assert len({losses[activation, norm] for activation in ACTIVATED}) == len(ACTIVATED), losses


@each("activation", ACTIVATED[1:])
def test_workers_are_one_process(activation):
    """The law, with and without norms, with dropout; JKNet's joins among them."""
    for name, settings in (("gcn", {"norm": "none"}), ("gcnii", {}), ("jknet", {"jump": "max"}), ("gat", {})):
        gq.testing.check_law(name, workers=(2, 3), activation=activation, **settings)


@each("activation", ACTIVATED)
def test_batches_have_it_too(activation):
    graph = random_graph(nodes=30, edges=200, features=5)
    shape = ModelSettings(layers=2, hidden=8, activation=activation, dropout=0.0)
    model, rows = build_model(shape, 5, graph.num_classes, seed=1), torch.arange(30)
    block = blocks.BlockWeights(graph).block(graph.indptr, graph.indices, rows)
    found = blocks.forward(model, [block, block], graph.features, drop=lambda h, *_: h)
    expected = model(LocalGraph(graph).open_pass(0, training=False), graph.features)
    assert float((found - expected).detach().abs().max()) < 1e-5


@each(
    ("settings", "text"),
    [
        ({"name": "gcn", "activation": "tanh"}, r"of gcn must be one of \('relu', .*'gelu-tanh'\), got 'tanh'"),
        ({"name": "gcn", "activation": "none"}, "activation of gcn must be one of .*got 'none'"),
        ({"name": "sgc", "activation": "relu"}, "must be omitted for sgc, which has no such setting, got 'relu'"),
    ],
)
def test_unsupported_activation_raises_value_error(settings, text):
    with pytest.raises(ValueError, match=text):
        ModelSettings(**settings)
    assert ModelSettings(name="sgc").activation is None


def test_codes_of_activations_are_of_a_rectifier():
    """A slope of more than two values does not fit into one bit: refused before training starts, and in a pass."""
    system = replace(vanilla(), compute=ExactActivations())
    for activation in ACTIVATED[1:]:
        shape = ModelSettings(layers=2, hidden=8, activation=activation)
        with pytest.raises(ValueError, match=f"one bit per element for the slope of an activation, got '{activation}'"):
            RunConfig(graph="digits", system=system, model=shape)
        graph = LocalGraph(random_graph(), products=ExactActivations().build())
        with pytest.raises(ValueError, match="choose activation relu, or another compute"):
            build_model(shape, 12, 4, seed=0)(graph.open_pass(0, training=True), graph.features)
    assert RunConfig(graph="digits", system=system, model=ModelSettings(name="sgc")).model.activation is None


def test_activation_is_saved_in_json_and_defaults_to_relu_in_older_files():
    config = gq.configure("digits", model="gat", activation="elu")
    value = json.loads(json.dumps(config.to_json()))
    assert value["model"]["activation"] == "elu" and RunConfig.from_json(value) == config
    del value["model"]["activation"]
    assert RunConfig.from_json(value).model.activation == "relu"
