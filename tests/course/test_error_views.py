"""Rounding errors of rows: charts show the measurements, and each rounding rule satisfies its bound."""

import pytest
import torch

from gnnqlab.course.error_views import (
    RULES,
    averaging_chart,
    decode_by_rule,
    decode_draws,
    error_clouds,
    variance_chart,
    variance_table,
)
from gnnqlab.course.experiments.real_message import RealMessage


@pytest.fixture(scope="module")
def message() -> RealMessage:
    rows = torch.randn(30, 24, generator=torch.Generator().manual_seed(2)).relu()
    return RealMessage(rows, torch.arange(30), 0, 1, layer=1, epoch=0, seed=5)


@pytest.fixture(scope="module")
def table(message: RealMessage):
    return variance_table(message, draws=200)


def test_the_measured_variance_is_the_exact_one(table) -> None:
    # Two standard errors contain 95 %; of four bit-widths with shared noise, 2.5 times that contain all.
    assert ((table["measured"] - table["exact"]).abs() < 2.5 * table["± two"]).all()
    assert table["average"].tolist() == pytest.approx([1 / 6] * 4) and table["worst"].tolist() == pytest.approx(
        [1 / 4] * 4
    )


def test_zeros_make_it_smaller_than_the_average(table) -> None:
    """Half the elements of a ReLU row are zeros, which lie on a mark and have no rounding error."""
    assert (table["exact"] < 0.65 * table["average"]).all()


def test_there_is_no_bias(table, message: RealMessage) -> None:
    # One element's error is at most a step, so its deviation is at most half; 200 draws of 30 x 24 elements.
    assert (table["bias"].abs() < 5 * 0.5 / (200 * 30 * 24) ** 0.5).all()


def test_one_row_alone(message: RealMessage) -> None:
    one = variance_table(message, node=7, widths=(2,), draws=50)
    errors = decode_draws(message, 2, 50)[:, 7] - message.rows[7]
    scale = float(message.rows[7].max() - message.rows[7].min()) / 3
    assert one["measured"].iloc[0] == pytest.approx(float((errors**2).sum(dim=1).mean()) / (24 * scale**2), rel=1e-4)
    with pytest.raises(ValueError, match="node must be one whose row is in the message"):
        variance_table(message, node=99, draws=2)


def test_clouds_shrink_with_every_width(message: RealMessage) -> None:
    shown = error_clouds(message)
    assert shown.frame["spread"].is_monotonic_decreasing
    titles = [note.text.partition("<br>")[0] for note in shown.figure.layout.annotations]
    assert titles == ["1 bit", "2 bits", "4 bits", "8 bits"]
    assert shown.frame["elements"].tolist() == [int((message.rows > 0).sum())] * 4, "zeros are left out"


def test_the_chart_shows_the_table(message: RealMessage) -> None:
    shown = variance_chart(message, draws=20, widths=(2, 8))
    measured = next(trace for trace in shown.figure.data if trace.name == "measured, 20 messages")
    assert list(measured.y) == shown.frame["measured"].tolist()


def test_a_constant_row_has_no_variance() -> None:
    rows = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    message = RealMessage(rows, torch.tensor([0, 1]), 0, 1, layer=1, epoch=0, seed=0)
    table = variance_table(message, draws=5)
    assert table["measured"].tolist() == [0] * 4 and table["bias"].tolist() == [0] * 4


@pytest.fixture(scope="module")
def small_message() -> RealMessage:
    rows = torch.randn(20, 12, generator=torch.Generator().manual_seed(4))
    return RealMessage(rows, torch.arange(20), 0, 1, layer=1, epoch=0, seed=2)


def test_nearest_errs_by_half_a_step_and_always_alike(small_message: RealMessage) -> None:
    decoded = decode_by_rule("nearest", small_message, 4, 3)
    step = (small_message.rows.amax(dim=1) - small_message.rows.amin(dim=1))[:, None] / 15
    assert ((decoded[0] - small_message.rows).abs() <= 0.5 * step + 1e-6).all()
    assert torch.equal(decoded[0], decoded[2])


def test_symmetric_codes_are_multiples_of_one_step_and_need_two_bits(small_message: RealMessage) -> None:
    decoded = decode_by_rule("symmetric", small_message, 4, 2)
    codes = decoded / (small_message.rows.abs().max() / 7)
    assert torch.allclose(codes, codes.round(), atol=1e-4) and codes.abs().max() <= 7.001
    with pytest.raises(ValueError, match="keeps a bit for the sign, so bits must be at least 2, got 1"):
        decode_by_rule("symmetric", small_message, 1, 1)


def test_nearest_is_nearer_once_and_farther_in_the_long_run(small_message: RealMessage) -> None:
    frame = averaging_chart(small_message, bits=2, draws=64).frame
    assert frame["nearest"].iloc[0] < frame["stochastic"].iloc[0]
    assert frame["nearest"].iloc[-1] == pytest.approx(frame["nearest"].iloc[0])
    # Independent errors: the mean of 64 is an eighth as long.
    assert frame["stochastic"].iloc[-1] == pytest.approx(frame["stochastic"].iloc[0] / 8, rel=0.25)
    assert list(frame.columns) == list(RULES)


def test_an_unknown_rule_is_refused(small_message: RealMessage) -> None:
    with pytest.raises(ValueError, match="a rule must be one of"):
        decode_by_rule("truncate", small_message, 2, 1)
