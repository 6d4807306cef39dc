"""Flat parameters and our Adam, compared with PyTorch's."""

from __future__ import annotations

import copy

import torch

from gnnqlab.train.loop.parameters import Adam, FlatParameters


def test_adam_equals_torch():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 3))
    other = copy.deepcopy(model)
    flat = FlatParameters(model)
    ours = Adam(flat, lr=0.01, weight_decay=0.1)
    theirs = torch.optim.Adam(other.parameters(), lr=0.01, weight_decay=0.1, fused=True)
    for _ in range(20):
        x = torch.randn(11, 7)
        flat.zero()
        loss = model(x).square().mean()
        loss.backward()
        ours.step()
        theirs.zero_grad()
        other(x).square().mean().backward()
        theirs.step()
    for mine, reference in zip(model.parameters(), other.parameters(), strict=True):
        # the same fused kernel on one buffer instead of six: the ends of vectors may round differently
        torch.testing.assert_close(mine, reference, rtol=1e-6, atol=1e-7)


def test_values_and_gradients_are_views():
    model = torch.nn.Linear(3, 2)
    flat = FlatParameters(model)
    flat.values.fill_(2.0)
    assert (model.weight == 2).all() and (model.bias == 2).all()
    model(torch.ones(1, 3)).sum().backward()
    assert flat.gradients.tolist() == [1.0] * 8
