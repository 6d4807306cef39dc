"""Flat parameters, clipping and our Adam, compared with PyTorch's."""

from __future__ import annotations

import copy

import torch

import gnnqlab as gq
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.fit import fit
from gnnqlab.train.loop.optimizers import make_optimizer
from gnnqlab.train.loop.parameters import FlatParameters
from tests.graphs import random_graph
from tests.ranks import run_ranks
from tests.run.folders import run_folder


def test_adam_equals_torch():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 3))
    other = copy.deepcopy(model)
    flat = FlatParameters(model)
    ours = make_optimizer(flat, **TrainSettings(lr=0.01, weight_decay=0.1).optimizer_arguments)
    theirs = torch.optim.Adam(other.parameters(), lr=0.01, weight_decay=0.1, fused=True)
    for _ in range(20):
        x = torch.randn(11, 7)
        flat.zero()
        loss = model(x).square().mean()
        loss.backward()
        ours.step(0)
        theirs.zero_grad()
        other(x).square().mean().backward()
        theirs.step()
    for mine, reference in zip(model.parameters(), other.parameters(), strict=True):
        # the same fused kernel on one buffer instead of six: the ends of vectors may round differently
        torch.testing.assert_close(mine, reference, rtol=1e-6, atol=1e-7)


def test_clipped_gradients_equal_those_of_torch():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.Linear(5, 3))
    flat = FlatParameters(model)
    flat.gradients.normal_()
    flat.facts.fill_(9.0)
    norm = float(flat.gradients.norm())
    for max_norm in (0.5 * norm, 2.0 * norm):
        other = copy.deepcopy(model)
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            theirs.grad = mine.grad.clone()
        torch.nn.utils.clip_grad_norm_(other.parameters(), max_norm)
        flat.clip_gradients(max_norm)
        expected = torch.cat([parameter.grad.flatten() for parameter in other.parameters()])
        torch.testing.assert_close(flat.gradients, expected)
        assert (flat.facts == 9.0).all()  # facts of the all-reduce are not gradients


def test_a_run_trains_with_clipped_gradients(tmp_path):
    losses = {}
    for name, max_norm in (("free", None), ("clipped", 1e-12)):
        settings = {"layers": 2, "hidden": 8, "epochs": 5, "dropout": 0.0, "lr": 0.1, "workers": 1}
        run = run_folder(tmp_path, name, gq.configure(random_graph(seed=1), max_gradient_norm=max_norm, **settings))
        fit(run.config, run.folder, 0, 1, Heartbeat(None))
        losses[name] = run.records["loss"]
    assert losses["free"].iloc[-1] < 0.9 * losses["free"].iloc[0]
    # Far below the epsilon of Adam, so that the weights hardly change.
    assert abs(losses["clipped"].iloc[-1] / losses["clipped"].iloc[0] - 1) < 1e-3


def test_values_and_gradients_are_views():
    model = torch.nn.Linear(3, 2)
    flat = FlatParameters(model)
    flat.values.fill_(2.0)
    assert (model.weight == 2).all() and (model.bias == 2).all()
    model(torch.ones(1, 3)).sum().backward()
    assert flat.gradients.tolist() == [1.0] * 8


def broadcast_buffers(rank, workers):
    model = torch.nn.BatchNorm1d(3)  # two float32 buffers and a count
    model.register_buffer("mask", torch.tensor([[rank == 0, False]]))
    model.register_buffer("columns", torch.arange(6.0).view(2, 3).T * (rank + 1))  # not contiguous
    model.running_mean.fill_(5.0 + rank)
    model.num_batches_tracked.fill_(7 + rank)
    FlatParameters(model).broadcast()
    return [buffer.tolist() for buffer in model.buffers()]


def test_buffers_are_those_of_rank_0_on_every_rank():
    first, second = run_ranks(broadcast_buffers, 2)
    assert first == second
    assert first == [[5.0] * 3, [1.0] * 3, 7, [[True, False]], torch.arange(6.0).view(2, 3).T.tolist()]
