"""Every model under the ``compute`` axis: its gradients compared with float64, rounded operands, and exact ones."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.compute import BFloat16Rows, Float32Products, Int8Products, Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.course.experiments.kept_by_layer import saved_bytes_by_layer
from gnnqlab.course.experiments.kept_bytes import live_matrices
from gnnqlab.graph import Graph
from gnnqlab.graph.features import SparseRows
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.nn.sparse_input import SparseInput, project
from gnnqlab.observe import Observer, Observers
from tests.compute.int8_rows import Int8Rows
from tests.compute.rounded import RoundedInFloat64
from tests.graphs import random_graph
from tests.nn.test_models import losses_of

U = 2.0**-8
MODELS_AND_MORE = [*((name, {}) for name in sorted(MODELS)), ("gat", {"heads": 4}), ("jknet", {"jump": "lstm"})]


def _trained_once(
    graph: Graph, shape: ModelSettings, products: Products, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return logits and flat gradients of one pass, as float64."""
    model = build_model(shape, graph.num_features, graph.num_classes, seed=1).to(dtype)
    local = LocalGraph(graph, products=products)
    out = model(local.open_pass(0, training=True), local.features.to(dtype))
    torch.nn.functional.cross_entropy(out, graph.labels).backward()
    gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    return out.detach().double(), gradients.double()


def _apart(found: torch.Tensor, truth: torch.Tensor) -> float:
    return float((found - truth).norm() / truth.norm())


@pytest.mark.parametrize("features", [12, 40])  # aggregated first, and projected first
@pytest.mark.parametrize(("name", "more"), MODELS_AND_MORE)
def test_gradients_are_those_of_rounded_operands_and_exact_sums(name: str, more: dict, features: int) -> None:
    """Compare with the same roundings in float64.

    Float32 sums are off by some 2^-22 of their size, so about one operand's element in 2^13 is near enough to the
    middle between two bfloat16 numbers to be rounded to the other one, a step of 2u of itself. Of the 30 000 here a few
    are, each one of a thousand in its matrix: less than u / 4 in the norm. Without the roundings it is u and more.

    Where two layers take the same rows, their gradients are rounded before they are added: two more roundings, each
    u / 4 in the norm at most (half a step, of which a third is uniform).
    """
    graph = random_graph(features=features, nodes=200, edges=1200)
    shape = ModelSettings(name=name, hidden=16, layers=3, dropout=0.0, **more)
    found = _trained_once(graph, shape, BFloat16Rows().build(), torch.float32)
    truth = _trained_once(graph, shape, RoundedInFloat64(), torch.float64)
    exact = _trained_once(graph, shape, PLAIN, torch.float64)
    for ours, rounded, plain in zip(found, truth, exact, strict=True):
        assert _apart(ours, rounded) < U / (2 if name in ("gcnii", "graphsage", "jknet") else 4)
        assert _apart(ours, plain) < 16 * U
    assert _apart(found[1], exact[1]) > 2 * _apart(found[1], truth[1]), "nothing was rounded"


@pytest.mark.parametrize("part", [BFloat16Rows(), Int8Rows(), Int8Products(), Int8Products(bits=6, scale="tensor")])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_loss_of_every_model_falls_with_reduced_precision_compute(name: str, part) -> None:
    graph = random_graph(nodes=120, edges=400, features=40)
    model = build_model(ModelSettings(name=name, layers=3, hidden=16, dropout=0.2), 40, 4, seed=1)
    losses = losses_of(model, LocalGraph(graph, products=part.build()), graph, epochs=30)
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_rows_between_layers_are_bfloat16_and_so_are_their_gradients(name: str) -> None:
    graph, types = random_graph(features=12), []
    local = LocalGraph(graph, products=BFloat16Rows().build())

    class Activated(Observer):
        def on_operation_ended(self, event):
            if event.operation in ("activate", "activate_both"):
                for h in event.output if isinstance(event.output, tuple) else (event.output,):
                    types.append(h.dtype)
                    if h.requires_grad:
                        h.register_hook(lambda gradient: types.append(gradient.dtype))

    model = build_model(ModelSettings(name=name, hidden=16, layers=3, dropout=0.3), 12, 4, seed=1)
    out = model(local.open_pass(0, training=True, observers=Observers([Activated()])), local.features)
    out.square().sum().backward()
    assert out.dtype == torch.float32
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())
    assert set(types) == ({torch.bfloat16} if name != "sgc" else set()) and len(types) % 2 == 0


