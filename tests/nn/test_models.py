"""Settings of models, and their formulas at extreme values."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.graph import Graph
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.nn.models import registry
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks


def logits(name: str, **settings) -> torch.Tensor:
    graph = random_graph()
    model = build_model(ModelSettings(name=name, hidden=8, dropout=0.0, **settings), 12, 4, seed=1)
    return model(LocalGraph(graph).open_pass(0, training=False), graph.features)


def test_a_model_has_the_norm_its_authors_use():
    assert ModelSettings(name="gat").norm == "layer"
    assert ModelSettings(name="gcnii").norm == "none"
    assert ModelSettings(name="gcnii", norm="layer").norm == "layer"


@each(
    ("settings", "text"),
    [
        ({"name": "gcn", "heads": 2}, r"heads is a setting of \['gat'\], got 2 for 'gcn'; leave it out"),
        (
            {"name": "gat", "hidden": 10, "heads": 4},
            r"divide hidden evenly, got 4 heads for 10; set heads to one of \[1, 2, 5, 10\], or hidden to 12$",
        ),
        ({"name": "gat", "hidden": 6, "heads": 0}, r"got 0 heads for 6; set heads to one of \[1, 2, 3, 6\]$"),
        ({"name": "sgc", "norm": "layer"}, r"norm of sgc must be one of \('none',\), got 'layer'"),
        ({"name": "gcnii", "initial_share": 1.5}, r"initial_share must lie in \[0, 1\]"),
        ({"name": "jknet", "jump": "sum"}, "jump must be 'cat', 'max' or 'lstm', got 'sum'"),
        ({"name": "gin"}, "model must be one of .*'sgc'.*, got 'gin'"),
    ],
)
def test_mistakes_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        ModelSettings(**settings)


def test_gcnii_that_keeps_its_first_rows_needs_no_neighbour():
    """α = 1: every layer starts from H^0, so an edge changes nothing."""
    shape = ModelSettings(name="gcnii", layers=3, hidden=8, initial_share=1.0)
    graph, other = random_graph(edges=240), random_graph(edges=10)
    model = build_model(shape, 12, 4, seed=1)
    outputs = [model(LocalGraph(g).open_pass(0, training=False), graph.features) for g in (graph, other)]
    torch.testing.assert_close(*outputs)


def gcnii_on_rank(rank, workers, graph, owner):
    """Train GCNII with α = 1 while the halo rows of every exchange are overwritten with nonsense; return gradients."""
    shape = ModelSettings(name="gcnii", layers=3, hidden=8, dropout=0.0, initial_share=1.0)
    trainer = worker_trainer(build_shard(graph, owner, rank, workers), vanilla(), shape, TrainSettings(seed=1))
    exchange = trainer.exchange
    assert exchange is not None
    run = exchange.schedule.run

    def nonsense(step, place):
        dependent = step.dependent

        def on_nonsense(round):
            if place.direction == "forward":
                step.halo = torch.full_like(step.halo, 1e3)
            dependent(round)

        step.dependent = on_nonsense
        run(step, place)

    object.__setattr__(exchange.schedule, "run", nonsense)
    losses = [trainer.epoch(epoch) for epoch in range(3)]
    return torch.tensor(losses), trainer.parameters.gradients


def test_gcnii_that_keeps_its_first_rows_needs_no_halo():
    """α = 1 with two workers: received rows have no weight, neither in the loss nor in a gradient."""
    graph = random_graph()
    results = run_ranks(gcnii_on_rank, 2, graph, Random(seed=1).assign(graph, 2))
    shape = ModelSettings(name="gcnii", layers=3, hidden=8, dropout=0.0, initial_share=1.0)
    network = build_model(shape, 12, 4, seed=1)
    truth = Trainer(LocalGraph(graph, seed=1), label_objective(graph), network, TrainSettings(seed=1))
    losses = torch.tensor([truth.epoch(epoch) for epoch in range(3)])
    for found, gradients in results:
        torch.testing.assert_close(found, losses)
        torch.testing.assert_close(gradients, truth.parameters.gradients)


def test_gcnii_without_weights_needs_none():
    """θ = 0 (λ that float32 cannot distinguish from 0): H P alone is mixed, and W gets no gradient."""
    graph = random_graph()
    shape = ModelSettings(name="gcnii", layers=3, hidden=8, dropout=0.0, identity_decay=1e-30)
    outputs = []
    for seed in (1, 2):
        model = build_model(shape, 12, 4, seed=1)
        with torch.no_grad():
            for weight in model.weights:
                weight.normal_(generator=torch.Generator().manual_seed(seed))
        out = model(LocalGraph(graph).open_pass(0, training=False), graph.features)
        out.square().sum().backward()
        assert not any(weight.grad.any() for weight in model.weights) and model.first.weight.grad.any()
        outputs.append(out.detach())
    assert torch.equal(*outputs)


def test_every_dropout_of_a_pass_has_a_mask_of_its_own():
    x = torch.ones(60, 400)
    one_pass = LocalGraph(random_graph()).open_pass(3, training=True)
    first, second = (one_pass.dropout(x, 0.5) > 0 for _ in range(2))
    # Two masks of 24 000 elements agree in half of them; five standard errors.
    assert abs(float((first == second).float().mean()) - 0.5) < 5 * 0.5 / 24_000**0.5
    assert torch.equal(LocalGraph(random_graph()).open_pass(3, training=True).dropout(x, 0.5) > 0, first)


def test_dagnn_without_hops_is_a_gated_perceptron():
    """K = 0: ``sigmoid(<Z, w> + c) Z`` and no neighbour. Settings begin at one hop, so the module's is set."""
    graph = random_graph()
    model = build_model(ModelSettings(name="dagnn", layers=1, hidden=8), 12, 4, seed=1)
    model.hops = 0
    z = torch.relu(graph.features @ model.first.weight + model.first.bias) @ model.second.weight + model.second.bias
    gated = torch.sigmoid(z @ model.gate.weight + model.gate.bias) * z
    torch.testing.assert_close(model(LocalGraph(graph).open_pass(0, training=False), graph.features), gated)


