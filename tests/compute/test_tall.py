"""Float32 products of many rows with our own kernel: values, gradients, use of the framework's kernel, and the law."""

from __future__ import annotations

from dataclasses import replace

import torch

from gnnqlab.compute.float32 import PLAIN
from gnnqlab.kernels.dense.tall_skinny import own_products
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

ROWS, INNER, COLUMNS = 1100, 20, 12
SETTINGS = TrainSettings(seed=5)
STEP = 2.0**-24


def _leaves(by_row: bool | None) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    shapes = [(ROWS, INNER), (INNER, COLUMNS)]
    shapes += [] if by_row is None else [(ROWS, COLUMNS) if by_row else (COLUMNS,)]
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


@each("by_row", [None, False, True])
def test_values_and_gradients_are_those_of_float64(by_row: bool | None) -> None:
    """Sums of I, O and N products, each off by the roundings of its chain."""
    given = _leaves(by_row)
    x, w, *base = given
    with own_products(True):
        y = PLAIN.linear(x, w) if by_row is None else PLAIN.affine(base[0], x, w)
        assert y.grad_fn is not None and y.grad_fn.name() == "AffineBackward"
        y.backward(torch.cos(y.detach()))
    wide = [each.detach().double().requires_grad_() for each in given]
    true = wide[0] @ wide[1] + (wide[2] if base else 0.0)
    true.backward(torch.cos(y.detach()).double())
    assert (y - true).abs().max() < 4 * INNER * STEP * float(x.detach().abs().max() * w.detach().abs().max())
    for found, exact in zip(given, wide, strict=True):
        assert found.grad is not None and exact.grad is not None and found.grad.shape == exact.grad.shape
        assert (found.grad - exact.grad).abs().max() < 64 * STEP * exact.grad.abs().max()


def test_products_without_gradients_are_the_kernels_and_second_gradients_the_frameworks() -> None:
    x, w, base = _leaves(False)
    with own_products(True), torch.no_grad():
        out = torch.empty(ROWS, COLUMNS)
        assert PLAIN.addmm(base, x, w, out=out) is out and torch.equal(PLAIN.affine(base, x, w), out)
        assert torch.equal(PLAIN.mm(out, w, transposed="b"), PLAIN.mm(out, w.t().contiguous()))
        again = out.clone()
        PLAIN.addmm(again, x, w, out=again)
        assert torch.allclose(again, out + x @ w, atol=1e-5)
    with own_products(True):
        (slope,) = torch.autograd.grad(PLAIN.linear(x, w).square().sum(), x, create_graph=True)
        (found,) = torch.autograd.grad(slope.sum(), w)
    (slope,) = torch.autograd.grad((x @ w).square().sum(), x, create_graph=True)
    (true,) = torch.autograd.grad(slope.sum(), w)
    assert torch.allclose(found, true, rtol=1e-4, atol=1e-3)


def passes(trainer: Trainer) -> tuple[list[float], torch.Tensor]:
    with own_products(True):
        losses = [trainer.gradients(epoch) for epoch in range(2)]
    return losses, trainer.parameters.gradients.clone()


def shape(name: str) -> ModelSettings:
    return ModelSettings(name=name, layers=3, hidden=16, dropout=0.3)


def on_rank(rank: int, workers: int, graph) -> dict[str, tuple[list[float], torch.Tensor]]:
    shard = build_shard(graph, Random(seed=1).cut(graph, workers).owner, rank, workers)
    system = replace(vanilla(), partition=Random())
    return {name: passes(worker_trainer(shard, system, shape(name), SETTINGS)) for name in ("gcn", "graphsage")}


def test_two_workers_equal_one_process() -> None:
    graph = random_graph(nodes=2600, edges=9000, features=12)
    for name, (losses, gradients) in run_ranks(on_rank, 2, graph)[0].items():
        model = build_model(shape(name), graph.num_features, graph.num_classes, seed=SETTINGS.seed)
        true, whole = passes(Trainer(LocalGraph(graph, seed=SETTINGS.seed), label_objective(graph), model, SETTINGS))
        assert all(abs(a - b) < 1e-5 * b for a, b in zip(losses, true, strict=True))
        assert (gradients - whole).abs().max() < 1e-5 * whole.abs().max()
