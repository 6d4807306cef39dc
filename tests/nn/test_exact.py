"""Whole models that save codes for their backward pass: bytes by formula, gradients with random errors only."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.compute import ExactActivations, Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.packed import kept_bytes
from gnnqlab.course.experiments.kept_bytes import saved_bytes_by_purpose
from gnnqlab.graph import Graph
from gnnqlab.kernels import native
from gnnqlab.kernels.rowwise.nodewise import disable_fusion
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.nn.models.registry import MODELS
from tests.graphs import random_graph

DRAWS, SIGMAS = 150, 5.0
MODELS_AND_MORE = [*((name, {}) for name in sorted(MODELS)), ("gat", {"heads": 4}), ("jknet", {"jump": "lstm"})]


def _passed(
    graph: Graph, shape: ModelSettings, products: Products, epoch: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits and flat gradients of one pass; dropout is that of the model's shape."""
    model = build_model(shape, graph.num_features, graph.num_classes, seed=1)
    local = LocalGraph(graph, products=products)
    out = model(local.open_pass(epoch, training=True), local.features)
    torch.nn.functional.cross_entropy(out, graph.labels).backward()
    return out.detach(), torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("features", [12, 40])  # aggregated first, and projected first
@pytest.mark.parametrize(("name", "more"), MODELS_AND_MORE)
def test_logits_are_those_of_float32_and_gradients_are_near(name: str, more: dict, features: int) -> None:
    """Equal bit for bit to the same steps one after another: one pass rounds in another order."""
    graph = random_graph(features=features)
    shape = ModelSettings(name=name, hidden=16, layers=3, dropout=0.3, **more)
    found = _passed(graph, shape, ExactActivations().build())
    with disable_fusion():
        exact = _passed(graph, shape, PLAIN)
    assert torch.equal(found[0], exact[0])
    off = float((found[1] - exact[1]).norm() / exact[1].norm())
    assert 0.0 < off < 0.05, off


@pytest.mark.parametrize("name", ["gcn", "graphsage", "gcnii", "sgc", "dagnn"])
def test_mean_gradients_are_those_of_float64(name: str) -> None:
    """Without LayerNorm gradients are linear in the saved tensors: the mean of draws errs only by noise and sums."""
    graph = random_graph(features=40)
    shape = ModelSettings(name=name, hidden=16, layers=2, dropout=0.0, norm="none")
    products = ExactActivations(bits=1, ratio=0.5).build()
    draws = torch.stack([_passed(graph, shape, products, epoch)[1].double() for epoch in range(DRAWS)])
    model = build_model(shape, graph.num_features, graph.num_classes, seed=1).double()
    local = LocalGraph(graph)
    out = model(local.open_pass(0, training=True), local.features.double())
    torch.nn.functional.cross_entropy(out, graph.labels).backward()
    exact = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    bound = SIGMAS * draws.std(0) / DRAWS**0.5 + 1e-5 * exact.abs().max()
    assert ((draws.mean(0) - exact).abs() <= bound).all()
    assert (draws.std(0) > 1e-3 * exact.abs().max()).any(), "nothing was saved in codes"


@pytest.mark.parametrize(("bits", "ratio"), [(8, 1.0), (2, 1.0), (4, 0.5)])
def test_saved_bytes_of_a_gcn_match_the_formula(bits: int, ratio: float) -> None:
    """Two hidden layers of 24, projected first: inputs of two products, of two norms, and two layers of signs."""
    graph, hidden = random_graph(features=40), 24
    shape = ModelSettings(name="gcn", hidden=hidden, layers=3, dropout=0.5)
    found = saved_bytes_by_purpose(graph, shape, ExactActivations(bits=bits, ratio=ratio).build())
    rows = graph.num_nodes
    assert found["inputs of products"] == 2 * kept_bytes(rows, hidden, bits=bits, ratio=ratio)
    assert found["norms"] == 2 * (kept_bytes(rows, hidden, bits=bits) + 8 * rows)
    assert found["activations"] == 2 * -(-rows * hidden // 8)
    plain = saved_bytes_by_purpose(graph, shape, PLAIN)
    assert found["others"] == plain["others"], "the loss and ids"
    with disable_fusion():
        steps = saved_bytes_by_purpose(graph, shape, PLAIN)
    assert steps["inputs of products"] + steps["norms"] + steps["activations"] > 6 * 4 * rows * hidden
    if native.active(torch.device("cpu")):  # a single pass saves nothing between a norm and its ReLU
        assert plain["norms"] == 2 * 4 * rows * (hidden + 2) and plain["activations"] == 0
