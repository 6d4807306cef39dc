"""Rounding rules side by side: what each promises holds, and what is left over many draws."""

import pytest
import torch

from gnnqlab.course.experiments.real_message import RealMessage
from gnnqlab.course.rounding_rules import RULES, averaging_chart, decoded_by


@pytest.fixture(scope="module")
def message() -> RealMessage:
    rows = torch.randn(20, 12, generator=torch.Generator().manual_seed(4))
    return RealMessage(rows, torch.arange(20), 0, 1, layer=1, epoch=0, seed=2)


def test_nearest_errs_by_half_a_step_and_always_alike(message: RealMessage) -> None:
    decoded = decoded_by("nearest", message, 4, 3)
    step = (message.rows.amax(dim=1) - message.rows.amin(dim=1))[:, None] / 15
    assert ((decoded[0] - message.rows).abs() <= 0.5 * step + 1e-6).all()
    assert torch.equal(decoded[0], decoded[2])


def test_a_symmetric_code_stands_on_one_ruler_with_zero_on_it(message: RealMessage) -> None:
    decoded = decoded_by("symmetric", message, 4, 2)
    codes = decoded / (message.rows.abs().max() / 7)
    assert torch.allclose(codes, codes.round(), atol=1e-4) and codes.abs().max() <= 7.001
    with pytest.raises(ValueError, match="keeps a bit for the sign, so bits must be at least 2, got 1"):
        decoded_by("symmetric", message, 1, 1)


def test_nearest_is_nearer_once_and_farther_in_the_long_run(message: RealMessage) -> None:
    frame = averaging_chart(message, bits=2, draws=64).frame
    assert frame["nearest"].iloc[0] < frame["stochastic"].iloc[0]
    assert frame["nearest"].iloc[-1] == pytest.approx(frame["nearest"].iloc[0])
    # Independent errors: the mean of 64 is an eighth as long.
    assert frame["stochastic"].iloc[-1] == pytest.approx(frame["stochastic"].iloc[0] / 8, rel=0.25)
    assert list(frame.columns) == list(RULES)


def test_an_unknown_rule_is_refused(message: RealMessage) -> None:
    with pytest.raises(ValueError, match="a rule must be one of"):
        decoded_by("truncate", message, 2, 1)