def test_dagnn_with_closed_gates_outputs_zero():
    """With a permanently closed gate (bias to minus infinity) nothing is left."""
    graph = random_graph()
    model = build_model(ModelSettings(name="dagnn", layers=4, hidden=8), 12, 4, seed=1)
    with torch.no_grad():
        model.gate.bias.fill_(-1e9)
        assert not model(LocalGraph(graph).open_pass(0, training=False), graph.features).any()


def test_attention_without_preference_is_the_mean():
    graph = random_graph()
    model = build_model(ModelSettings(name="gat", layers=1, hidden=8), 12, 4, seed=1)
    layer = model.convolutions[0]
    with torch.no_grad():
        layer.a_source.zero_()
        layer.a_target.zero_()
        g = LocalGraph(graph).open_pass(0, training=False)
        torch.testing.assert_close(
            model(g, graph.features), g.aggregate(graph.features @ layer.weight, alpha="mean") + layer.bias
        )


def test_heads_share_the_width():
    assert logits("gat", layers=2, heads=4).shape == (60, 4)


def test_the_largest_of_equal_layers_is_that_layer():
    h = torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(LocalGraph(random_graph()).open_pass(0, training=False).join([h] * 4, "max"), h)


@each("jump", ["cat", "max"])
def test_the_join_of_jknet_is_dropped_last_of_all(jump):
    """Joined and dropped in one pass: the mask is the last of the pass, as if both were separate steps."""
    graph, seen = random_graph(), {}
    model = build_model(ModelSettings(name="jknet", layers=3, hidden=8, jump=jump, dropout=0.4), 12, 4, seed=1)
    for how in ("one", "steps"):
        g = LocalGraph(graph, seed=2).open_pass(3, training=True)
        if how == "steps":
            joined = {"cat": lambda layers: torch.cat(layers, 1), "max": lambda layers: torch.stack(layers).amax(0)}[
                jump
            ]
            g.join = lambda layers, _, *, dropout, g=g, joined=joined: g.dropout(joined(layers), dropout)
        loss = model(g, graph.features).square().sum()
        seen[how] = loss, *torch.autograd.grad(loss, list(model.parameters()))
    assert all(torch.equal(*pair) for pair in zip(seen["one"], seen["steps"], strict=True))


def test_sgc_projects_or_propagates_first_alike():
    """Linear: ``P^K (X W_1) W_2 + b``, which is trained, equals ``(P^K X) W_1 W_2 + b``, X propagated once for all."""
    graph = random_graph()
    model = build_model(ModelSettings(name="sgc", layers=8, hidden=16, dropout=0.0), 12, 4, seed=1)
    g = LocalGraph(graph).open_pass(0, training=False)
    x = graph.features
    for _ in range(8):
        x = g.aggregate(x, alpha="symmetric")
    torch.testing.assert_close(
        model(LocalGraph(graph).open_pass(0, training=False), graph.features),
        x @ model.weight @ model.last.weight + model.last.bias,
    )


def losses_of(model: torch.nn.Module, local: LocalGraph, graph: Graph, *, epochs: int) -> list[float]:
    """Train a model on a whole graph; return the loss of each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for epoch in range(epochs):
        out = model(local.open_pass(epoch, training=True), local.features)
        loss = torch.nn.functional.cross_entropy(out[graph.train_mask], graph.labels[graph.train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@each("name", ["gcn", "graphsage", "gat", "gcnii", "dagnn", "sgc", "jknet"])
def test_loss_of_every_model_falls_at_depth_8(name):
    """The loss falls by a tenth in 40 steps; with a wrong sign or a missing gradient it would not."""
    graph = random_graph(nodes=120, edges=400)
    model = build_model(ModelSettings(name=name, layers=8, hidden=16, dropout=0.0), 12, 4, seed=1)
    losses = losses_of(model, LocalGraph(graph), graph, epochs=40)
    assert losses[-1] < 0.9 * losses[0]


class Returning(torch.nn.Module):
    """Linear layer with another result."""

    def __init__(self, in_features, num_classes, result):
        super().__init__()
        self.linear, self.result = torch.nn.Linear(in_features, num_classes), result

    def forward(self, g, x):
        return self.result(self.linear(x))


@each(
    ("result", "text"),
    [
        (lambda h: h[:, :2], r"model returning must return an output of shape \(40, 4\), .*, got \(40, 2\); use num_"),
        (lambda h: h[:5], r"got \(5, 4\)"),
        (lambda h: h.sum(1), r"got \(40,\)"),
        (lambda h: (h, h), "model returning must return one tensor of floating-point numbers, got a tuple"),
        (lambda h: h.argmax(1), "got one of torch.int64; return logits, not classes"),
        (lambda h: h.detach(), "output must depend on a parameter with a gradient, got a loss without"),
    ],
)
def test_wrong_output_of_a_model_is_refused_before_the_loss(result, text, monkeypatch):
    monkeypatch.setitem(registry.MODELS, "returning", lambda settings, *sizes, **_: Returning(*sizes[:2], result))
    monkeypatch.setitem(registry._KINDS, "returning", registry._Kind(("layer", "none"), ModelSettings))
    graph = random_graph(nodes=40)
    model = build_model(ModelSettings(name="returning"), 12, 4, seed=0)
    trainer = Trainer(LocalGraph(graph), label_objective(graph), model, TrainSettings())
    with pytest.raises((ValueError, TypeError), match=text):
        trainer.gradients(0)
