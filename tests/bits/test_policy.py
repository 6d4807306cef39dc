"""Bit policies: allowed widths only, the same on both sides, and the right shares."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gnnqlab.bits import Bits, Fixed, Growing, Rows, UniformRandom
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.bits.orchestrator import Orchestrated
from tests.cases import each


def rows(n: int = 4000, **changes) -> Rows:
    facts = {"layer": 1, "direction": "forward", "sender": 0, "receiver": 1, "ids": torch.arange(n), "seed": 3}
    return Rows(**{**facts, **changes})


def test_random_widths_are_allowed_ones_in_equal_shares():
    widths = UniformRandom(bit_widths=(2, 4, 8)).widths(rows(30000), 0)
    values, counts = widths.unique(return_counts=True)
    assert values.tolist() == [2, 4, 8]
    # five standard errors of a share of one third over 30 000 draws
    assert ((counts / 30000 - 1 / 3).abs() < 5 * (2 / 9 / 30000) ** 0.5).all()


def test_random_widths_change_with_the_period_only():
    policy = UniformRandom(period=10)
    first = policy.widths(rows(), 0)
    assert torch.equal(first, policy.widths(rows(), 9))
    assert not torch.equal(first, policy.widths(rows(), 10))
    assert policy.version(9) == 0 and policy.version(10) == 1


def test_forward_width_belongs_to_the_row_backward_to_row_and_sender():
    policy = UniformRandom()
    assert torch.equal(policy.widths(rows(receiver=1), 0), policy.widths(rows(receiver=2), 0))
    one = policy.widths(rows(direction="backward", sender=1, receiver=0), 0)
    two = policy.widths(rows(direction="backward", sender=2, receiver=0), 0)
    assert not torch.equal(one, two)


@each(
    ("make", "text"),
    [
        (lambda: Fixed(bits=5), r"bits must be one of \(1, 2, 3, 4, 8, 16, 32\), got 5"),
        (
            lambda: UniformRandom(bit_widths=(2, 5)),
            r"widths to draw from must be among \(1, 2, 3, 4, 8, 16, 32\), got \(2, 5\)",
        ),
        (lambda: UniformRandom(bit_widths=()), "widths to draw from must be among"),
        (lambda: UniformRandom(period=0), "period must be at least 1 epoch, got 0"),
    ],
)
def test_bad_settings_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@each("policy", [Assigned, Orchestrated, UniformRandom, Growing])
@each(
    ("bit_widths", "error", "text"),
    [
        (2, TypeError, r"must be several, as \(.*\), got 2"),
        ("248", TypeError, "must be several, as .*, got '248'"),
        ((2.0, 4.0), TypeError, r"must be whole numbers, got \(2.0, 4.0\)"),
        ((True, 2), TypeError, r"must be whole numbers, got \(True, 2\)"),
        (("2",), ValueError, r"must be among .*, got \('2',\)"),
        ((), ValueError, r"must be among .*, got \(\)"),
    ],
)
def test_widths_to_choose_from_are_several_whole_numbers_that_are_known(policy, bit_widths, error, text):
    with pytest.raises(error, match=rf"^bit-widths to (choose|draw) from {text}"):
        policy(bit_widths=bit_widths)


@each("policy", [Assigned, Orchestrated, UniformRandom, Growing])
def test_widths_to_choose_from_may_come_as_any_numbers_that_are_whole(policy):
    assert tuple(policy(bit_widths=[np.int64(2), 4]).bit_widths) == (2, 4)


def test_a_policy_may_define_members_by_their_former_names():
    with pytest.warns(DeprecationWarning, match="Eight.(round is called version|foresee is called predict) now"):

        class Eight(Bits):
            choices = (8,)

            def round(self, epoch):
                return epoch // 5

            def widths(self, rows, epoch):
                return 8

            def foresee(self, context):
                return "predicted"

    assert Eight().version(12) == 2 and Eight().predict(None) == "predicted"