@pytest.mark.parametrize(("name", "most"), [("gcn", 0.63), ("gcnii", 0.75), ("graphsage", 0.75), ("gat", 0.8)])
@pytest.mark.parametrize("workers", [1, 2])
def test_bfloat16_rows_reduce_the_bytes_saved_for_backward(name: str, most: float, workers: int) -> None:
    """GCN saves 2.1 matrices instead of 4.1 in two layers, and the same one before the loss.

    Others save bfloat16 features in addition to the existing ones, and GAT sums of float32.
    """
    graph, shape = random_graph(nodes=2000, edges=6000, features=32), ModelSettings(name=name, layers=3, hidden=32)
    ours, theirs = (
        sum(saved_bytes_by_layer(graph, shape, workers=workers, compute=part).values())
        for part in (BFloat16Rows(), Float32Products())
    )
    assert ours < most * theirs
    if name == "gcn" and workers == 1:
        assert live_matrices(graph, shape, compute=BFloat16Rows()) < 0.85 * live_matrices(graph, shape)


def test_sparse_features_meet_rounded_weights() -> None:
    """``X W`` of stored values in float32 and W in bfloat16; ``dW = X.T dY`` with dY in bfloat16."""
    dense = torch.randn(30, 9, generator=torch.Generator().manual_seed(0))
    dense[dense.abs() < 1.0] = 0.0
    rows = dense.nonzero()
    indptr = torch.zeros(31, dtype=torch.int64)
    indptr[1:] = torch.bincount(rows[:, 0], minlength=30).cumsum(0)
    sparse = SparseInput.from_rows(
        SparseRows(indptr=indptr, indices=rows[:, 1].int(), values=dense[dense != 0.0], num_columns=9)
    )
    weight = torch.randn(9, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
    y = project(BFloat16Rows().build(), sparse, weight)
    torch.testing.assert_close(y, dense @ weight.bfloat16().float())
    dy = torch.randn(30, 5, generator=torch.Generator().manual_seed(2))
    y.backward(dy)
    torch.testing.assert_close(weight.grad, dense.t() @ dy.bfloat16().float())


class _Told(RoundedInFloat64):
    """Counts products, and requests of exact products."""

    def __init__(self) -> None:
        super().__init__()
        self.rounded = 0
        self.asked = 0

    @property
    def exact(self) -> Products:
        self.asked += 1
        return PLAIN

    def mm(self, *operands, **more):
        self.rounded += 1
        return super().mm(*operands, **more)


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"dagnn"}))
def test_the_layer_before_the_loss_is_exact(name: str) -> None:
    """A model of one layer of convolution alone rounds nothing; DAGNN has no such layer: every hop is in its sum."""
    graph = random_graph()
    for layers in (1, 3):
        told = _Told()
        shape = ModelSettings(name=name, hidden=16, layers=layers, dropout=0.0)
        model = build_model(shape, graph.num_features, graph.num_classes, seed=1).double()
        local = LocalGraph(graph, products=told)
        model(local.open_pass(0, training=True), local.features.double())
        assert told.asked > 0
        if layers == 1 and name in ("gcn", "graphsage", "gat"):
            assert told.rounded == 0
        else:
            assert told.rounded > 0


def test_a_pass_forgets_the_operands_of_the_one_before() -> None:
    """Weights change without a record in autograd."""
    graph = random_graph()
    products = BFloat16Rows().build()
    local, weight = LocalGraph(graph, products=products), torch.ones(12, 2)
    first = local.open_pass(0, training=True).linear(local.features, weight)
    weight.data.mul_(2.0)
    torch.testing.assert_close(local.open_pass(1, training=True).linear(local.features, weight), 2 * first)
