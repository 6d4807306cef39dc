"""Negatives: distinct pools, uniform draws, never an end of the link, and independent of the number of workers."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.train.link_prediction.negatives import FIXED, against, draw_pool


def test_pools_are_distinct_and_every_node_is_as_likely() -> None:
    counts = torch.zeros(50)
    for epoch in range(400):
        pool = draw_pool(50, 10, seed=3, epoch=epoch)
        assert pool.unique().numel() == 10
        counts[pool] += 1
    # A node is in a fifth of the pools: 80 ± 8; none of fifty nodes deviates by five standard deviations.
    assert float((counts - 80).abs().max()) < 40
    assert sorted(draw_pool(50, 50, seed=0, epoch=1).tolist()) == list(range(50))
    assert not torch.equal(draw_pool(50, 10, seed=3, epoch=0), draw_pool(50, 10, seed=3, epoch=0, use=FIXED))
    with pytest.raises(ValueError, match="at most all 5, got size 6"):
        draw_pool(5, 6, seed=0, epoch=0)


def test_negatives_are_uniform_and_never_an_endpoint() -> None:
    pool = torch.tensor([7, 3, 9, 0, 5])
    sources, targets = torch.full((6000,), 9), torch.full((6000,), 7)
    places = against(pool, sources, targets, torch.arange(6000), count=2, seed=1, epoch=4)
    counts = pool[places].flatten().bincount(minlength=10)
    assert counts[[0, 3, 5]].sum() == 12000
    # Each is a third of 12000 draws: 4000 ± 52.
    assert int((counts[[0, 3, 5]] - 4000).abs().max()) < 260
    absent = against(pool, torch.full((6000,), 1), torch.full((6000,), 2), torch.arange(6000), count=1, seed=1, epoch=4)
    assert int((absent.flatten().bincount(minlength=5) - 1200).abs().max()) < 5 * 31


def test_draws_belong_to_a_link_not_to_its_place() -> None:
    pool = draw_pool(100, 30, seed=0, epoch=2)
    numbers = torch.arange(40)
    sources, targets = numbers, (numbers + 1) % 100
    whole = against(pool, sources, targets, numbers, count=3, seed=0, epoch=2)
    some = torch.tensor([31, 4, 17])
    assert torch.equal(against(pool, sources[some], targets[some], some, count=3, seed=0, epoch=2), whole[some])
    assert not torch.equal(against(pool, sources, targets, numbers, count=3, seed=0, epoch=3), whole)
