"""Rows as differences to the receiver's rows: both ends agree, errors do not add up, and steps become fine."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gnnqlab.bits import Fixed, UniformRandom
from gnnqlab.exchange import Pipelined
from gnnqlab.message import (
    FP8,
    MXFP8,
    AdaptiveCache,
    BoundarySampling,
    Difference,
    Feedback,
    Float32,
    Linear,
    NoCache,
    Rotated,
    Spikes,
    Stochastic,
    Unchanged,
)  # fmt: skip
from gnnqlab.systems import adaqp, cagnet, fixed_bits, sar, vanilla
from gnnqlab.worker_context import WorkerContext
from tests.message.kept import ROWS, Two, walk

CODECS = [
    (Float32(), Fixed()),
    (Stochastic(), Fixed(bits=2)),
    (Stochastic(parameters="bfloat16"), UniformRandom(period=2, bit_widths=(2, 4, 8))),
    (Linear(), Fixed(bits=1)),
    (Rotated(), UniformRandom(period=3, bit_widths=(1, 4, 8, 32))),
    (Spikes(count=2), Fixed(bits=4)),
    (FP8(block=5), Fixed(bits=8)),
    (MXFP8(rounding="stochastic"), Fixed(bits=8)),
]


@pytest.mark.parametrize(("codec", "bits"), CODECS, ids=str)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_both_ends_hold_the_same_and_receivers_use_it(codec, bits, direction):
    two, rows = Two(Difference(), codec, bits, direction=direction), walk(5)
    for epoch in range(5):
        halos = two.epoch(rows(epoch), epoch)
        for rank in range(2):
            mine = two.channels[rank].selection.held["receive", 1 - rank]
            theirs = two.channels[1 - rank].selection.held["send", rank]
            assert torch.equal(mine, theirs) and torch.equal(mine, halos[rank])
            assert mine.abs().max() > 0


def test_the_first_message_holds_whole_rows_and_later_ones_differences():
    """A sender whose peers have no rows codes from zero; for the same rows again the difference is the error."""
    two, rows = Two(Difference(), Stochastic(), Fixed(bits=8)), walk(2, pace=0.0)
    plain = Two(NoCache(), Stochastic(), Fixed(bits=8))
    first, usual = two.epoch(rows(0), 0), plain.epoch(rows(0), 0)
    assert all(torch.equal(one, other) for one, other in zip(first, usual, strict=True))
    spread = rows(0)[1].amax() - rows(0)[1].amin()
    second = two.epoch(rows(1), 1)[0]
    step = 2 * spread / 255
    assert (second - two.sent(rows(1), 0)).abs().max() <= step / 255 * 1.01, "a step of a step"


@pytest.mark.parametrize("bits", [2, 4])
def test_errors_stay_those_of_one_difference(bits):
    """An element is off by at most a step of the last difference, which is far finer than a step of a row."""
    codec, rows = Stochastic(), walk(60, pace=0.01)
    two, plain = Two(Difference(), codec, Fixed(bits=bits)), Two(NoCache(), codec, Fixed(bits=bits))
    for epoch in range(60):
        before = two.channels[0].selection.held["receive", 1].clone() if epoch else 0.0
        halo, usual = two.epoch(rows(epoch), epoch)[0], plain.epoch(rows(epoch), epoch)[0]
        truth = two.sent(rows(epoch), 0)
        moved = truth - before
        step = (moved.amax(1) - moved.amin(1)) / (2**bits - 1)
        assert ((halo - truth).abs().amax(1) <= step * (1 + 1e-5) + 1e-6).all(), epoch
    errors = [float((each - truth).square().mean()) for each in (halo, usual)]
    assert errors[0] < errors[1] / 100, errors


def test_at_one_bit_errors_between_ends_would_grow_so_it_is_refused():
    """Measure the growth that the refusal prevents: only the error of a hand-made channel at one bit is unbounded."""
    worst = {}
    for name, codec, bits in (("1", Stochastic(), 1), ("2", Stochastic(), 2), ("rotated", Rotated(), 1),
                              ("linear", Linear(), 1)):  # fmt: skip
        two, rows = Two(Difference(), codec, Fixed(bits=bits)), walk(30, columns=64, pace=0.0)
        for epoch in range(30):
            halo = two.epoch(rows(epoch), epoch)[0]
        worst[name] = float((halo - two.sent(rows(29), 0)).abs().max())
    assert worst["1"] > 1e3 and max(worst["2"], worst["rotated"], worst["linear"]) < 0.1, worst
    grows = r"at 1 bit Stochastic has errors of up to twice .*choose bits of at least 2, or codec Rotated\(\)"
    for cache in (Difference(), Feedback(), Unchanged(differences=True), AdaptiveCache()):
        with pytest.raises(ValueError, match=grows):
            replace(fixed_bits(bits=1), cache=cache)
        for fine in (fixed_bits(bits=2), replace(fixed_bits(bits=1), codec=Rotated())):
            assert replace(fine, cache=cache).cache == cache
    assert replace(fixed_bits(bits=1), cache=Unchanged()).cache == Unchanged(), "whole rows leave no error"
    with pytest.raises(ValueError, match="at 1 bit Spikes"):
        replace(vanilla(), codec=(Float32(), Spikes()), bits=(Fixed(), Fixed(bits=1)), cache=Difference())


def test_difference_cache_rejects_incompatible_parts():
    with pytest.raises(ValueError, match=r"cache Difference cannot work .* choose schedule Synchronous\(\) or Overlap"):
        replace(vanilla(), cache=Difference(), schedule=Pipelined())
    with pytest.raises(ValueError, match=r"cache Difference cannot work .* choose sampler AllRows\(\)"):
        replace(vanilla(), cache=Difference(), sampler=BoundarySampling(p=0.5))
    with pytest.raises(ValueError, match="a block is sent or skipped as a whole, got cache Difference"):
        replace(cagnet(), cache=Difference())
    with pytest.raises(ValueError, match="a cache stores the rows that this schedule frees after use"):
        replace(sar(), cache=Difference())
    assert replace(adaqp(), cache=Difference()).cache == Difference(), "unbiased, so Theorem 1 weighs differences"


def test_held_rows_are_in_checkpoints_once_and_come_back_at_both_ends():
    seats = [
        WorkerContext(rank=rank, workers=2, seed=0, ids=torch.arange(2), importance=torch.zeros(2)) for rank in range(2)
    ]
    codec, bits, rows = Stochastic(), Fixed(bits=2), walk(6)
    straight = Two(Difference(), codec, bits)
    for epoch in range(3):
        straight.epoch(rows(epoch), epoch)
    kept = [cache.rows_to_save(worker) for cache, worker in zip(straight.caches, seats, strict=True)]
    assert [list(one) for one in kept] == [["0/forward/0/1/0"], ["0/forward/0/0/1"]], "receivers' rows, once"
    kept = {name: value.clone() for one in kept for name, value in one.items()}
    resumed = Two(Difference(), codec, bits)
    for cache, worker in zip(resumed.caches, seats, strict=True):
        cache.restore_rows(kept, worker)
    for epoch in range(3, 6):
        for one, other in zip(straight.epoch(rows(epoch), epoch), resumed.epoch(rows(epoch), epoch), strict=True):
            assert torch.equal(one, other)
    assert next(iter(kept.values())).shape == (ROWS // 2, 16)
