"""Samples of boundary rows: the right share, independent samples, and refused settings."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.message import AllRows, BoundarySampling
from tests.cases import each

IDS = torch.arange(20_000)


def kept(sampler, **changes):
    return sampler.sampled_positions(IDS, **{"holder": 1, "seed": 0, "epoch": 0, **changes})


@each("p", [0.01, 0.1, 0.5])
def test_each_row_is_sampled_with_probability_p(p):
    share = kept(BoundarySampling(p=p)).numel() / IDS.numel()
    assert abs(share - p) < 5 * (p * (1 - p) / IDS.numel()) ** 0.5


def test_a_sample_belongs_to_seed_epoch_and_holder():
    sampler = BoundarySampling(p=0.5)
    first = kept(sampler)
    assert torch.equal(first, kept(sampler))
    for changes in ({"holder": 2}, {"seed": 1}, {"epoch": 1}):
        both = torch.isin(first, kept(sampler, **changes)).sum() / IDS.numel()
        assert abs(both - 0.25) < 5 * (0.25 * 0.75 / IDS.numel()) ** 0.5  # samples are independent


def test_sampling_of_a_row_does_not_depend_on_other_rows():
    sampler = BoundarySampling(p=0.5)
    some = IDS[::7]
    assert torch.equal(
        some[sampler.sampled_positions(some, holder=1, seed=0, epoch=0)], some[torch.isin(some, kept(sampler))]
    )


def test_the_ends_of_the_range():
    assert kept(BoundarySampling(p=0.0)).numel() == 0
    assert torch.equal(kept(BoundarySampling(p=1.0)), IDS) and torch.equal(kept(AllRows()), IDS)
    assert BoundarySampling(p=0.0).sampled_positions(IDS[:0], holder=0, seed=0, epoch=0).numel() == 0
    assert BoundarySampling(p=0.1).rescale == 65536 / 6554  # of the probability that the generator uses


@each(
    ("settings", "text"),
    [
        ({"p": 1.5}, r"p must be 0 or lie in \(2\*\*-17, 1\], got 1.5"),
        ({"p": -0.1}, "p must be 0 or lie"),
        ({"p": 1e-9}, "p must be 0 or lie"),
        ({"p": float("nan")}, "p must be 0 or lie"),
        ({"attention": "keys"}, "attention must be 'weights', 'none' or 'input', got 'keys'"),
    ],
)
def test_mistakes_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        BoundarySampling(**settings)
