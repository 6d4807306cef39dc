"""The rounding error of a row enters its next message: sums of messages equal those of rows, one message is biased."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from gnnqlab.bits import Fixed, UniformRandom
from gnnqlab.exchange import Pipelined
from gnnqlab.message import (
    FP8,
    MXFP8,
    Difference,
    Feedback,
    Float32,
    Linear,
    NoCache,
    Spikes,
    Stochastic,
)  # fmt: skip
from gnnqlab.message.caches.feedback import FedBack
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.selection import AllRowsOfRoute
from gnnqlab.partition.plan import Plan, Route
from gnnqlab.simulation.threaded_workers import LoopbackTransport, Mailbox
from gnnqlab.systems import adaqp, adaqp_r, cagnet, fixed_bits, sar, vanilla
from gnnqlab.worker_context import WorkerContext
from tests.message.kept import ROWS, Two, walk

EPOCHS = 40
NEAREST = [(Linear(), bits) for bits in (1, 2, 4, 8)] + [(FP8(), 8), (MXFP8(), 8), (FP8(elements="e5m2"), 8)]
AT_RANDOM = [(Stochastic(), 2), (Stochastic(parameters="bfloat16"), 8), (Spikes(), 2), (FP8(rounding="stochastic"), 8)]


def step(codec, bits, message, came):
    """Largest step of each row's codes, ``(n, 1)``: bound of the rounding error of an element."""
    spread = (message.amax(1) - message.amin(1))[:, None]
    if isinstance(codec, Linear):
        return spread / 2**bits
    if bits == 8 and not isinstance(codec, Stochastic):  # the step of the largest element; MXFP8 clamps an eighth of it
        mantissa = 2 if codec.elements == "e5m2" else 3
        return message.abs().amax(1)[:, None] * 2.0**-mantissa
    return spread / (2**bits - 1) * (1.02 if getattr(codec, "parameters", "") == "bfloat16" else 1)


@pytest.mark.parametrize(("codec", "bits"), NEAREST + AT_RANDOM, ids=str)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_sums_of_messages_are_within_one_step_of_sums_of_rows(codec, bits, direction):
    two, rows = Two(Feedback(), codec, Fixed(bits=bits), direction=direction), walk(EPOCHS)
    truth = came = torch.zeros(ROWS // 2, 16, dtype=torch.float64)
    left = torch.zeros(ROWS // 2, 16)
    for epoch in range(EPOCHS):
        now = two.epoch(rows(epoch), epoch)[0]
        row = two.sent(rows(epoch), 0)
        truth, came = truth + row, came + now
        message, left = row + left, two.channels[1].selection.left["send", 0].clone()
        # float32: 40 sums of messages below 32, each rounded by at most 2^-20, is below 4e-5
        bound = step(codec, bits, message, now).double() * (1 + 1e-5) + 4e-5
        assert ((truth - came).abs() <= bound).all(), (epoch, float((truth - came).abs().max()))
        assert ((truth - came) - left).abs().max() <= 4e-5, "the missing part is the stored error"


def test_without_it_rounding_to_the_nearest_errs_alike_in_every_epoch():
    """Constant rows: the sum drifts by the same error each epoch, with feedback it does not."""
    drift = {}
    for name, cache in (("plain", NoCache()), ("feedback", Feedback())):
        two, rows = Two(cache, Linear(), Fixed(bits=2)), walk(EPOCHS, pace=0.0)
        off = sum(two.epoch(rows(epoch), epoch)[0] - two.sent(rows(epoch), 0) for epoch in range(EPOCHS))
        drift[name] = float(off.abs().mean())
    assert drift["plain"] > 20 * drift["feedback"], drift


def second_message(cache, draws=400):
    """Mean error of the second message over draws of the noise, after the same first one; coded rows; stored errors.

    A mean of n draws within a step S is off by more than ``S (ln(2 N / p) / 2 n)^(1/2)`` in any of N elements with a
    probability below p (Hoeffding): 0.14 S for 240 elements, 400 draws and p = 1e-4.
    """
    rows, total = walk(2, pace=0.5), 0.0
    two = Two(cache, Stochastic(), Fixed(bits=2))
    two.epoch(rows(0), 0)
    held = [getattr(each, "held", {}) for each in two.caches]
    kept = copy.deepcopy(held)
    for draw in range(draws):
        for now, then in zip(held, kept, strict=True):
            for place, ends in then.items():
                for end, value in ends.items():
                    now[place][end].copy_(value)
        total = total + two.epoch(rows(1), 1 + draw)[0].double()
    row = two.sent(rows(1), 0)
    own = next(iter(kept[1].values()))["send", 0] if kept[1] else torch.zeros_like(row)
    return total / draws - row, row, own


def within(error, message):
    return error.abs() <= 0.14 * (message.amax(1) - message.amin(1))[:, None] / 3 + 1e-6


def test_one_message_is_biased_by_the_fed_back_error_only():
    """Limit of Theorem 1: ``E[C(m)] - x = e``, though the codec is unbiased; 0 without it, and for differences."""
    error, row, left = second_message(Feedback())
    assert within(error - left, row + left).all()
    assert (~within(error, row + left)).double().mean() > 0.5, "most elements are biased beyond doubt"
    error, row, _ = second_message(NoCache())
    assert within(error, row).all()
    error, row, held = second_message(Difference())
    assert within(error, row - held).all()


def test_rounding_error_is_stored_per_row_and_receiver_until_the_row_is_sent():
    """With a sampler a row stores its rounding error until it is sent again."""
    x, mail = torch.tensor([[0.0, 0.4, 4.0], [0.0, 1.3, 4.0], [0.0, 2.2, 4.0]]), Mailbox(2)
    whole = Route(peer=1, rows=torch.tensor([2, 0, 1]), ids=torch.tensor([2, 0, 1]), first=None)
    some = Route(peer=1, rows=whole.rows[[1]], ids=whole.ids[[1]], first=None, sampled_positions=torch.tensor([1]))
    plans = [Plan(rank=0, workers=2, send=(route,), receive=(), accumulate=False) for route in (whole, some)]
    left: dict = {}
    channel = Channel(
        selection=FedBack(plans[0], left), layer=0, direction="forward", plan=plans[0], codec=Linear(),
        bits=Fixed(bits=2), transport=LoopbackTransport(mail, 0), seed=0,
    )  # fmt: skip
    channel.post(x, torch.Size([0, 3]), epoch=0).wait()
    # codes 0..3 of width 1: 0.4 -> 0, 1.3 -> 1, 2.2 -> 2, and 4, the largest, is clamped to 3
    expected = torch.tensor([[0.0, 0.2, 1.0], [0.0, 0.4, 1.0], [0.0, 0.3, 1.0]])
    torch.testing.assert_close(left["send", 1], expected)
    channel.post(x, torch.Size([0, 3]), epoch=1, plan=plans[1]).wait()
    # 0, 0.8, 5 in steps of 1.25: codes 0, 1, 3
    expected[1] = torch.tensor([0.0, -0.45, 1.25])
    torch.testing.assert_close(left["send", 1], expected)


def test_directions_and_exact_rows_are_as_without_it():
    for direction, other in (("forward", "backward"), ("backward", "forward")):
        two = Two(Feedback(direction=direction), Linear(), Fixed(bits=2), direction=other)
        assert {type(channel.selection) for channel in two.channels} == {AllRowsOfRoute}
        two = Two(Feedback(direction=direction), Linear(), Fixed(bits=2), direction=direction)
        assert {type(channel.selection) for channel in two.channels} == {FedBack}
    fed, plain, rows = Two(Feedback(), Float32(), Fixed()), Two(NoCache(), Float32(), Fixed()), walk(3)
    for epoch in range(3):
        assert torch.equal(fed.epoch(rows(epoch), epoch)[0], plain.epoch(rows(epoch), epoch)[0])
    assert fed.channels[0].bytes_payload == plain.channels[0].bytes_payload


def test_feedback_resumes_bit_for_bit_from_a_checkpoint():
    seats = [
        WorkerContext(rank=rank, workers=2, seed=0, ids=torch.arange(2), importance=torch.zeros(2)) for rank in range(2)
    ]
    codec, bits, rows = Linear(), UniformRandom(bit_widths=(1, 2, 8), period=1), walk(6)
    straight, resumed, forgetful = (Two(Feedback(), codec, bits) for _ in range(3))
    for epoch in range(3):
        straight.epoch(rows(epoch), epoch)
    kept = [cache.rows_to_save(worker) for cache, worker in zip(straight.caches, seats, strict=True)]
    assert [list(one) for one in kept] == [["0/forward/0/0/1"], ["0/forward/0/1/0"]], "errors that senders store"
    kept = {name: value.clone() for one in kept for name, value in one.items()}
    for cache, worker in zip(resumed.caches, seats, strict=True):
        cache.restore_rows(kept, worker)
    for epoch in range(3, 6):
        ends = [two.epoch(rows(epoch), epoch)[0] for two in (straight, resumed, forgetful)]
        assert torch.equal(ends[0], ends[1])
        assert not torch.equal(ends[0], ends[2]) or epoch > 3, "without the stored error the results differ"


def test_assigned_bit_widths_reject_biased_feedback_messages():
    for system in (adaqp(), adaqp_r()):
        with pytest.raises(ValueError, match=r"Assigned assume unbiased codes \(AdaQP Theorem 1\); choose cache D"):
            replace(system, cache=Feedback())
    pair = replace(adaqp(), bits=(adaqp().bits, Fixed(bits=2)))
    assert replace(pair, cache=Feedback(direction="backward")).cache.directions == ("backward",)
    with pytest.raises(ValueError, match="AdaQP Theorem 1"):
        replace(pair, cache=Feedback(direction="forward"))


def test_feedback_accepts_compatible_and_rejects_incompatible_parts():
    with pytest.raises(ValueError, match=r"this exchange sends whole blocks to all; choose exchange Halo\(\) or Repl"):
        replace(cagnet(), cache=Feedback())
    with pytest.raises(ValueError, match=r"fetched again for the backward pass .*choose schedule Synchronous\(\)"):
        replace(sar(), cache=Feedback())
    with pytest.raises(ValueError, match="direction must be 'both', 'forward' or 'backward', got 'up'"):
        Feedback(direction="up")
    one_bit = replace(vanilla(), codec=(Stochastic(), Linear()), bits=Fixed(bits=1))
    assert replace(one_bit, cache=Feedback(direction="backward")), "errors of rows forward are not fed back"
    with pytest.raises(ValueError, match="at 1 bit Stochastic"):
        replace(one_bit, cache=Feedback())
    assert replace(fixed_bits(bits=2), cache=Feedback(), schedule=Pipelined())
    assert not replace(fixed_bits(bits=2), cache=Feedback()).uses_stale_rows, (
        "rows are dropped by their sender as usual"
    )
